//! Tests that nothing a worker's login writes is believed by itself: leases, signed verdicts, names of people,
//! malformed events.

use provost_core::model::event::{Approver, Event};
use provost_core::model::plan::StepNumber;
use provost_core::model::proof::ProofKey;
use provost_core::model::timestamp::Timestamp;
use serde_json::{Value, json};

use super::super::cluster::{Cluster, address};
use super::super::*;
use super::doors::{approved, as_user, policy, with_people};
use crate::suite;

const EVENTS: &str = include_str!("../../../../provost-core/test_data/events/v1.jsonl");

fn opened(url: &str, user: &str) -> Postgres {
    Postgres::open(&address(&as_user(url, user))).expect("a log")
}

fn example(name: &str) -> Event {
    let line = EVENTS.lines().find(|line| line.contains(&format!("\"{name}\""))).expect("an example");
    serde_json::from_str(line).expect("an event")
}

fn write(log: &Postgres, fence: Option<&Fence>, events: &[Event]) -> Result<Vec<SealedEvent>, Error> {
    let entries: Vec<_> = events.iter().map(|event| crate::LogEntry { event, task_name: None }).collect();
    log.append(Append {
        plan: &suite::plan("a"),
        expected_seq: log.head(&suite::plan("a"))?.seq,
        at: Timestamp(1),
        fence,
        events: &entries,
        effects: &[],
    })
}

/// Appends one event by SQL, with details and signature as the caller wants.
fn by_sql(
    log: &Postgres,
    name: &str,
    details: &Value,
    fence: Option<&Fence>,
    seal: Option<(&ProofKey, bool)>,
) -> sqlx::Result<()> {
    let head = log.head(&suite::plan("a")).expect("a head");
    let mut sealed =
        provost_core::model::chain::seal(&suite::plan("a"), head, Timestamp(1), &suite::started(1), None);
    (sealed.name, sealed.details, sealed.step) = (name.to_owned(), details.to_string(), Some(StepNumber(1)));
    sealed.hash = sealed.computed_hash();
    let token = fence.and_then(|fence| leases::token(&log.shared.at, fence));
    let key = seal.map(|(key, _)| key.public().to_bytes());
    let seals = seal.map(|(key, honest)| {
        let bytes = if honest { key.sign_event(&sealed.hash) } else { [7; 64] };
        vec![bytes.to_vec()]
    });
    log.shared.with(log.lost_after(), async |connection| {
        sqlx::query("SELECT provost.append('\"a\"', $1, $2, $3, '{1}', ARRAY[$4], '{1}', '{NULL}', ARRAY[$5], ARRAY[$6], '{}', $7, $8, $9)")
            .bind(head.seq.cast_signed())
            .bind(fence.map(|fence| rows::quoted(&fence.name)))
            .bind(fence.map(|fence| fence.epoch.cast_signed()))
            .bind(name)
            .bind(&sealed.details)
            .bind(sealed.hash.0.as_slice())
            .bind(token.as_ref().map(|token| token.as_slice()))
            .bind(key.as_ref().map(|key| key.as_slice()))
            .bind(&seals)
            .execute(connection)
            .await
            .map(drop)
    })
}

/// Returns the first event of the plan that is not believed.
fn doubted(log: &Postgres) -> Option<u64> {
    suite::all(log, Query::plan(&suite::plan("a"))).into_iter().find_map(|sealed| match sealed.event() {
        Ok(Event::TamperDetected { from_seq, .. }) => from_seq,
        Ok(_) => None,
        Err(error) => panic!("the plan cannot be read: {error}"),
    })
}

#[test]
fn a_worker_writes_only_under_the_lease_of_the_plan_that_it_holds() {
    let Some(cluster) = Cluster::shared() else { return };
    let url = with_people(cluster);
    let (walter, other) = (opened(&url, "walter"), opened(&url, "hanna"));
    let started = [suite::started(1)];
    assert!(matches!(write(&walter, None, &started), Err(Error::NotAllowed { .. })), "no lease");
    let of_another = walter.lease("plan b", &suite::someone()).expect("free");
    assert!(matches!(write(&walter, Some(of_another.fence()), &started), Err(Error::NotAllowed { .. })));
    // The lease of another process: its name and epoch can be read, and its secret cannot.
    let held = other.lease("plan a", &suite::someone()).expect("free");
    let details = json!({"step": 1, "attempt": 1, "target": "coder"});
    let stolen = "SELECT provost.append('\"a\"', 0, '\"plan a\"', 1, '{1}', '{TASK_STARTED}', '{1}', '{NULL}', ARRAY['{}'], ARRAY['\\x00'::bytea], '{}')";
    let stolen = stolen.replace("ARRAY['{}']", &format!("ARRAY['{details}']"));
    let refused = cluster.try_sql(&as_user(&url, "walter"), &stolen).expect_err("a stolen lease");
    assert!(refused.to_string().contains("fenced"), "{refused}");
    for theft in [
        "release_lease('\"plan a\"', 1)",
        "renew_lease('\"plan a\"', 1, 10)",
        "release_lease('\"plan a\"', 1, '\\x00')",
    ] {
        let done: bool = cluster.sql(&as_user(&url, "walter"), &format!("SELECT provost.{theft}"))[0].get(0);
        assert!(!done, "{theft}");
    }
    other.renew(held.fence()).expect("still held");
    drop(held);
    let own = walter.lease("plan a", &suite::someone()).expect("free");
    write(&walter, Some(own.fence()), &started).expect("its own lease");
}

