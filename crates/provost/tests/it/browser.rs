//! Tests the pages in real browsers: `tests/browser/flows.mjs` drives Chromium, `tests/browser/looks.mjs` looks
//! at every page in Chromium and Firefox, `tests/browser/sign_in.mjs` signs in at a provider.
//!
//! playwright-core, puppeteer-core and axe-core are installed once from npm, next to this test binary.
//! Screenshots of every page are stored there too, in `browser-shots`. `tests/browser/golden` keeps an outline of
//! each page.

use std::path::Path;
use std::process::{Command, Stdio};

use provost_core::model::chain::PlanId;
use provost_core::model::check_author::CheckAuthor;
use provost_core::model::event::{Event, Revision};
use provost_core::model::run_policy::RunPolicy;
use provost_core::model::timestamp::Timestamp;
use provost_rehearsal::skip;
use provost_store::{Append, Log as _, LogEntry, Sqlite};
use serde_json::Value;

use crate::env::{Env, plan};
use crate::registry;
use crate::registry::installed;
use crate::serve::oidc;

/// Does the first part. Only claims the second part at first, and does it at the retry.
const AGENT: &str = r#"
part=$(sed -n 's/^Do part \([0-9]*\) .*/\1/p'); mkdir -p out; sleep 1
if [ "$part" = 2 ] && [ ! -e out/claimed ]; then touch out/claimed; echo "all of it is done"; exit 0; fi
[ "$part" = 2 ] && echo "the second part" > out/2 || echo "the first part" > "out/$part"
echo "wrote out/$part"
[ "$part" = 2 ] && printf 'ghp_%s\n' 0123456789abcdefABCDEF0123456789abcd >> out/2
if [ "$part" = 9 ]; then
    printf '\033[2J\342\200\256<script>window.pwned=1</script><img src=x onerror="window.pwned=1">' | tee out/9
fi
"#;

/// Markup for every text of a plan; the plan's agent prints it too.
const HOSTILE: &str =
    r#"<img src=x onerror="window.pwned=1"></title></svg><script>window.pwned=1</script>'"--><b>"#;

/// Returns the first browser that is installed.
fn chromium() -> Option<&'static str> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    names.into_iter().find(|name| Command::new(name).arg("--version").output().is_ok())
}

fn modules() -> Result<std::path::PathBuf, String> {
    installed("browser", "node_modules/puppeteer-core/package.json", |folder| {
        let mut npm = Command::new("npm");
        npm.args(["install", "--silent", "--no-audit", "--no-fund", "--prefix"]).arg(folder).args([
            "playwright-core",
            "axe-core",
            "puppeteer-core",
        ]);
        npm
    })
}

/// Returns a plan with many steps whose graph is neither a chain nor flat.
fn large(count: u32) -> String {
    let steps: Vec<String> = (1..=count).map(|_| "true".to_owned()).collect();
    let contracts: Vec<&str> = steps.iter().map(String::as_str).collect();
    let mut text = plan(&contracts, "escalate").replace("# A plan", "# The large one");
    for step in 2..=count {
        let (near, far) = (step - 1 - step % 3 % (step - 1), 1 + step * 7 % (step - 1));
        let title = format!("### {step}. Step {step}\n\n");
        let named = format!("### {step}. Bring part {step} of the large work in order\n\n");
        text = text.replace(&title, &format!("{named}**needs:** {near}, {far}\n\n"));
    }
    text
}

fn hostile() -> String {
    // A title cannot contain raw HTML; escaped, it is text.
    let title = HOSTILE.replace('<', "\\<");
    plan(&["cat out/9"], "escalate")
        .replace("# A plan", &format!("# {title}"))
        .replace("Step 1", &title)
        .replace("Do part 1 of the work.", &format!("Do part 9 of {HOSTILE}."))
        + "\n## Postconditions\n\n1. Nothing runs "
        + HOSTILE
        + "\n   ```shell\n   test -f out/9 # "
        + HOSTILE
        + "\n   ```\n"
}

fn workspace(steps: u32) -> Env {
    let titled = |title: &str| plan(&["test -f out/3"], "escalate").replace("# A plan", title);
    let first = plan(&["test -f out/1", "test -f out/2"], "escalate")
        .replace("# A plan", "# Ship the thing")
        .replace("Step 1", "Write the first part")
        .replace("Step 2", "Write the second part");
    let env = Env::new(&first).agent(AGENT);
    env.write("PLAN-other.md", titled("# The other"));
    env.write("PLAN-third.md", titled("# The third"));
    env.write("PLAN-quorum.md", titled("# For two"));
    env.write("PLAN-hostile.md", hostile());
    env.write("PLAN-large.md", large(steps));
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "plans"]);
    for name in ["", "-other", "-third", "-quorum", "-hostile", "-large"] {
        env.provost(&["verify", &format!("PLAN{name}.md")]).exits(0);
    }
    env
}

