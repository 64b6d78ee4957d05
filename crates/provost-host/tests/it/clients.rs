//! Tests headless clients: how provost starts them, what they find, and how provost parses their output. A
//! script plays each client.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use provost_core::model::event::{AttemptEnd, FailureClass};
use provost_core::model::usage::Usage;
use provost_core::rules::recover::class::{self, FailureOutput};
use provost_host::agent::headless::Headless;
use provost_host::agent::{AgentDriver, AttemptInput, AttemptReport, Resume};
use provost_host::config::Client;
use tempfile::TempDir;

use crate::agents::{environment, exited, work};
use crate::tag;

/// A workspace, a home, and a program that plays the client and records how it was started.
struct Stage {
    folder: TempDir,
    environment: Vec<(OsString, OsString)>,
}

impl Stage {
    fn new(script: &str) -> Self {
        let folder = TempDir::new().unwrap();
        for name in ["work", "home", "users"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let program = folder.path().join("client");
        let notes = "printf '%s\\n' \"$@\" > args; cat > prompt; env > env";
        std::fs::write(&program, format!("#!/bin/bash\n{notes}\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let keys = ["ANTHROPIC", "OPENAI", "GEMINI", "CODEX", "CLAUDE", "XDG"];
        let is_other = |name: &str| !keys.iter().any(|key| name.starts_with(key)) && name != "HOME";
        let mut all: Vec<(OsString, OsString)> = environment().to_vec();
        all.retain(|(name, _)| is_other(&name.to_string_lossy()));
        all.push(("HOME".into(), folder.path().join("users").into()));
        Self { folder, environment: all }
    }

    fn with(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn plays(&self, client: Client, model: Option<&str>, resume: Option<Resume<'_>>) -> AttemptReport {
        let (tag, workspace, home) = (tag(), self.path("work"), self.path("home"));
        let work = AttemptInput {
            home: Some(&home),
            resume,
            environment: &self.environment,
            ..work(&workspace, &tag)
        };
        let program = Some(self.path("client").to_string_lossy().into_owned());
        let args = vec!["--more".to_owned()];
        let agent = Headless { client, program, model: model.map(str::to_owned), args, server: None };
        agent.attempt(&work).expect("not interrupted")
    }
}

fn resume<'a>(used: &'a Usage) -> Option<Resume<'a>> {
    Some(Resume { session: "s-1", prompt: "not done yet", used, claim: "" })
}

#[test]
fn claude_is_told_what_it_may_do_and_goes_on_by_its_session() {
    let script = r#"echo '{"type":"system","subtype":"init","session_id":"s-1"}'
echo '{"type":"result","subtype":"success","is_error":false,"result":"Done.","session_id":"s-1","total_cost_usd":0.05,"usage":{"input_tokens":30,"output_tokens":4},"modelUsage":{"m":{"inputTokens":'"${TOLD:-30}"',"outputTokens":4}}}'"#;
    let stage = Stage::new(script);
    std::fs::create_dir(stage.path("users/.claude")).unwrap();
    std::fs::write(stage.path("users/.claude/.credentials.json"), "{}").unwrap();
    let first = stage.plays(Client::Claude, Some("sonnet"), None);
    assert_eq!((first.end, first.report.as_str()), (exited(0), "Done."));
    assert_eq!(first.session.as_deref(), Some("s-1"));
    let args = stage.read("work/args");
    assert!(args.starts_with("-p\n--output-format\nstream-json\n"), "{args}");
    assert!(
        args.contains("\n--setting-sources\n\n") && args.ends_with("--model\nsonnet\n--more\n"),
        "{args}"
    );
    assert_eq!(stage.read("work/prompt"), "write the file\n");
    let env = stage.read("work/env");
    assert!(env.contains(&format!("CLAUDE_CONFIG_DIR={}\n", stage.path("home").display())), "{env}");
    assert!(env.contains("PROVOST_ATTEMPT=test/"), "its work item: {env}");
    assert!(stage.read("home/harness.json").contains("\"Bash\""));
    let login = std::fs::read_link(stage.path("home/.credentials.json")).unwrap();
    assert_eq!(login, stage.path("users/.claude/.credentials.json"));

    // This version reports the usage of the turn; another one reports that of the whole conversation.
    let used =
        Usage { micro_usd: Some(20_000), input_tokens: Some(10), output_tokens: Some(1), ..Usage::default() };
    let second = stage.plays(Client::Claude, None, resume(&used));
    assert!(stage.read("work/args").contains("--resume\ns-1\n"));
    assert_eq!(stage.read("work/prompt"), "not done yet");
    assert_eq!((second.usage.micro_usd, second.usage.input_tokens), (Some(50_000), Some(30)));
    let stage = stage.with("TOLD", "41");
    let whole = stage.plays(Client::Claude, None, resume(&used));
    assert_eq!((whole.usage.micro_usd, whole.usage.input_tokens), (Some(30_000), Some(31)));
}

#[test]
fn codex_finds_its_provider_in_a_file_and_counts_a_whole_thread() {
    let script = r#"echo '{"type":"thread.started","thread_id":"s-1"}'
echo '{"type":"item.completed","item":{"type":"agent_message","text":"Done."}}'
echo '{"type":"turn.completed","usage":{"input_tokens":500,"output_tokens":50,"cached_input_tokens":0}}'"#;
    let stage =
        Stage::new(script).with("OPENAI_API_KEY", "sk-hm").with("OPENAI_BASE_URL", "http://127.0.0.1:1/v1");
    let first = stage.plays(Client::Codex, Some("small"), None);
    assert_eq!((first.end, first.session.as_deref()), (exited(0), Some("s-1")));
    assert_eq!(stage.read("work/args"), "exec\n--json\n--skip-git-repo-check\n--more\n-\n");
    let config = stage.read("home/config.toml");
    let config: toml::Table = config.parse().expect("TOML");
    assert_eq!(config["model"].as_str(), Some("small"));
    assert_eq!(config["sandbox_mode"].as_str(), Some("workspace-write"));
    let provider = &config["model_providers"]["harness"];
    assert_eq!(provider["base_url"].as_str(), Some("http://127.0.0.1:1/v1"));
    assert_eq!(provider["env_key"].as_str(), Some("OPENAI_API_KEY"));
    assert!(!stage.read("home/config.toml").contains("sk-hm"));
    let used = Usage {
        input_tokens: Some(300),
        output_tokens: Some(30),
        cache_read_tokens: Some(0),
        ..Usage::default()
    };
    let second = stage.plays(Client::Codex, None, resume(&used));
    assert!(stage.read("work/args").starts_with("exec\nresume\n--json\n--skip-git-repo-check\ns-1\n"));
    assert_eq!((second.usage.input_tokens, second.usage.output_tokens), (Some(200), Some(20)));
}

#[test]
fn gemini_and_opencode_go_on_by_their_sessions() {
    let stage = Stage::new(
        r#"echo '{"type":"init","session_id":"s-1"}'
echo '{"type":"message","role":"assistant","content":"Done.","delta":true}'
echo '{"type":"result","status":"success","stats":{"input_tokens":5,"output_tokens":1}}'"#,
    )
    .with("GEMINI_API_KEY", "k");
    let used = Usage::default();
    let gemini = stage.plays(Client::Gemini, Some("pro"), resume(&used));
    assert_eq!((gemini.end, gemini.session.as_deref()), (exited(0), Some("s-1")));
    assert_eq!(stage.read("work/prompt"), "not done yet");
    assert!(stage.read("work/args").contains("--resume\ns-1\n-m\npro\n"), "{}", stage.read("work/args"));
    assert!(stage.read("home/.gemini/settings.json").contains("gemini-api-key"));

    let script = r#"echo '{"type":"text","sessionID":"s-1","part":{"text":"Done."}}'
echo '{"type":"step_finish","sessionID":"s-1","part":{"reason":"stop","cost":0.01,"tokens":{"input":7,"output":2}}}'"#;
    let stage =
        Stage::new(script).with("ANTHROPIC_BASE_URL", "http://127.0.0.1:1").with("ANTHROPIC_API_KEY", "k");
    // A link that a client leaves in its folder is not followed.
    std::os::unix::fs::symlink(stage.path("users"), stage.path("home/config")).unwrap();
    let opencode = stage.plays(Client::Opencode, Some("anthropic/x"), resume(&used));
    assert_eq!((opencode.end, opencode.session.as_deref()), (exited(0), Some("s-1")));
    assert_eq!(opencode.usage.micro_usd, Some(10_000));
    assert!(
        stage.read("work/args").contains("--session\ns-1\n-m\nanthropic/x\n"),
        "{}",
        stage.read("work/args")
    );
    assert!(stage.read("home/config/opencode/opencode.json").contains("http://127.0.0.1:1/v1"));
    assert!(!stage.path("users/opencode").exists());
}

#[test]
fn what_a_client_reports_as_a_success_and_is_none_has_its_class() {
    use FailureClass::{Permission, Transient};
    let claude = |words: &str, status: u32| {
        format!(
            r#"echo '{{"type":"result","subtype":"success","is_error":true,"result":"API Error: {status} {words}","api_error_status":{status},"session_id":"s-1"}}'"#
        )
    };
    let codex =
        |words: &str| format!(r#"echo '{{"type":"turn.failed","error":{{"message":"{words}"}}}}'; exit 1"#);
    let cases = [
        (Client::Claude, claude("authentication_error: invalid x-api-key", 401), Permission),
        (Client::Claude, claude("rate_limit_error: slow down", 429), Transient),
        (Client::Claude, claude("overloaded_error", 529), Transient),
        (Client::Codex, codex("unexpected status 401 Unauthorized: bad key"), Permission),
        (Client::Codex, codex("exceeded retry limit, last status: 529 overloaded"), Transient),
        (Client::Opencode, r#"echo '{"type":"error","error":{"name":"APIError","data":{"message":"Unauthorized","statusCode":401}}}'"#.into(), Permission),
        (Client::Gemini, r#"echo '{"error":{"code":401,"message":"API key not valid"}}' >&2; exit 145"#.into(), Permission),
    ];
    for (client, script, wanted) in cases {
        let attempt = Stage::new(&script).plays(client, None, None);
        assert!(
            matches!(attempt.end, AttemptEnd::Exited { exit_code } if exit_code != 0),
            "{script}: {:?}",
            attempt.end
        );
        let said = if attempt.report.trim().is_empty() { attempt.stderr.to_string() } else { attempt.report };
        let found = class::of(FailureOutput { stderr: &said, ..FailureOutput::default() });
        assert_eq!(found.class, wanted, "{script}: {said}");
        assert_eq!(attempt.session, None, "what failed is not gone on with: {script}");
    }
}

#[test]
fn a_client_that_dies_floods_or_babbles_is_a_failure_or_plain_text() {
    let killed = Stage::new("kill -9 $$").plays(Client::Claude, None, None);
    assert_eq!(killed.end, AttemptEnd::Signalled { signal: 9 });
    // More output than provost keeps, and none of it valid.
    let flood = Stage::new("yes garbage | head -c 50000000; exit 3").plays(Client::Codex, None, None);
    assert_eq!((flood.end, flood.session), (exited(3), None));
    assert!(flood.report.len() < 100_000);
    // A session id that looks like an option is ignored.
    let odd = Stage::new(r#"echo '{"type":"thread.started","thread_id":"--yolo"}'"#).plays(
        Client::Codex,
        None,
        None,
    );
    assert_eq!((odd.end, odd.session), (exited(0), None));
}

#[test]
fn a_client_without_a_folder_is_not_started() {
    let folder = TempDir::new().unwrap();
    let agent =
        Headless { client: Client::Codex, program: None, model: None, args: Vec::new(), server: None };
    let tag = tag();
    let attempt = agent.attempt(&work(Path::new(folder.path()), &tag)).unwrap();
    assert!(matches!(attempt.end, AttemptEnd::NotStarted { .. }));
}
