//! What people write into `provost.toml`, and what they are told.

mod gate;
mod provision;
mod recipes;
mod roles;

use expect_test::{Expect, expect};

use provost_core::model::run_policy::{AgentAccess, Quorum};
use provost_core::model::verdict::Isolation;
use provost_core::rules::recover::class::FailureOutput;

use super::*;
use crate::config::{Client, Permissions};

fn parsed(text: &str) -> Config {
    match parse(Path::new("/p/provost.toml"), text) {
        Ok(config) => config,
        Err(error) => panic!("{error}"),
    }
}

fn refused(text: &str, expected: Expect) {
    match parse(Path::new("provost.toml"), text) {
        Ok(config) => panic!("accepted: {config:?}"),
        Err(error) => expected.assert_eq(&format!("{error}\n")),
    }
}

#[test]
fn an_empty_configuration_is_all_defaults() {
    let config = parsed("");
    assert_eq!(config, Config { path: Some("/p/provost.toml".into()), ..Config::default() });
}

#[test]
fn the_example_of_the_design_is_read() {
    let config = parsed(
        r#"
[agents.coder]
driver = "command"
command = ["bash", "agent.sh"]
timeout = "10m"
[agents.reviewer]
driver = "acp"
command = ["claude-agent-acp"]
[agents.demo]
driver = "scripted"
script = "demo.script"
[agents.own]
driver = "builtin"
model = "m"
[gate]
approvals = 2
self_approval = false
policies_count = true
[gate.policies.docs]
owner = ["docs-team"]
touches = ["docs/**", "README.md"]
max_usd = 1.50
max_tokens = 200_000
max_minutes = 20
targets = ["coder"]
[verify]
isolation = "guard+clean"
require_red = true
caches = ["target"]
contract_timeout = "90s"
[run]
step_timeout = "1h 30m"
max_lost_attempts = 5
disk = "64 MiB"
memory = "2GiB"
processes = 100
[recipes.registry-timeout]
class = "transient"
detect = { stderr = "ECONNRESET|ETIMEDOUT" }
[store]
url = "sqlite"
[plans]
folder = "vault"
"#,
    );
    let coder = &config.agents["coder"];
    assert_eq!(coder.driver, Driver::Command { command: vec!["bash".into(), "agent.sh".into()] });
    assert_eq!(coder.timeout, Some(Duration::from_secs(600)));
    assert!(matches!(config.agents["reviewer"].driver, Driver::Acp { .. }));
    assert_eq!(config.agents["demo"].driver, Driver::Scripted { script: "/p/demo.script".into() });
    assert_eq!(config.gate.quorum, Quorum { approvals: 2, self_approval: false, policies_count: true });
    let policy = &config.gate.policies["docs"];
    assert_eq!(policy.max_micro_usd, Some(1_500_000));
    assert_eq!(policy.max_wall, Some(Duration::from_secs(1200)));
    assert_eq!(config.verify.isolation, Demand::Exactly(Isolation::GuardClean));
    assert_eq!(config.verify.contract_timeout, Duration::from_secs(90));
    let run = RunLimits {
        step_timeout: Duration::from_secs(5400),
        lease_timeout: Duration::ZERO,
        max_lost_attempts: 5,
        disk: 64 << 20,
        memory: Some(2 << 30),
        processes: 100,
    };
    assert_eq!(config.run, run);
    let timeout = FailureOutput { stderr: "npm error ETIMEDOUT", ..FailureOutput::default() };
    let found = config.recipes.recognise(timeout, "broke").expect("recognised");
    assert_eq!((found.class.word(), found.rule.as_str()), ("transient", "registry-timeout"));
    assert_eq!(config.plans.folder, PathBuf::from("vault"));
}