fn variables(env: &Env) -> String {
    let command = env.command(&[]);
    let pairs = command
        .get_envs()
        .filter_map(|(name, value)| Some((name.to_str()?.to_owned(), Value::from(value?.to_str()?))));
    Value::Object(pairs.collect()).to_string()
}

#[test]
fn people_approve_watch_answer_and_audit_in_a_browser() {
    let Some(chromium) = chromium() else {
        return skip::tool("chromium", "apt-get install chromium");
    };
    let modules = match modules() {
        Ok(modules) => modules,
        Err(why) => return registry::npm_package("playwright-core and axe-core", &why),
    };
    let env = workspace(200);
    let mut node = script("flows.mjs", &env, &modules, chromium);
    if env.has_fences() {
        node.env("HAS_TREES", "yes");
    }
    let output = node.output().expect("node");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(said.lines().filter(|line| line.starts_with("well: ")).count(), 14, "{said}");
}

/// A real provider, and people who sign in there, decide and leave.
#[test]
fn people_sign_in_at_a_provider_in_a_browser() {
    let Some(chromium) = chromium() else {
        return skip::tool("chromium", "apt-get install chromium");
    };
    let modules = match modules() {
        Ok(modules) => modules,
        Err(why) => return registry::npm_package("playwright-core and axe-core", &why),
    };
    let Some(provider) = oidc::package() else { return };
    let env = Env::new(&plan(&["test -f out/1"], "escalate")).agent(AGENT).isolation("in-place");
    env.provost(&["verify"]).exits(0);
    let mut node = script("sign_in.mjs", &env, &modules, chromium);
    let output = node.env("PROVIDER", provider).env("SECRET", oidc::SECRET.1).output().expect("node");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(said.lines().filter(|line| line.starts_with("well: ")).count(), 4, "{said}");
}

/// Returns a script of `tests/browser` with what it needs.
fn script(name: &str, env: &Env, modules: &Path, chromium: &str) -> Command {
    let mut node = Command::new("node");
    node.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser").join(name))
        .env("PROVOST", env!("CARGO_BIN_EXE_provost"))
        .env("WORK", env.work())
        .env("VARIABLES", variables(env))
        .env("MODULES", modules)
        .env("CHROMIUM", found(chromium))
        .env("SHOTS", Path::new(env!("CARGO_TARGET_TMPDIR")).join("browser-shots"))
        .stdin(Stdio::null());
    node
}

/// Puts a thousand plans of one step each into the log.
fn add_thousand_plans(env: &Env) {
    let log = Sqlite::open(&env.state()).expect("a log");
    for number in 0..1000_u64 {
        let plan = PlanId(format!("many-{number:04}"));
        let event = Event::PlanCreated {
            text: plan_text(&format!("# Plan {number}")),
            revision: Revision(format!("{number:064x}")),
            base: None,
            files: Vec::new(),
            terms: RunPolicy::default(),
            included: Vec::new(),
            task_count: 1,
            dependencies: Vec::new(),
            drafting: Vec::new(),
            author: None,
            checks_by: CheckAuthor::Person,
        };
        let events = [LogEntry { event: &event, task_name: None }];
        let at = Timestamp(1_700_000_000_000 + number);
        let append = Append { plan: &plan, expected_seq: 0, at, fence: None, events: &events, effects: &[] };
        log.append(append).expect("appended");
    }
}

fn plan_text(title: &str) -> String {
    plan(&["true"], "escalate").replace("# A plan", title)
}

/// Every page, light and dark, in three widths, in Chromium and Firefox; with a thousand plans, and one of four
/// hundred steps.
#[test]
fn every_page_looks_right_in_two_browsers() {
    let Some(chromium) = chromium() else {
        return skip::tool("chromium", "apt-get install chromium");
    };
    let firefox = ["firefox-esr", "firefox"];
    let Some(firefox) = firefox.into_iter().find(|name| Command::new(name).arg("--version").output().is_ok())
    else {
        return skip::tool("firefox", "apt-get install firefox-esr");
    };
    let modules = match modules() {
        Ok(modules) => modules,
        Err(why) => return registry::npm_package("playwright-core, puppeteer-core and axe-core", &why),
    };
    let env = workspace(400);
    // The outlines are those of pages with trees.
    if !env.has_fences() {
        return;
    }
    env.provost(&["approve", "PLAN.md", "--revision", &env.revision()]).exits(0);
    env.provost(&["run", "PLAN.md"]).exits(4);
    add_thousand_plans(&env);
    let mut node = script("looks.mjs", &env, &modules, chromium);
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser/golden");
    let output = node.env("FIREFOX", found(firefox)).env("GOLDEN", golden).output().expect("node");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(said.lines().filter(|line| line.starts_with("well: ")).count(), 3, "{said}");
    // The times, with `--nocapture`.
    print!("{said}");
}

/// Returns the full path, which Playwright needs.
fn found(program: &str) -> String {
    let output = Command::new("bash").args(["-c", "command -v \"$1\"", "which", program]).output();
    String::from_utf8_lossy(&output.expect("bash").stdout).trim().to_owned()
}