#[test]
fn a_lease_ends_within_the_hour_and_only_a_person_breaks_one() {
    let Some(cluster) = Cluster::shared() else { return };
    let url = with_people(cluster);
    let walter = opened(&url, "walter").with_lease_ttl(Duration::from_secs(315_360_000));
    let held = walter.lease("plan a", &suite::someone()).expect("free");
    let late = "SELECT expires > clock_timestamp() + interval '61 minutes' FROM provost.lease";
    assert!(!cluster.sql(&url, late)[0].get::<bool, _>(0), "ten years");
    for user in ["walter", "agnes", "hanna", "rita"] {
        let broken = opened(&url, user).break_lease("plan a");
        assert!(matches!(broken, Err(Error::NotAllowed { .. })), "{user}: {broken:?}");
    }
    let petra = opened(&url, "petra");
    let holder = petra.break_lease("plan a").expect("allowed").expect("a holder");
    assert_eq!(holder, suite::someone().to_string());
    assert_eq!(petra.break_lease("plan a").expect("allowed"), None);
    assert!(matches!(write(&walter, Some(held.fence()), &[suite::started(1)]), Err(Error::Fenced { .. })));
    assert!(walter.renew(held.fence()).is_err());
    let record: String = cluster.sql(&url, "SELECT login || ' ' || name FROM provost.broken_lease")[0].get(0);
    assert_eq!(record, "petra \"plan a\"");
    drop(walter.lease("plan a", &suite::someone()).expect("free again"));
}

#[test]
fn a_verdict_of_a_workers_login_counts_only_with_the_signature_of_a_trusted_key() {
    let Some(cluster) = Cluster::shared() else { return };
    let url = with_people(cluster);
    let (petra, key) = (opened(&url, "petra"), ProofKey::new(&[3; 32]));
    let verdicts = [example("CONTRACT_JUDGED"), example("TASK_COMPLETED")];
    let signing = |user| opened(&url, user).with_signer(ProofKey::new(&[3; 32]));
    for (user, log) in
        [("walter", opened(&url, "walter")), ("walter", signing("walter")), ("agnes", signing("agnes"))]
    {
        let lease = log.lease("plan a", &suite::someone()).expect("free");
        for verdict in &verdicts {
            let written = write(&log, Some(lease.fence()), std::slice::from_ref(verdict));
            assert!(matches!(written, Err(Error::NotAllowed { .. })), "{user}: {written:?}");
        }
    }
    assert!(opened(&url, "walter").trust_checker(&key.public(), "own").is_err(), "a worker trusts itself");
    petra.trust_checker(&key.public(), "build7").expect("a person");
    let rights = opened(&url, "walter").rights().expect("rights");
    assert_eq!((rights.login.as_str(), rights.must_sign, rights.may_judge), ("walter", true, true));
    let walter = signing("walter");
    let lease = walter.lease("plan a", &suite::someone()).expect("free");
    write(&walter, Some(lease.fence()), &verdicts).expect("a trusted key");
    assert_eq!(doubted(&petra), None);
    // The login alone knows the public key, and cannot sign.
    let details = json!({"step": 1, "attempt": 1, "result": "contract held"});
    by_sql(&walter, "TASK_COMPLETED", &details, Some(lease.fence()), Some((&key, false)))
        .expect("the shape fits");
    assert_eq!(doubted(&petra), Some(3));
    // Agents' logins may not judge, even with the key.
    drop(lease);
    let agnes = signing("agnes");
    let lease = agnes.lease("plan a", &suite::someone()).expect("free");
    assert!(matches!(write(&agnes, Some(lease.fence()), &verdicts), Err(Error::NotAllowed { .. })));
    assert!(petra.distrust_checker(&key.public()).expect("a person"));
    assert_eq!(doubted(&petra), Some(1), "nothing counts that a key signed that is trusted no longer");
    let folder = tempfile::tempdir().expect("a folder");
    let embedded = crate::Sqlite::open(folder.path()).expect("a log");
    let moved = crate::transfer(&petra, &embedded, &mut |_| {});
    assert!(matches!(moved, Err(Error::InDoubt { seq: 1, .. })), "{moved:?}");
}

