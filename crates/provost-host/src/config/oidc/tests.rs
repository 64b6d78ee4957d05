//! Tests `[serve.oidc]`: what is read, and how each mistake is named.

use std::path::{Path, PathBuf};
use std::time::Duration;

use expect_test::{Expect, expect};

use super::super::{Config, Error, parse};
use super::{OidcConfig, SignInMatch, SignInRule, SignInScope};

const WHOLE: &str = "[serve.oidc]\nissuer = \"https://id.example.org/\"\nclient_id = \"provost\"\n";
const RULE: &str = "[[serve.oidc.allow]]\ngroup = \"reviewers\"\nscope = \"decide\"\n";

fn config(text: &str) -> Result<Config, Error> {
    parse(Path::new("/repo/provost.toml"), text)
}

fn read(text: &str) -> OidcConfig {
    config(text).unwrap_or_else(|error| panic!("{error}")).serve.oidc.expect("a provider")
}

/// Checks the first line of each error.
fn refused(texts: &[&str], expected: Expect) {
    let mut said = String::new();
    for text in texts {
        match config(text) {
            Ok(config) => panic!("accepted: {:?}", config.serve),
            Err(error) => said += &format!("{}\n", error.to_string().lines().next().unwrap_or_default()),
        }
    }
    expected.assert_eq(&said);
}

#[test]
fn a_provider_has_defaults_and_its_rules_keep_their_order() {
    let short = read(&format!("{WHOLE}{RULE}"));
    assert_eq!(short.shown(), "id.example.org");
    assert_eq!(short.scopes, ["openid", "email"]);
    assert_eq!((short.groups_claim.as_str(), short.session), ("groups", Duration::from_secs(86_400)));
    assert_eq!(config("").expect("read").serve.oidc, None);
    let more = "[[serve.oidc.allow]]\nemail = \"*@example.org\"\nscope = \"view\"\nrepositories = [\".\", \"/b\"]\n\
                [[serve.oidc.allow]]\nemail = \"ada@example.org\"\nscope = \"admin\"\nname = \"ada\"\n";
    let long = read(&format!("{WHOLE}client_secret_file = \"secret\"\nname = \"Example\"\n{RULE}{more}"));
    assert_eq!(
        (long.shown().as_str(), long.client_secret_file),
        ("Example", Some(PathBuf::from("/repo/secret")))
    );
    let rule = |whom, scope, repositories: &[&str], name: Option<&str>| SignInRule {
        whom,
        scope,
        repositories: repositories.iter().map(PathBuf::from).collect(),
        name: name.map(str::to_owned),
    };
    let domain = SignInMatch::Domain("example.org".to_owned());
    let ada = SignInMatch::Email("ada@example.org".to_owned());
    assert_eq!(
        long.allow,
        [
            rule(SignInMatch::Group("reviewers".to_owned()), SignInScope::Decide, &[], None),
            rule(domain, SignInScope::View, &["/repo/.", "/b"], None),
            rule(ada, SignInScope::Admin, &[], Some("ada")),
        ]
    );
}

#[test]
fn trust_is_in_the_exact_section_and_the_address_of_the_server() {
    let digest = |text: &str, url| read(text).digest(url);
    let text = format!("{WHOLE}{RULE}");
    let known = digest(&text, None);
    assert_eq!(digest(&format!("{text}[run]\nmax_lost_attempts = 7\n"), None), known);
    assert_ne!(digest(&text, Some("https://plans.example.org")), known);
    for (old, new) in
        [("id.example", "evil.example"), ("reviewers", "all"), ("decide", "admin"), ("\"provost\"", "\"b\"")]
    {
        assert_ne!(digest(&text.replace(old, new), None), known, "{new}");
    }
}