#[test]
fn an_unknown_key_is_shown_with_the_one_that_was_meant() {
    refused(
        "[agents.coder]\ndriver = \"command\"\n  comand = [\"x\"]\n",
        expect![[r#"
            provost.toml:3:3: unknown key `comand` in [agents.coder]; did you mean `command`?
                comand = ["x"]
                ^^^^^^
        "#]],
    );
    refused(
        "[agent.coder]\n",
        expect![[r#"
            provost.toml:1:2: unknown key `agent`; did you mean `agents`?
              [agent.coder]
               ^^^^^
        "#]],
    );
    refused(
        "[verify]\nauto_approve = true\n",
        expect![[r#"
            provost.toml:2:1: unknown key `auto_approve` in [verify]; it is one of isolation, require_red, caches, build_caches, provision, contract_timeout, min_proved, proved_time_limit, max_file, trace, read, write, secrets
              auto_approve = true
              ^^^^^^^^^^^^
        "#]],
    );
}

#[test]
fn text_that_is_no_toml_is_shown_where_it_breaks() {
    refused(
        "[verify]\nisolation = auto\n",
        expect![[r#"
            provost.toml:2:13: string values must be quoted, expected literal string
              isolation = auto
                          ^^^^
        "#]],
    );
}

#[test]
fn values_that_make_no_sense_are_refused() {
    refused(
        "[run]\nstep_timeout = \"soon\"\n",
        expect![[r#"
            provost.toml:2:16: `step_timeout` must be a time such as "10m" or "60s": expected number at 0
              step_timeout = "soon"
                             ^^^^^^
        "#]],
    );
    refused(
        "[run]\ndisk = \"20 GB\"\n",
        expect![[r#"
        provost.toml:2:8: `disk` must be a size such as "20 GiB" or "512 MiB", with a whole number
          disk = "20 GB"
                 ^^^^^^^
    "#]],
    );
    refused(
        "[run]\nmemory = \"10 KiB\"\n",
        expect![[r#"
        provost.toml:2:10: `memory` must be at least 1 MiB
          memory = "10 KiB"
                   ^^^^^^^^
    "#]],
    );
    refused(
        "[run]\nstep_timeout = \"900days\"\n",
        expect![[r#"
            provost.toml:2:16: `step_timeout` must be more than zero and at most 7days
              step_timeout = "900days"
                             ^^^^^^^^^
        "#]],
    );
    refused(
        "[verify]\nisolation = \"landlok\"\n",
        expect![[r#"
            provost.toml:2:13: there is no isolation `landlok`; did you mean `landlock`?
              isolation = "landlok"
                          ^^^^^^^^^
        "#]],
    );
    refused(
        "[verify]\nisolation = \"uid\"\n",
        expect![[r#"
            provost.toml:2:13: the level `uid` was removed; use `landlock`, or `clean` with bubblewrap
              isolation = "uid"
                          ^^^^^
        "#]],
    );
    refused(
        "[verify]\ncaches = [\"../target\"]\n",
        expect![[r#"
            provost.toml:2:11: `../target` is not a folder inside the workspace
              caches = ["../target"]
                        ^^^^^^^^^^^
        "#]],
    );
    refused(
        "[gate]\napprovals = 0\n",
        expect![[r#"
        provost.toml:2:13: `approvals` must be between 1 and 100
          approvals = 0
                      ^
    "#]],
    );
    refused(
        "[store]\nurl = \"postgres://u:hunter2@h/d\"\n",
        expect![[r#"
            provost.toml:2:7: this address contains a password: use PGPASSWORD or the file that PGPASSFILE names instead
              url = "postgres://u:[redacted:url-password]@h/d"
                    ^^^^^^^^^^^^^^^^^^^^^^^^^^
        "#]],
    );
    refused(
        "[agents]\ncoder = \"bash\"\n",
        expect![[r#"
            provost.toml:2:9: `coder` must be a section, but this is a string
              coder = "bash"
                      ^^^^^^
        "#]],
    );
    refused(
        "[agents.coder]\ndriver = \"scripted\"\nscript = \"x\"\ncommand = [\"y\"]\n",
        expect![[r#"
            provost.toml:4:11: driver `scripted` has no `command`
              command = ["y"]
                        ^^^^^
        "#]],
    );
    refused(
        "[agents.coder]\ndriver = \"command\"\n",
        expect![[r#"
            provost.toml:1:1: [agents.coder] has no `command`
              [agents.coder]
              ^^^^^^^^^^^^^^
        "#]],
    );
}

#[test]
fn the_nearest_file_upwards_is_the_configuration() {
    let root = tempfile::tempdir().expect("a folder");
    let deep = root.path().join("a/b/c");
    std::fs::create_dir_all(&deep).expect("folders");
    std::fs::write(root.path().join("a").join(FILE_NAME), "[run]\nmax_lost_attempts = 7\n").expect("a file");
    std::fs::write(root.path().join(FILE_NAME), "nonsense").expect("a file");
    let config = find(&deep).expect("a configuration");
    assert_eq!(config.path, Some(root.path().join("a").join(FILE_NAME)));
    assert_eq!(config.run.max_lost_attempts, 7);
    std::fs::write(root.path().join("a").join(FILE_NAME), [0xff, 0xfe]).expect("a file");
    assert!(matches!(find(&deep), Err(Error::NotText { .. })));
}

#[test]
fn who_is_told_and_what_is_waited_for_is_read() {
    let text = "[notify]\ndesktop = true\ncommand = [\"sh\", \"tell.sh\"]\n[[notify.webhook]]\nurl = \"https://a.example/x\"\n\
                [[notify.webhook]]\nurl = \"http://[::1]:80/\"\nsecret_env = \"S\"\n[gate]\nremind_after = \"24h\"\n\
                [run]\nlease_timeout = \"5m\"\n";
    let config = super::parse(Path::new("provost.toml"), text).expect("read");
    let urls: Vec<&str> = config.notify.webhooks.iter().map(|webhook| webhook.url.as_str()).collect();
    assert_eq!(urls, ["https://a.example/x", "http://[::1]:80/"]);
    assert_eq!(config.notify.webhooks[1].secret_env.as_deref(), Some("S"));
    assert_eq!((config.notify.desktop, config.notify.needs_trust()), (true, true));
    assert_eq!(config.gate.remind_after, Some(Duration::from_secs(24 * 3600)));
    assert_eq!(config.run.lease_timeout, Duration::from_secs(300));
    // Trust is in what is run and talked to, and in nothing else.
    let quiet = super::parse(Path::new("provost.toml"), &text.replace("desktop = true", "desktop = false"));
    assert_eq!(quiet.expect("read").notify.digest(), config.notify.digest());
    let other = super::parse(Path::new("provost.toml"), &text.replace("tell.sh", "other.sh")).expect("read");
    assert_ne!(other.notify.digest(), config.notify.digest());
}

#[test]
fn an_error_names_the_key_the_entry_and_the_section() {
    refused(
        "[notify.webhook]\nurl = \"https://a.example\"\n",
        expect![[r#"
        provost.toml:1:1: `webhook` is a list of sections: write [[notify.webhook]]
          [notify.webhook]
          ^^^^^^^^^^^^^^^^
    "#]],
    );
    refused(
        "[[notify.webhook]]\nurl = \"https://a.example\"\n[[notify.webhook]]\nurl = \"http://a.example\"\n",
        expect![[r#"
            provost.toml:4:7: `url` must begin with https://; http:// is allowed only for this machine's loopback
              url = "http://a.example"
                    ^^^^^^^^^^^^^^^^^^
        "#]],
    );
    refused(
        "[[notify.webhook]]\nsecret_env = \"S\"\n",
        expect![[r#"
        provost.toml:1:1: [notify.webhook] has no `url`
          [[notify.webhook]]
          ^^^^^^^^^^^^^^^^^^
    "#]],
    );
    refused(
        "[agents.\"a b\"]\ndriver = \"gemini\"\n",
        expect![[r#"
        provost.toml:1:9: "a b" is not a valid name for a section of [agents]
          [agents."a b"]
                  ^^^^^
    "#]],
    );
    refused(
        "[agents.coder.meter]\napi = \"openai\"\n",
        expect![[r#"
        provost.toml:1:9: [agents.coder] has no `driver`
          [agents.coder.meter]
                  ^^^^^
    "#]],
    );
    refused(
        "[agents.a]\ndriver = \"scripted\"\nscript = \"x\"\n[agents.a.meter]\napi = \"openai\"\n",
        expect![[r#"
        provost.toml:4:1: driver `scripted` calls no model, so there is nothing to meter
          [agents.a.meter]
          ^^^^^^^^^^^^^^^^
    "#]],
    );
    refused(
        "[agents.a]\ndriver = \"human\"\n",
        expect![[r#"
        provost.toml:2:10: there is no driver `human`; for a step that a person confirms, write `**contract:** human` in the plan
          driver = "human"
                   ^^^^^^^
    "#]],
    );
    refused(
        "[agents.a]\ndriver = \"gemni\"\n",
        expect![[r#"
        provost.toml:2:10: there is no driver `gemni`; did you mean `gemini`?
          driver = "gemni"
                   ^^^^^^^
    "#]],
    );
    refused(
        "[gate.policies.docs]\ntouches = [\"docs/**\"]\nchecks = [\"lint\"]\n",
        expect![[r#"
        provost.toml:3:10: no section [checks.lint]; known checks: none
          checks = ["lint"]
                   ^^^^^^^^
    "#]],
    );
    refused(
        "[verify]\ncaches = [\"target\", 5]\n",
        expect![[r#"
        provost.toml:2:21: `caches` must be a list of texts, but this is a integer
          caches = ["target", 5]
                              ^
    "#]],
    );
    refused(
        "[gate]\nself_approval = \"no\"\napprovals = -1\n",
        expect![[r#"
        provost.toml:2:17: `self_approval` must be true or false, but this is a string
          self_approval = "no"
                          ^^^^
    "#]],
    );
    refused(
        "[prices.m]\ninput = \"1\"\noutput = 1\n",
        expect![[r#"
        provost.toml:2:9: `input` must be a sum in dollars, but this is a string
          input = "1"
                  ^^^
    "#]],
    );
    refused(
        "verify = 5\n",
        expect![[r#"
        provost.toml:1:10: `verify` must be a section, but this is a integer
          verify = 5
                   ^
    "#]],
    );
    refused(
        "[run]\nzeta = 1\nalpha = 2\n",
        expect![[r#"
        provost.toml:2:1: unknown key `zeta` in [run]; it is one of step_timeout, lease_timeout, max_lost_attempts, disk, memory, processes
          zeta = 1
          ^^^^
    "#]],
    );
}

#[test]
fn texts_and_lists_have_a_limit() {
    let message = |text: &str| match parse(Path::new("provost.toml"), text) {
        Err(Error::Wrong(wrong)) => (wrong.line, wrong.column, wrong.message),
        other => panic!("{other:?}"),
    };
    let (long, many) = ("x".repeat(4097), "\"x\", ".repeat(1001));
    assert_eq!(
        message(&format!("[plan]\nrole = \"{long}\"\n")),
        (2, 8, "`role` is longer than 4096 bytes".into())
    );
    let entry = "`setup` is longer than 4096 bytes".to_owned();
    assert_eq!(message(&format!("[worktrees]\nsetup = [\"true\", \"{long}\"]\n")), (2, 18, entry));
    let entries = "`setup` has more than 1000 entries".to_owned();
    assert_eq!(message(&format!("[worktrees]\nsetup = [{many}]\n")), (2, 9, entries));
}

#[test]
fn secrets_of_ones_own_have_names_and_shapes() {
    let text = "[redact]\nnames = [\"ACME_PIN\"]\n[[redact.shapes]]\nname = \"ticket\"\nprefix = \"acmetkt_\"\n\
                [[redact.shapes]]\nname = \"badge\"\npattern = \"badge ([0-9]{8})\"\n";
    let own = parsed(text).redact;
    assert!(own.has_name("acme_pin") && !own.has_name("PIN"));
    assert_eq!(own.shapes.len(), 2);
    let shape = |keys: &str| format!("[[redact.shapes]]\nname = \"ticket\"\n{keys}\n");
    for (text, said) in [
        (
            "[redact]\nname = [\"A\"]\n".to_owned(),
            "2:1: unknown key `name` in [redact]; did you mean `names`?",
        ),
        (
            "[redact]\nnames = [\"a secret value\"]\n".to_owned(),
            "2:10: `names` lists names such as \"ACME_PIN\"",
        ),
        ("[[redact.shapes]]\nprefix = \"abc\"\n".to_owned(), "1:1: [redact.shapes] has no `name`"),
        (shape(""), "1:1: a shape needs a `prefix` or a `pattern`"),
        (shape("pattern = \"(\""), "3:11: `pattern` is not a regular expression: error: unclosed group"),
        (shape("pattern = \"a*\""), "3:11: `pattern` matches even an empty text"),
        (shape("prefix = \"ab\""), "3:10: `prefix` needs at least 3 characters"),
        (shape("prefix = \"abc\"\npattern = \"abc\""), "4:11: use `prefix` or `pattern`, not both"),
        (shape("prefix = \"abc\"\nlength = 3"), "4:10: `length` must be between 4 and 256"),
        (
            "[redact.shapes]\nname = \"x\"\n".to_owned(),
            "1:1: `shapes` is a list of sections: write [[redact.shapes]]",
        ),
    ] {
        let error = parse(Path::new("provost.toml"), &text).expect_err(&text).to_string();
        assert!(error.starts_with(&format!("provost.toml:{said}")), "{error}");
    }
}
