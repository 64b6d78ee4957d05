//! Tests `[gate]` and its policies.

use super::*;

#[test]
fn no_policy_approves_everything() {
    for touches in [
        "[]",
        "[\"**\"]",
        "[\"*\"]",
        "[\"**/*\"]",
        "[\".\"]",
        "[\"docs/**\", \"**\"]",
        "[\"../x/**\"]",
        "[\"/\"]",
        "[\"{a,**}\"]",
        "[\"\"]",
    ] {
        let text = format!("[gate.policies.all]\nowner = [\"me\"]\ntouches = {touches}\n");
        assert!(parse(Path::new("provost.toml"), &text).is_err(), "{touches} was accepted");
    }
    refused(
        "[gate.policies.all]\nowner = [\"me\"]\ntouches = [\"**\"]\n",
        expect![[r#"
            provost.toml:3:12: `**` limits nothing: name a folder of the workspace, such as "docs/**"
              touches = ["**"]
                         ^^^^
        "#]],
    );
    refused(
        "[gate.policies.docs]\ntouches = [\"docs/**\"]\nowner = []\n",
        expect![[r#"
            provost.toml:1:1: policy `docs` limits only `touches`: add the `commands` or `checks` that it allows
              [gate.policies.docs]
              ^^^^^^^^^^^^^^^^^^^^
        "#]],
    );
}

#[test]
fn the_digest_of_a_policy_follows_its_meaning_and_not_its_spelling() {
    let one = parsed("[gate.policies.p]\nowner=[\"a\"]\ntouches=[\"d/**\"]\nmax_usd=1\n");
    let same = parsed("[gate.policies.p]\ntouches = [\"d/**\"] # here\nmax_usd = 1.0\nowner = [\"a\"]\n");
    let other = parsed("[gate.policies.p]\nowner=[\"a\"]\ntouches=[\"d/**\"]\nmax_usd=2\n");
    assert_eq!(digest(&one.gate.policies["p"]), digest(&same.gate.policies["p"]));
    assert_ne!(digest(&one.gate.policies["p"]), digest(&other.gate.policies["p"]));
}

#[test]
fn who_lets_the_plans_of_sessions_through_is_one_of_two() {
    assert_eq!(parsed("").mcp.gate, SessionGate::Auto);
    assert_eq!(parsed("[mcp]\ngate = \"person\"\n").mcp.gate, SessionGate::Person);
    let error =
        parse(Path::new("provost.toml"), "[mcp]\ngate = \"never\"\n").expect_err("refused").to_string();
    assert!(error.contains("`gate` cannot be `never`") && error.contains("auto"), "{error}");
}