#[test]
fn people_decide_under_the_name_of_their_login() {
    let Some(cluster) = Cluster::shared() else { return };
    let url = with_people(cluster);
    let named = |name: &str| approved(Approver::Person(name.to_owned()));
    let dialog = Approver::Dialog { by: "bob".to_owned(), client: "x".to_owned() };
    let petra = opened(&url, "petra");
    assert_eq!(petra.own_name().expect("a name").as_deref(), Some("petra"));
    for event in [named("bob"), approved(dialog), example("HUMAN_ANSWERED"), example("GATE_REJECTED")] {
        assert!(matches!(write(&petra, None, std::slice::from_ref(&event)), Err(Error::NotAllowed { .. })));
    }
    write(&petra, None, &[named("petra")]).expect("her own name");
    let gerda = opened(&url, "gerda");
    assert_eq!(gerda.own_name().expect("a name"), None);
    write(&gerda, None, &[named("bob"), named("carol")]).expect("it signs people in");
    let hanna = opened(&url, "hanna");
    assert!(matches!(write(&hanna, None, &[policy()]), Err(Error::NotAllowed { .. })), "a made-up policy");
    assert!(hanna.trust_policy("c0de").is_err(), "a harness trusts no policy");
    petra.trust_policy("c0de").expect("a person");
    write(&hanna, None, &[policy()]).expect("a person trusted it");
    assert_eq!(doubted(&petra), None);
}

#[test]
fn events_that_nobody_could_read_are_refused_and_never_make_a_plan_unreadable() {
    let Some(cluster) = Cluster::shared() else { return };
    let url = with_people(cluster);
    let (owner, hanna) = (opened(&url, super::super::cluster::USER), opened(&url, "hanna"));
    let readable = |name: &str, details: &Value| {
        serde_json::from_value::<Event>(json!({"event": name, "details": details})).is_ok()
    };
    let mut refused = 0;
    for line in EVENTS.lines() {
        let event: Value = serde_json::from_str(line).expect("JSON");
        let (name, details) = (event["event"].as_str().expect("a name"), &event["details"]);
        by_sql(&owner, name, details, None, None).unwrap_or_else(|error| panic!("{line}: {error}"));
        for key in details.as_object().expect("an object").keys() {
            for other in [
                None,
                Some(json!(null)),
                Some(json!([1])),
                Some(json!({})),
                Some(json!("?")),
                Some(json!(-1)),
            ] {
                let mut details = details.clone();
                match other {
                    None => drop(details.as_object_mut().expect("an object").remove(key)),
                    Some(other) => details[key] = other,
                }
                if readable(name, &details) {
                    continue;
                }
                let written = by_sql(&hanna, name, &details, None, None);
                refused += u32::from(written.is_err());
            }
        }
    }
    assert!(refused > 500, "{refused}");
    for nonsense in ["NO_SUCH_EVENT", "task_started", ""] {
        assert!(by_sql(&owner, nonsense, &json!({}), None, None).is_err(), "{nonsense}");
    }
    // What the database lets through is not believed, and the plan can still be read.
    by_sql(&hanna, "CONTRACT_JUDGED", &json!({"subject": {"moon": 1}, "verdict": {}}), None, None)
        .expect("its keys fit");
    assert!(doubted(&owner).is_some());
}

#[test]
fn roles_that_are_made_later_get_their_rights_from_the_next_migration() {
    let Some(cluster) = Cluster::start() else { return };
    for statement in ["CREATE ROLE otto LOGIN", "CREATE DATABASE own OWNER otto"] {
        cluster.sql(&cluster.url("postgres"), statement);
    }
    let url = cluster.url_as("otto", "own");
    let log = Postgres::open(&address(&url)).expect("a log");
    let missing = log.grant_roles().expect("an owner").expect("an owner");
    assert_eq!(missing.len(), 7, "{missing:?}");
    cluster.sql(
        &cluster.url("own"),
        "CREATE ROLE provost_worker NOLOGIN; CREATE ROLE walter LOGIN IN ROLE provost_worker",
    );
    let missing = log.grant_roles().expect("an owner").expect("an owner");
    assert_eq!(missing.len(), 6, "{missing:?}");
    let walter = Postgres::open(&address(&cluster.url_as("walter", "own"))).expect("a log");
    assert_eq!(walter.grant_roles().expect("no owner"), None);
    let lease = walter.lease("plan a", &suite::someone()).expect("free");
    write(&walter, Some(lease.fence()), &[suite::started(1)]).expect("it has its rights");
}