#[test]
fn each_mistake_is_named() {
    let with = |line: &str| format!("{WHOLE}{line}\n{RULE}");
    let by = |rule: &str| format!("{WHOLE}[[serve.oidc.allow]]\n{rule}\n");
    let issuer = |url: &str| format!("[serve.oidc]\nissuer = \"{url}\"\nclient_id = \"provost\"\n{RULE}");
    let all = [
        WHOLE.to_owned(),
        format!("[serve.oidc]\nclient_id = \"a\"\n{RULE}"),
        issuer("http://id.example.org"),
        issuer("id.example.org"),
        issuer("https://id.example.org/?a=b"),
        issuer("https://id.example.org/.well-known/openid-configuration"),
        with("client_secret = \"s\""),
        with("client_secret_env = \"my secret!\""),
        with("client_secret_env = \"A\"\nclient_secret_file = \"b\""),
        with("scopes = [\"email\"]"),
        with("scopes = [\"openid email\"]"),
        with("session = \"30days\""),
        with("name = \"\""),
        format!("{WHOLE}allow = []\n"),
        format!("{WHOLE}[serve.oidc.allow]\ngroup = \"a\"\n"),
        by("scope = \"view\""),
        by("group = \"a\"\nemail = \"a@b.example\"\nscope = \"view\""),
        by("group = \"a\""),
        by("group = \"a\"\nscope = \"agent\""),
        by("group = \"a\"\nscope = \"view\"\nrole = \"b\""),
        by("email = \"nobody\"\nscope = \"view\""),
        by("email = \"*\"\nscope = \"view\""),
        by("email = \"a*@b.example\"\nscope = \"view\""),
        by("email = \"a@*\"\nscope = \"view\""),
        by("group = \"a\"\nscope = \"admin\"\nrepositories = [\".\"]"),
        by("group = \"a\"\nscope = \"view\"\nname = \"b\""),
    ];
    refused(
        &all.each_ref().map(String::as_str),
        expect![[r#"
        /repo/provost.toml:1:1: [serve.oidc] has no `allow`
        /repo/provost.toml:1:1: [serve.oidc] has no `issuer`
        /repo/provost.toml:2:10: `issuer` must begin with https://; http:// is allowed only for this machine's loopback
        /repo/provost.toml:2:10: `issuer` must begin with https://
        /repo/provost.toml:2:10: `issuer` is the address of the provider, without a query and without a password
        /repo/provost.toml:2:10: `issuer` is the address without `/.well-known/openid-configuration`
        /repo/provost.toml:4:1: unknown key `client_secret` in [serve.oidc]; it is one of issuer, client_id, client_secret_env, client_secret_file, name, scopes, groups_claim, session, allow
        /repo/provost.toml:4:21: `client_secret_env` is the name of a variable, not the secret itself
        /repo/provost.toml:1:1: use `client_secret_env` or `client_secret_file`, not both
        /repo/provost.toml:4:10: `scopes` must contain "openid"
        /repo/provost.toml:4:11: `openid email` is not a scope: each entry of `scopes` is one word
        /repo/provost.toml:4:11: `session` must be more than zero and at most 7days
        /repo/provost.toml:4:8: `name` has 1 to 60 characters
        /repo/provost.toml:4:9: `allow` is empty, so nobody could sign in
        /repo/provost.toml:4:1: `allow` is a list of sections: write [[serve.oidc.allow]]
        /repo/provost.toml:4:1: a rule needs an `email` or a `group`
        /repo/provost.toml:5:9: use `email` or `group`, not both: write two rules
        /repo/provost.toml:4:1: [serve.oidc.allow] has no `scope`
        /repo/provost.toml:6:9: `scope` cannot be `agent`; it is one of view, decide, admin
        /repo/provost.toml:7:1: unknown key `role` in [serve.oidc.allow]; it is one of email, group, scope, repositories, name
        /repo/provost.toml:5:9: `nobody` is neither an e-mail address nor `*@` and a domain
        /repo/provost.toml:5:9: `*` is neither an e-mail address nor `*@` and a domain
        /repo/provost.toml:5:9: `a*@b.example` is neither an e-mail address nor `*@` and a domain
        /repo/provost.toml:5:9: `a@*` is neither an e-mail address nor `*@` and a domain
        /repo/provost.toml:7:16: an admin sees all repositories: leave out `repositories`, or use `scope = "decide"`
        /repo/provost.toml:7:8: `name` is for one person, so it needs the `email` of one person
    "#]],
    );
}
