//! Tests `[agents]`: drivers, access and fallbacks.

use super::*;

#[test]
fn a_role_says_what_its_agents_may_reach() {
    let role = |lines: &str| parsed(&format!("[agents.a]\ndriver = \"gemini\"\n{lines}")).agents["a"].clone();
    assert_eq!(role("").reach, AgentAccess::default());
    let role =
        role("network = \"off\"\ngit = \"clone\"\nhome = \"shared\"\napi = [\"[::1]:80\", \"llm.lan:1\"]\n");
    assert_eq!(role.reach.to_string(), "network off, git clone, home shared");
    assert_eq!(role.api, ["[::1]:80", "llm.lan:1"]);
    refused(
        "[agents.a]\ndriver = \"gemini\"\ngit = \"cloned\"\n",
        expect![[r#"
            provost.toml:3:7: `git` cannot be `cloned`; did you mean `clone`?
              git = "cloned"
                    ^^^^^^^^
        "#]],
    );
    refused(
        "[agents.a]\ndriver = \"gemini\"\napi = [\"https://llm.lan/\"]\n",
        expect![[r#"
            provost.toml:3:8: `https://llm.lan/` is not an address such as "llm.example.org:443" or "127.0.0.1:8080"
              api = ["https://llm.lan/"]
                     ^^^^^^^^^^^^^^^^^^
        "#]],
    );
}

#[test]
fn a_role_that_stands_in_for_another_is_another_and_exists() {
    let role = |fallback: &str| {
        format!(
            "[agents.a]\ndriver = \"gemini\"\nfallback = \"{fallback}\"\n[agents.bee]\ndriver = \"gemini\"\n"
        )
    };
    assert_eq!(parsed(&role("bee")).agents["a"].fallback.as_deref(), Some("bee"));
    refused(
        &role("a"),
        expect![[r#"
        provost.toml:3:12: `a` cannot be its own fallback
          fallback = "a"
                     ^^^
    "#]],
    );
    refused(
        &role("be"),
        expect![[r#"
        provost.toml:3:12: there is no [agents.be]; did you mean `bee`?
          fallback = "be"
                     ^^^^
    "#]],
    );
}

#[test]
fn opencode_takes_a_server_of_your_own() {
    let role = |keys: &str| {
        let config = parsed(&format!("[agents.a]\ndriver = \"opencode\"\n{keys}\n"));
        let role = &config.agents["a"];
        format!("{} {:?}\n", role.program(None), role.api)
    };
    let all = [
        "",
        "model = \"anthropic/claude-sonnet-5\"",
        "model = \"ollama/qwen3-coder\"",
        "model = \"own/a/b\"\nbase_url = \"https://llm.example.org/v1\"\nkey_env = \"OWN_KEY\"",
        "model = \"openrouter/x\"\nkey_env = \"MY_KEY\"",
        "model = \"own/x\"\nmeter = { api = \"chat\", upstream = \"http://127.0.0.1:8000/v1\" }",
    ];
    expect![[r#"
        `opencode` (driver opencode) []
        `opencode` (driver opencode), model anthropic/claude-sonnet-5 []
        `opencode` (driver opencode), model ollama/qwen3-coder, at http://127.0.0.1:11434/v1 ["127.0.0.1:11434"]
        `opencode` (driver opencode), model own/a/b, at https://llm.example.org/v1, its key in OWN_KEY ["llm.example.org:443"]
        `opencode` (driver opencode), model openrouter/x, its key in MY_KEY []
        `opencode` (driver opencode), model own/x []
    "#]]
    .assert_eq(&all.map(role).concat());
    for wrong in [
        "driver = \"opencode\"\nmodel = \"qwen\"\nbase_url = \"http://127.0.0.1:1/v1\"",
        "driver = \"opencode\"\nmodel = \"a/b\"\nbase_url = \"127.0.0.1\"",
        "driver = \"opencode\"\nmodel = \"a/b\"\nbase_url = \"http://h/v1\"\nmeter = { api = \"chat\", upstream = \"http://h/v1\" }",
        "driver = \"claude\"\nbase_url = \"http://127.0.0.1:1/v1\"",
    ] {
        let text = format!("[agents.a]\n{wrong}\n");
        assert!(parse(Path::new("provost.toml"), &text).is_err(), "{wrong}");
    }
}

#[test]
fn a_client_is_a_driver_by_its_name_and_has_keys_of_its_own() {
    let config = parsed(
        "[agents.a]\ndriver = \"claude\"\nmodel = \"sonnet\"\nargs = [\"--max-turns\", \"5\"]\n[agents.b]\ndriver = \"acp\"\ncommand = [\"codex-acp\"]\npermissions = \"ask\"\nmode = \"plan\"\n",
    );
    let args = vec!["--max-turns".to_owned(), "5".to_owned()];
    assert_eq!(
        config.agents["a"].driver,
        Driver::Client { client: Client::Claude, program: None, args, server: None }
    );
    assert_eq!(config.agents["a"].model.as_deref(), Some("sonnet"));
    let (command, mode) = (vec!["codex-acp".to_owned()], Some("plan".to_owned()));
    assert_eq!(config.agents["b"].driver, Driver::Acp { command, permissions: Permissions::Ask, mode });
    for wrong in [
        "driver = \"claude\"\ncommand = [\"x\"]",
        "driver = \"codex\"\nspeaks = \"json\"",
        "driver = \"acp\"\ncommand = [\"x\"]\npermissions = \"always\"",
        "driver = \"command\"\ncommand = [\"x\"]\nargs = []",
    ] {
        let text = format!("[agents.a]\n{wrong}\n");
        assert!(parse(Path::new("provost.toml"), &text).is_err(), "{wrong}");
    }
}
