//! Tests gates that need more than one person, or a person other than the author.

use serde_json::{Value, json};

use super::{Server, form_key, id_of};
use crate::env::{Env, HONEST, plan};

/// Creates a plan at the gate with these rules.
fn under(gate: &str, agent: &str) -> Env {
    let two = plan(&["test -f out/1", "test -f out/2"], "escalate");
    let env = Env::new(&two).agent(agent).isolation("in-place");
    env.write("provost.toml", format!("{}[gate]\n{gate}\n", env.read("provost.toml")));
    env.provost(&["verify"]).exits(0);
    env
}

/// Returns the name of this account, independent of the environment.
fn me(env: &Env) -> String {
    let shown = env.provost(&["show", "--json"]).exits(0).json();
    shown["approvals"]["author"].as_str().expect("an author").to_owned()
}

fn token_of(env: &Env, name: &str) -> String {
    let made = env.provost(&["serve", "token", "--scope", "decide", "--name", name]).exits(0);
    made.out.trim().to_owned()
}

fn approvals(env: &Env) -> Vec<(Value, Value)> {
    let log = env.provost(&["log", "--json", "--event", "GATE_APPROVED"]).exits(0);
    log.lines()
        .iter()
        .map(|line| (line["details"]["by"].clone(), line["details"]["missing"].clone()))
        .collect()
}

#[test]
fn the_plan_is_approved_with_the_second_person_and_one_person_counts_once() {
    let env = under("approvals = 2", HONEST);
    let me = me(&env);
    let first = env.provost(&["approve", "--revision", &env.revision()]).exits(4);
    assert!(
        first.err.contains(&format!("1 of 2 approvals ({me}); still needed: 1 more person")),
        "{}",
        first.err
    );
    let again = env.provost(&["approve", "--revision", &env.revision()]).exits(5);
    assert!(again.err.contains("counts only once"), "{}", again.err);
    let signed = env.provost(&["approve", "--revision", &env.revision(), "--by", "bob"]).exits(2);
    assert!(signed.err.contains(&format!("you are {me}")), "{}", signed.err);
    for shown in [["show"], ["status"], ["inbox"]] {
        let shown = env.provost(&shown).exits(0);
        assert!(shown.out.contains("1 of 2 approvals"), "{}", shown.out);
    }
    let status = env.provost(&["status", "--json"]).exits(0).json();
    assert_eq!(
        status["approvals"],
        json!({
            "needed": 2, "given": [me], "missing": 1, "self_approval": true, "author": me,
            "words": format!("1 of 2 approvals ({me}); still needed: 1 more person"),
        })
    );
    assert_eq!(status["stage"], "verified");
    env.provost(&["run"]).exits(4);

    let server = Server::start(&env);
    // A token of the same person counts as the same person.
    let (mine, other) = (token_of(&env, &me.to_uppercase()), token_of(&env, "bob"));
    let id = id_of(&server, &other);
    let gate = server.get(&format!("/api/plans/{id}/gate"), &other).is(200).json();
    assert_eq!((&gate["approvals"]["missing"], &gate["open"]), (&json!(1), &json!(true)));
    let approve = format!("/api/plans/{id}/gate/approve");
    let body = json!({ "revision": env.revision() });
    let refused = server.post(&approve, &mine, &body).is(409).json();
    assert!(refused["detail"].as_str().expect("words").contains("counts only once"), "{refused}");
    let cookie = server.enter();
    let page = server.browse(&format!("/plans/{id}/gate"), &cookie).is(200).body;
    assert!(page.contains("1 of 2 approvals"), "{page}");
    let decided = server.post(&approve, &other, &body).is(200).json();
    assert_eq!((&decided["stage"], &decided["approvals"]["missing"]), (&json!("approved"), &json!(0)));
    assert_eq!(
        approvals(&env),
        [(json!({ "person": me }), json!(1)), (json!({ "person": "bob" }), Value::Null),]
    );
    let shown = env.provost(&["show"]).exits(0);
    assert!(shown.out.contains(&format!("approved by {me}, bob")), "{}", shown.out);
    env.provost(&["run"]).exits(0);
}

#[test]
fn what_was_approved_before_the_text_changed_does_not_count() {
    let env = under("approvals = 2", HONEST);
    env.provost(&["approve", "--revision", &env.revision()]).exits(4);
    env.write("PLAN.md", env.read("PLAN.md").replace("test -f out/2", "test -s out/2"));
    let again = env.provost(&["approve", "--revision", &env.revision()]).exits(4);
    assert!(again.err.contains("1 of 2"), "{}", again.err);
}

