//! A whole sign-in with a provider that answers from a table.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use provost_core::model::timestamp::Timestamp;
use provost_engine::manage::sign_in::GrantRule;
use provost_engine::manage::tokens::TokenScope;
use provost_engine::{ProviderAnswer, SignInMatch};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::super::pending::Pending;
use super::super::provider::{ClientSettings, Provider};
use super::super::{Callback, Fault, Oidc, Web, metadata, person};
use super::{ISSUER, NOW, Signer, claims};

const AT: Timestamp = Timestamp(NOW * 1000);

/// The provider: an answer for each address, and the requests that it got.
#[derive(Clone, Default)]
struct Table {
    answers: Arc<Mutex<HashMap<String, (u16, Value)>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Table {
    fn set(&self, path: &str, status: u16, answer: Value) {
        self.answers.lock().expect("a lock").insert(format!("{ISSUER}{path}"), (status, answer));
    }

    /// Returns how often an address was asked for.
    fn count(&self, path: &str) -> usize {
        self.asked
            .lock()
            .expect("a lock")
            .iter()
            .filter(|asked| asked.starts_with(&format!("{ISSUER}{path}")))
            .count()
    }

    fn answer(&self, url: &str, request: String) -> Result<ProviderAnswer, String> {
        self.asked.lock().expect("a lock").push(request);
        let (status, body) =
            self.answers.lock().expect("a lock").get(url).cloned().ok_or("no route to host")?;
        Ok(ProviderAnswer {
            status,
            kind: "application/json".to_owned(),
            body: body.to_string().into_bytes(),
        })
    }
}

impl Web for Table {
    fn get(&self, url: &str, bearer: Option<&str>) -> Result<ProviderAnswer, String> {
        self.answer(url, format!("{url} {}", bearer.unwrap_or_default()))
    }

    fn post(
        &self,
        url: &str,
        authorization: Option<&str>,
        form: &[(&str, &str)],
    ) -> Result<ProviderAnswer, String> {
        self.answer(url, format!("{url} {} {form:?}", authorization.unwrap_or_default()))
    }
}

fn discovery() -> Value {
    json!({
        "issuer": ISSUER, "authorization_endpoint": format!("{ISSUER}/auth"), "token_endpoint": format!("{ISSUER}/token"),
        "jwks_uri": format!("{ISSUER}/keys"), "userinfo_endpoint": format!("{ISSUER}/me"),
    })
}

fn rule(whom: SignInMatch, scope: TokenScope) -> GrantRule {
    GrantRule { whom, scope, repositories: Vec::new(), name: None }
}

fn oidc(table: &Table, rules: Vec<GrantRule>) -> Oidc {
    let settings = ClientSettings {
        issuer: ISSUER.to_owned(),
        client_id: "provost".to_owned(),
        client_secret: Some("s:e cret".to_owned()),
        scopes: vec!["openid".to_owned(), "email".to_owned()],
        redirect: "https://plans.example/sign-in/callback".to_owned(),
    };
    Oidc {
        name: "Example".to_owned(),
        base: "https://plans.example".to_owned(),
        lasts: Duration::from_secs(60),
        provider: Provider::new(settings, Box::new(table.clone())),
        pending: Pending::default(),
        turns: Semaphore::new(1),
        rules: person::Rules { issuer: ISSUER.to_owned(), groups_claim: "groups".to_owned(), rules },
    }
}

fn everybody() -> Vec<GrantRule> {
    vec![rule(SignInMatch::Domain("example.com".to_owned()), TokenScope::Decide)]
}

/// Makes the provider sign tokens with this key.
fn provider(signer: &Signer, id: &str) -> Table {
    let table = Table::default();
    table.set("/.well-known/openid-configuration", 200, discovery());
    table.set("/keys", 200, json!({ "keys": [signer.public(id)] }));
    table.set("/me", 200, json!({ "sub": "1" }));
    table
}

/// Signs in with these claims at this time, and returns the name and the scope.
fn sign_in(
    oidc: &Oidc,
    table: &Table,
    signer: &Signer,
    id: &str,
    more: Value,
    at: Timestamp,
) -> Result<(String, TokenScope), Fault> {
    let begun = oidc.begin("/inbox", at)?;
    let asked: HashMap<String, String> =
        serde_urlencoded::from_str(begun.location.split_once('?').expect("a query").1).expect("pairs");
    let mut said = json!({ "nonce": asked["nonce"], "iat": at.0 / 1000, "exp": at.0 / 1000 + 300 });
    said.as_object_mut().expect("claims").extend(more.as_object().expect("claims").clone());
    let header = json!({ "alg": signer.algorithm(), "kid": id }).to_string();
    let token = signer.token(&header, &claims(said).to_string());
    table.set("/token", 200, json!({ "id_token": token, "access_token": "at", "token_type": "Bearer" }));
    let sent =
        Callback { code: Some("c".to_owned()), state: Some(asked["state"].clone()), ..Callback::default() };
    let finished = oidc.finish(&sent, Some(&begun.binding), at);
    assert_eq!(finished.next, "/inbox");
    finished.person.map(|grant| (grant.name, grant.scope))
}

#[test]
fn a_person_signs_in_and_the_code_goes_to_the_provider_only() {
    let signer = Signer::ed25519();
    let table = provider(&signer, "a");
    let oidc = oidc(&table, everybody());
    let location = oidc.begin("/", AT).expect("begun").location;
    assert!(
        location.starts_with("https://id.example/auth?response_type=code&client_id=provost&"),
        "{location}"
    );
    for part in [
        "redirect_uri=https%3A%2F%2Fplans.example%2Fsign-in%2Fcallback",
        "scope=openid+email",
        "code_challenge_method=S256",
    ] {
        assert!(location.contains(part), "{location}");
    }
    let alice = json!({ "email": "alice@example.com", "email_verified": true });
    let (name, scope) = sign_in(&oidc, &table, &signer, "a", alice, AT).expect("signed in");
    assert!(name.starts_with("alice@example.com (oidc:"), "{name}");
    assert_eq!(scope, TokenScope::Decide);
    let asked = table.asked.lock().expect("a lock").clone();
    let token = asked.iter().find(|asked| asked.starts_with("https://id.example/token")).expect("a request");
    // Both parts are encoded as in a form: provost:s%3Ae+cret
    assert!(token.contains("Basic cHJvdm9zdDpzJTNBZStjcmV0 ") && token.contains("code_verifier"), "{token}");
    assert_eq!((table.count("/keys"), table.count("/.well-known")), (1, 1), "documents are cached");
    assert_eq!(table.count("/me"), 0, "the token has all that the rules need");
}

#[test]
fn only_people_whom_a_rule_is_about_get_in() {
    let signer = Signer::ed25519();
    let table = provider(&signer, "a");
    let named = GrantRule {
        name: Some("bob".to_owned()),
        ..rule(SignInMatch::Email("bob@example.com".to_owned()), TokenScope::Admin)
    };
    let group = rule(SignInMatch::Group("reviewers".to_owned()), TokenScope::Decide);
    let domain = rule(SignInMatch::Domain("example.com".to_owned()), TokenScope::View);
    let oidc = oidc(&table, vec![named, group, domain]);
    let try_in = |more: Value| {
        let who = sign_in(&oidc, &table, &signer, "a", more, AT);
        who.map(|(name, scope)| (person_of(&name), scope))
    };
    let verified = |email: &str| json!({ "email": email, "email_verified": true });
    let is_in = |name: &str, scope| Ok((name.to_owned(), scope));
    let is_out = |who: &str| Err(Fault::NoRule { who: who.to_owned() });
    assert_eq!(try_in(verified("BOB@example.com")), is_in("bob", TokenScope::Admin));
    assert_eq!(try_in(verified("eve@example.com")), is_in("eve@example.com", TokenScope::View));
    assert_eq!(try_in(json!({ "groups": ["x", "reviewers"] })), is_in("1", TokenScope::Decide));
    assert_eq!(try_in(json!({ "groups": "reviewers" })), is_in("1", TokenScope::Decide));
    // The first rule that matches decides.
    let mut both = verified("eve@example.com");
    both["groups"] = json!(["reviewers"]);
    assert_eq!(try_in(both), is_in("eve@example.com", TokenScope::Decide));
    for email in ["eve@evil.example", "bob@example.com.evil.example", "bob@notexample.com"] {
        assert_eq!(try_in(verified(email)), is_out(email), "{email}");
    }
    for odd in ["bob@example.com\n", "bob @example.com", "@example.com"] {
        assert_eq!(try_in(verified(odd)), is_out("1"), "{odd}");
    }
    // provost ignores an address that the provider has not verified.
    for word in [json!(false), json!("true"), json!(1), json!(null)] {
        assert_eq!(
            try_in(json!({ "email": "bob@example.com", "email_verified": word })),
            is_out("1"),
            "{word}"
        );
    }
    assert_eq!(try_in(json!({ "groups": ["Reviewers"] })), is_out("1"));
    assert_eq!(try_in(json!({ "groups": { "reviewers": true } })), is_out("1"));
    assert_eq!(try_in(json!({})), is_out("1"));
}

fn person_of(name: &str) -> String {
    provost_core::model::person::short(name).to_owned()
}

#[test]
fn what_the_token_lacks_comes_from_the_user_info_of_the_same_person() {
    let signer = Signer::ed25519();
    let table = provider(&signer, "a");
    let oidc = oidc(&table, everybody());
    let try_in = |more: Value| sign_in(&oidc, &table, &signer, "a", more, AT);
    table.set("/me", 200, json!({ "sub": "1", "email": "alice@example.com", "email_verified": true }));
    let (name, _) = try_in(json!({})).expect("signed in");
    assert!(name.starts_with("alice@example.com ("), "{name}");
    // A verification of one document says nothing about the address of the other.
    let unverified = try_in(json!({ "email": "bob@example.com" }));
    assert_eq!(unverified, Err(Fault::NoRule { who: "1".to_owned() }));
    table.set("/me", 200, json!({ "sub": "2", "email": "alice@example.com", "email_verified": true }));
    let other = try_in(json!({})).expect_err("another person");
    assert!(other.to_string().contains("another person"), "{other}");
    table.set("/me", 500, json!({}));
    assert!(matches!(try_in(json!({})), Err(Fault::Provider(_))));
}

#[test]
fn new_keys_are_fetched_once_a_minute_at_most() {
    let (old, new) = (Signer::ed25519(), Signer::p256());
    let table = provider(&old, "old");
    let oidc = oidc(&table, everybody());
    let alice = json!({ "email": "alice@example.com", "email_verified": true });
    let try_in = |signer: &Signer, id: &str, at: u64| {
        sign_in(&oidc, &table, signer, id, alice.clone(), Timestamp(AT.0 + at * 1000)).map(|_| ())
    };
    assert_eq!(try_in(&old, "old", 0), Ok(()));
    // The provider has a new key.
    table.set("/keys", 200, json!({ "keys": [old.public("old"), new.public("new")] }));
    assert_eq!(try_in(&new, "new", 1), Ok(()));
    assert_eq!(table.count("/keys"), 2);
    // After one more fetch, provost does not fetch the keys again for each token with an unknown key.
    for second in 2..60 {
        assert!(matches!(try_in(&new, "forged", second), Err(Fault::Token(_))));
    }
    assert_eq!(table.count("/keys"), 2);
    assert!(matches!(try_in(&new, "forged", 61), Err(Fault::Token(_))));
    assert_eq!(table.count("/keys"), 3);
    assert_eq!(try_in(&old, "old", 62), Ok(()));
    // A key that the provider has taken back is not used for longer than an hour.
    table.set("/keys", 200, json!({ "keys": [new.public("new")] }));
    assert!(matches!(try_in(&old, "old", 62 + 3600), Err(Fault::Token(_))));
}

#[test]
fn a_provider_that_is_down_is_asked_again_after_a_moment() {
    let table = Table::default();
    let oidc = oidc(&table, everybody());
    let begin = |at: u64| oidc.begin("/", Timestamp(AT.0 + at)).map(|_| ());
    assert_eq!(begin(0), Err(Fault::Unreachable("no route to host".to_owned())));
    assert!(oidc.probe(AT).expect_err("down").contains("links work"));
    assert!(begin(4_999).is_err());
    assert_eq!(table.count("/.well-known"), 1);
    table.set("/.well-known/openid-configuration", 200, discovery());
    assert_eq!(begin(5_000), Ok(()));
    assert_eq!(table.count("/.well-known"), 2);
}

#[test]
fn a_callback_counts_once_in_its_browser_and_from_its_provider() {
    let signer = Signer::ed25519();
    let table = provider(&signer, "a");
    let mut document = discovery();
    document["authorization_response_iss_parameter_supported"] = json!(true);
    table.set("/.well-known/openid-configuration", 200, document);
    let oidc = oidc(&table, everybody());
    let callback = |change: &dyn Fn(&mut Callback), cookie: bool| {
        let begun = oidc.begin("/", AT).expect("begun");
        let state = begun.location.split("state=").nth(1).and_then(|rest| rest.split('&').next());
        let mut sent = Callback {
            code: Some("c".to_owned()),
            state: state.map(str::to_owned),
            iss: Some(ISSUER.to_owned()),
            ..Callback::default()
        };
        change(&mut sent);
        oidc.finish(&sent, cookie.then_some(begun.binding.as_str()), AT).person.expect_err("refused")
    };
    // Up to here all is well: only the token is missing.
    assert_eq!(callback(&|_| {}, true), Fault::Unreachable("no route to host".to_owned()));
    assert_eq!(callback(&|_| {}, false), Fault::NotBegun);
    assert_eq!(callback(&|sent| sent.state = None, true), Fault::NotBegun);
    assert_eq!(callback(&|sent| sent.state = Some("forged".to_owned()), true), Fault::NotBegun);
    assert!(matches!(
        callback(&|sent| sent.iss = Some("https://evil.example".to_owned()), true),
        Fault::Provider(_)
    ));
    assert!(matches!(callback(&|sent| sent.iss = None, true), Fault::Provider(_)));
    assert!(matches!(callback(&|sent| sent.code = None, true), Fault::Provider(_)));
    assert!(matches!(callback(&|sent| sent.code = Some("c".repeat(5000)), true), Fault::Provider(_)));
    let denied = callback(
        &|sent| {
            sent.error = Some("access_denied".to_owned());
            sent.error_description = Some("you\nsaid no".to_owned());
        },
        true,
    );
    assert_eq!(denied, Fault::Denied("access_denied (you said no)".to_owned()));
    table.set("/token", 400, json!({ "error": "invalid_client" }));
    let wrong = callback(&|_| {}, true).to_string();
    assert!(wrong.contains("answered 400: invalid_client"), "{wrong}");
    table.set("/token", 200, json!({ "access_token": "at" }));
    assert!(callback(&|_| {}, true).to_string().contains("no ID token"));
}

#[test]
fn a_document_that_is_not_the_providers_own_is_refused() {
    let read = |change: &dyn Fn(&mut Value), issuer: &str| {
        let mut document = discovery();
        change(&mut document);
        metadata::read(document.to_string().as_bytes(), issuer)
    };
    assert!(read(&|_| {}, ISSUER).is_ok());
    let other =
        read(&|document| document["issuer"] = json!("https://evil.example"), ISSUER).expect_err("another");
    assert!(other.contains("calls itself `https://evil.example`"), "{other}");
    for name in ["authorization_endpoint", "token_endpoint", "jwks_uri"] {
        for place in [
            json!(null),
            json!("http://id.example/x"),
            json!("http://127.0.0.1/x"),
            json!("/x"),
            json!("https://a b"),
        ] {
            assert!(read(&|document| document[name] = place.clone(), ISSUER).is_err(), "{name}: {place}");
        }
    }
    // A provider on this machine may be without TLS, but not one that names itself so.
    let here = "http://127.0.0.1:3000";
    let local = |document: &mut Value| {
        let text = document.to_string().replace(ISSUER, here);
        *document = serde_json::from_str(&text).expect("JSON");
    };
    assert!(read(&local, here).is_ok());
    let mixed = |document: &mut Value| {
        local(document);
        document["token_endpoint"] = json!("http://127.0.0.1@evil.example/");
    };
    assert!(read(&mixed, here).is_err());
    for (name, value) in [
        ("response_types_supported", json!(["id_token"])),
        ("code_challenge_methods_supported", json!(["plain"])),
    ] {
        assert!(read(&|document| document[name] = value.clone(), ISSUER).is_err(), "{name}");
    }
    let post = read(
        &|document| document["token_endpoint_auth_methods_supported"] = json!(["client_secret_post"]),
        ISSUER,
    );
    assert!(post.expect("read").secret_in_form);
}

#[test]
fn the_host_is_what_browsers_send() {
    for (base, host) in [
        ("https://plans.example", "plans.example"),
        ("https://plans.example:443/provost", "plans.example"),
        ("http://127.0.0.1:80", "127.0.0.1"),
        ("https://plans.example:80", "plans.example:80"),
        ("http://127.0.0.1:4180", "127.0.0.1:4180"),
        ("http://[::1]:4180", "[::1]:4180"),
    ] {
        let oidc = Oidc { base: base.to_owned(), ..oidc(&Table::default(), Vec::new()) };
        assert_eq!(oidc.host(), host, "{base}");
    }
}