#[test]
fn nobody_approves_what_they_wrote() {
    let env = under("self_approval = false", HONEST);
    let me = me(&env);
    let own = env.provost(&["approve", "--revision", &env.revision()]).exits(5);
    assert!(own.err.contains(&format!("{me} wrote this text")), "{}", own.err);
    let server = Server::start(&env);
    let bob = token_of(&env, "bob");
    let id = id_of(&server, &bob);
    let approve = |revision: &str| {
        server.post(&format!("/api/plans/{id}/gate/approve"), &bob, &json!({ "revision": revision }))
    };
    // The author of a text must be recorded before another person can approve it.
    env.write("PLAN.md", env.read("PLAN.md").replace("test -f out/2", "test -s out/2"));
    let unknown = approve(&env.revision()).is(409).json();
    assert!(unknown["detail"].as_str().expect("words").contains("provost verify"), "{unknown}");
    env.provost(&["verify"]).exits(0);
    // A change that bob makes on the page has bob as its author.
    let gate = server.get(&format!("/api/plans/{id}/gate"), &bob).is(200).json();
    let text = gate["text"].as_str().expect("a text").replace("test -s out/2", "test -e out/2");
    let amend = json!({ "text": text, "digest": gate["digest"] });
    let amended = server.post(&format!("/api/plans/{id}/gate/amend"), &bob, &amend).is(200).json();
    assert_eq!(amended["approvals"]["author"], "bob");
    let refused = approve(&env.revision()).is(409).json();
    assert!(refused["detail"].as_str().expect("words").contains("bob wrote this text"), "{refused}");
    env.provost(&["approve", "--revision", &env.revision()]).exits(0);
    // A new commit does not change the author of the text.
    env.git(&["commit", "--quiet", "--allow-empty", "--message", "moved"]);
    env.provost(&["run"]).exits(4);
    assert_eq!(self::me(&env), "bob");
}

#[test]
fn a_page_of_somebody_who_has_approved_does_not_ask_again() {
    let env = under("approvals = 2", HONEST);
    let server = Server::start(&env);
    let cookie = server.enter();
    let place = format!("/plans/{}/gate", id_of(&server, &token_of(&env, "bob")));
    let page = server.browse(&place, &cookie).is(200).body;
    let form = format!("decision=approve&revision={}&form_key={}", env.revision(), form_key(&page));
    server.submit(&place, &cookie, &form).is(303);
    let page = server.browse(&place, &cookie).is(200).body;
    assert!(page.contains("You have approved it") && !page.contains("value=\"approve\""), "{page}");
    assert!(page.contains("1 of 2 approvals (ada)"), "{page}");
}

/// The agent lowers the number of approvals in a file that it can write.
#[test]
fn an_agent_that_changes_the_rule_is_held_to_the_old_one() {
    let agent = "sed -i 's/approvals = 2/approvals = 1/' provost.toml\nmkdir -p out; touch out/1\n";
    let env = under("approvals = 2", agent);
    let mut person = env.person();
    let server = Server::start(&env);
    let bob = token_of(&env, "bob");
    let id = id_of(&server, &bob);
    let revision = env.revision();
    person.provost(&["approve", "--revision", &revision]).exits(4);
    let approve = format!("/api/plans/{id}/gate/approve");
    server.post(&approve, &bob, &json!({ "revision": revision })).is(200);
    env.provost(&["run"]).exits(4);
    assert!(env.read("provost.toml").contains("approvals = 1"));
    let refused = env.provost(&["run"]).exits(5);
    assert!(refused.err.contains("provost trust"), "{}", refused.err);
    person.provost(&["trust", "provost.toml"]).exits(0);
    env.provost(&["run"]).exits(4);
    assert_eq!(env.stage(), "verified");
    let alone = person.provost(&["approve", "--revision", &env.revision()]).exits(4);
    assert!(alone.out.contains("1 of 2"), "{}", alone.out);
    assert_eq!(env.stage(), "verified");
}

#[test]
fn a_policy_is_none_of_the_people_unless_it_may_be() {
    let policy = "[gate.policies.outputs]\ntouches = [\"out/**\"]\ncommands = [\"*\"]\n";
    let env = under(&format!("approvals = 2\n{policy}"), HONEST);
    env.provost(&["approve", "--policy", "outputs"]).exits(0);
    let run = env.provost(&["run"]).exits(4);
    assert!(run.err.contains("a policy does not count"), "{}", run.err);
    env.write(
        "provost.toml",
        env.read("provost.toml").replace("approvals = 2", "approvals = 2\npolicies_count = true"),
    );
    let run = env.provost(&["run"]).exits(4);
    assert!(run.err.contains("1 of 2 approvals (policy outputs)"), "{}", run.err);
    env.approve();
    env.provost(&["run"]).exits(0);
}
