//! Checks that every diagnostic code has a page, and that one change to a good plan causes it.

use std::collections::{BTreeMap, BTreeSet};

use provost_core::language::diagnostic::{Code, Severity, explain};
use provost_core::language::facts::Facts;
use provost_core::language::verify;
use provost_core::model::contract_traits::{ContractTraits, Evidence};
use provost_core::model::plan::Plan;

use crate::{GOOD, diagnose, permissive};

#[test]
fn the_good_plan_is_clean() {
    let said = diagnose(GOOD, permissive);
    assert!(said.is_empty(), "{said:#?}");
}

#[test]
fn set_e_stops_at_these_commands() {
    for contract in [
        "set -e\ncargo fmt --check\ncargo test",
        "set -e\ncargo test\n! grep -rn old src",
        "set -e\n! grep -rn old src || exit 1\ncargo test",
        "set -e\ncd crates && cargo fmt --check || exit 1\ncargo test",
    ] {
        let said = diagnose(&GOOD.replacen("\ncargo test\n", &format!("\n{contract}\n"), 1), permissive);
        assert!(!said.iter().any(|each| each.code == Code::LastDecides), "{contract}: {said:#?}");
    }
}

#[test]
fn every_code_has_a_page_that_names_it() {
    for code in Code::ALL {
        let page = explain(code.id()).unwrap_or_default();
        assert!(page.starts_with(&format!("# {code}: {}\n", code.title())), "{code}");
        for part in ["## Wrong", "## Right", "## Why"] {
            assert!(page.contains(part), "{code} has no {part}");
        }
        assert_eq!(Code::find(&code.to_string().to_lowercase()), Some(*code));
    }
    assert_eq!(explain("P999"), None);
}

#[test]
#[allow(clippy::disallowed_methods)]
fn every_page_belongs_to_a_code() {
    let pages = concat!(env!("CARGO_MANIFEST_DIR"), "/src/language/diagnostic");
    for entry in std::fs::read_dir(pages).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        if let Some(id) = name.strip_suffix(".md") {
            assert!(Code::find(id).is_some(), "{name}");
        }
    }
}

/// Returns the good plan with one replacement, and the code that it must cause.
fn provocations() -> Vec<(Code, String)> {
    let change = |from: &str, to: &str| {
        assert!(GOOD.contains(from), "{from}");
        GOOD.replacen(from, to, 1)
    };
    let check = |body: &str| change("cargo test\n", &format!("{body}\n"));
    vec![
        (Code::TooLarge, " ".repeat(16 * 1024 * 1024) + GOOD),
        (Code::Invisible, change("Tabs are", "Tabs\u{202e} are")),
        (Code::Invisible, change("Tabs are", "Tabs\u{0} are")),
        (Code::NonAscii, check("cargo tеst")),
        (Code::NonAscii, change("file:src/parser.rs", "file:src/pаrser.rs")),
        (Code::HiddenHtml, change("accept tabs.", "accept tabs. <!-- or not -->")),
        (Code::Passing, check("! cargo test")),
        (Code::CheckUnknown, check("check:unit")),
        (
            Code::OtherCommands,
            change(
                "cargo test\n```\n**on_fail:**",
                "cargo test && cargo fmt --check\n```\nno new failures\n**on_fail:**",
            ),
        ),
        (Code::Empty, "\n \n".into()),
        (
            Code::Secret,
            change("accept tabs.", concat!("accept tabs with gh", "p_abcdefghijklmnopqrstuvwxyz0123456789.")),
        ),
        (Code::NoFrontmatter, GOOD[GOOD.find("# Teach").unwrap()..].into()),
        (Code::FrontmatterOpen, change("]\n---\n", "]\n")),
        (Code::FrontmatterInvalid, change("owner: me", "owner: me\nowner: you")),
        (Code::FrontmatterInvalid, change("owner: me", "owner: [me")),
        (Code::FrontmatterUnknown, change("owner: me", "onwer: me")),
        (Code::FrontmatterValue, change("status: draft", "status: ready")),
        (Code::FrontmatterValue, change("type: plan", "type: note")),
        (Code::FrontmatterDoubled, change("]\n---\n", "]\n---\n\n---\nstatus: done\n---\n")),
        (Code::NoStatus, change("status: draft\n", "")),
        (Code::NoTitle, change("# Teach the parser tabs\n", "")),
        (Code::NoSteps, change("## Steps", "## Stages")),
        (Code::StepRange, change("### 2. Make", "### 2–N. Make")),
        (Code::StepHeading, change("### 2. Make", "### Step 2: Make")),
        (Code::StepNumber, change("### 2. Make", "### 4. Make")),
        (Code::StepNumber, change("### 2. Make", "### 1. Make")),
        (Code::SectionDoubled, change("## Postconditions", "## Steps")),
        (Code::Underlined, change("retry(1), then abort\n", "retry(1), then abort\n---\n")),
        (Code::StepLevel, change("accept tabs.", "accept tabs.\n#### 2. Sub\n")),
        (Code::FenceOpen, change("exit_code == 0\n", "~~~\n")),
        (Code::FieldUnknown, change("**task:** Let", "**taks:** Let")),
        (Code::FieldDoubled, change("**target:** writer", "**target:** writer\n**target:** coder")),
        (Code::FieldDoubled, change("### 3. Say so", "### 3. Say so (depends on Task 1)")),
        (Code::FieldValue, change("retry(1), then abort", "try again")),
        (Code::FieldValue, change("$1.50", "some money")),
        (Code::FieldMisplaced, change("accept tabs.", "accept tabs.\n\n- **contract:** x")),
        (Code::TextUnread, change("**target:** writer", "Some thoughts.\n\n**target:** writer")),
        (Code::FieldForm, change("**target:** writer", "**target: writer**")),
        (Code::SubscriptionForm, change("- topic:tabs", "- tabs.md")),
        (Code::NoTask, change("**task:** Add a line about tabs to `CHANGES.md`.\n", "")),
        (Code::NoTarget, change("**target:** writer\n", "")),
        (Code::NoContract, change("**contract:**\n```shell\ncargo test\n```\n", "")),
        (Code::ContractForm, change("```shell\ncargo test\n", "```python\ncargo test\n")),
        (Code::ContractForm, change("\n```shell\ncargo test\n```\n", " `cargo test`\n")),
        (Code::ContractEmpty, check("# later")),
        (Code::Expectation, change("exit_code == 0", "exit_code = 0")),
        (Code::RegexInvalid, change("exit_code == 0", "stdout matches /(/")),
        (Code::PostconditionCheck, change("   ```shell\n   cargo test --workspace\n   ```\n", "")),
        (Code::WeakKind, change("\n```shell\ncargo test\n```\n", " human\n")),
        (Code::ModelDecides, change("\n```shell\ncargo test\n```\n", " judge Is it nice?\n")),
        (Code::JudgeUnfit, change("\n```shell\ncargo test\n```\n", " judge\n")),
        (
            Code::NotCarriedOut,
            change("**needs:** 1, 2", "**needs:** 1, 2\n**precondition:** judge Is it nice?"),
        ),
        (Code::TextUnread, change("**needs:** 1, 2", "**needs:** 1, 2\n**plan:** other")),
        (Code::TextUnread, change("**target:** writer", "**agent:** writer\n**target:** writer")),
        (Code::TimeoutZero, change("**needs:** 1, 2", "**needs:** 1, 2\n**timeout:** 0 minutes")),
        (Code::WritesTests, check("! cargo test")),
        (Code::MaskedExit, check("cargo test || true")),
        (Code::MaskedExit, check("cargo test; exit 0")),
        (Code::MaskedExit, check("set +e\ncargo test")),
        (Code::ConstantExit, check("echo fine")),
        (Code::PipeHides, check("cargo test | tee log.txt")),
        (Code::Background, check("cargo test &")),
        (Code::LastDecides, check("cargo test\ncargo fmt --check")),
        (Code::LastDecides, check("set -e\n! grep -rn old src\ncargo test")),
        (Code::LastDecides, check("set -e\ncargo fmt --check && cargo clippy\ncargo test")),
        (Code::Placeholder, check("cargo test -p <your-crate>")),
        (Code::RecipeUnknown, check("provost-check htp --port 8000 -- cargo run")),
        (Code::RecipeUnknown, check("provost-check")),
        (Code::WeakContract, check("test -f src/parser.rs")),
        (Code::WeakContract, check("grep -q tabs CHANGES.md")),
        (Code::WeakContract, check("test a.txt -nt b.txt")),
        (Code::NeedsUnknown, change("**needs:** 1, 2", "**needs:** 9")),
        (Code::NeedsUnknown, change("**needs:** 1, 2", "**needs:** 3")),
        (
            Code::NeedsLater,
            change("### 1. Write a failing test", "### 1. Write a failing test (depends on Task 2)")
                .replace("**task:** Let", "**needs:** none\n**task:** Let"),
        ),
        (
            Code::StepCycle,
            change("### 1. Write a failing test", "### 1. Write a failing test (depends on Task 3)"),
        ),
        (Code::TouchesOpen, change("src/**", "**")),
        (Code::GlobInvalid, change("src/**", "src/[")),
        (Code::GlobInvalid, change("**needs:** 1, 2", "**protect:** /etc/**")),
        (Code::TouchesOutside, change("**needs:** 1, 2", "**needs:** 1, 2\n**touches:** docs/**")),
        (Code::NoBudget, change("**Budget:** max 200k tokens, $1.50, 20 minutes\n", "")),
        (Code::BudgetZero, change("200k tokens", "0 tokens")),
        (Code::BudgetTight, change("200k tokens", "200 tokens")),
        (Code::BudgetZero, change("**needs:** 1, 2", "**budget:** $0")),
        (Code::FieldValue, change("**needs:** 1, 2", "**budget:** not much")),
        (Code::BudgetAbove, change("**needs:** 1, 2", "**budget:** max 300k tokens")),
        (Code::StepCount, GOOD.split("### 2.").next().unwrap().into()),
        (Code::VagueTask, change("Let the parser in `src/parser.rs` accept tabs.", "Improve the code")),
        (Code::NoOnFail, change("**on_fail:** escalate\n", "")),
    ]
}

type Worsen = Box<dyn Fn(&mut Facts)>;

/// Returns the codes that depend on the environment.
fn worldly() -> Vec<(Code, Worsen, String)> {
    let depends = GOOD.replace("owner: me", "depends_on: [other]");
    let plain = || GOOD.to_string();
    let later = GOOD
        .replace("- topic:tabs", "- file:docs/notes.md")
        .replace("about tabs to `CHANGES.md`", "about tabs. Write notes to `docs/notes.md`");
    vec![
        (
            Code::ShellSyntax,
            Box::new(|f| drop(f.broken_scripts.insert("cargo test".into(), "no".into()))),
            plain(),
        ),
        (Code::ToolMissing, Box::new(|f| assert!(f.missing_tools.insert("cargo".into()))), plain()),
        (Code::NoBash, Box::new(|f| f.no_bash = true), plain()),
        (Code::FileMissing, Box::new(|f| f.files.clear()), plain()),
        (
            Code::HiddenInSight,
            Box::new(|f| f.in_sight = Some("it is read in place".into())),
            GOOD.replace("**needs:** 1, 2", "**needs:** 1, 2\n**hidden:** yes"),
        ),
        (
            Code::WritesTests,
            Box::new(|f| f.files.clear()),
            GOOD.replace("\ncargo test\n", "\npytest tests/test_tabs.py\n"),
        ),
        (Code::FileLater, Box::new(|f| assert!(f.files.remove("docs/notes.md"))), later),
        (Code::TopicMissing, Box::new(|f| f.topics.clear()), plain()),
        (Code::PlanUnknown, Box::new(|f| f.plans.clear()), depends.clone()),
        (Code::PlanCycle, Box::new(|f| drop(f.plans.insert("other".into(), vec!["this".into()]))), depends),
        (Code::TargetUnknown, Box::new(|f| assert!(f.targets.remove("writer"))), plain()),
        (
            Code::PathUnseen,
            Box::new(|f| assert!(f.unseen.insert("/opt/old".into()))),
            GOOD.replace("\ncargo test\n", "\ntest ! -e /opt/old\n"),
        ),
        (
            Code::SecretUnfit,
            Box::new(|f| f.secrets.clear()),
            GOOD.replace("**needs:** 1, 2", "**needs:** 1, 2\n**network:** on\n**secrets:** GH_TOKEN"),
        ),
        (
            Code::AgentNotStartable,
            Box::new(|f| drop(f.not_startable.insert("writer".into(), "it is not there".into()))),
            plain(),
        ),
        (Code::NoTargets, Box::new(|f| f.targets.clear()), plain()),
        (Code::TouchesIgnored, Box::new(|f| assert!(f.ignored_globs.insert("src/**".into()))), plain()),
        (Code::TouchesOpen, Box::new(|f| f.git = true), GOOD.replace("touches: [\"src/**\"]\n", "")),
    ]
}

/// Returns the codes that only a run of a contract can cause.
fn ran() -> Vec<(Code, ContractTraits)> {
    let seen = || Some(Evidence::seen("it did"));
    vec![
        (Code::ReachesNetwork, ContractTraits { network: seen(), ..Default::default() }),
        (Code::ReadsClock, ContractTraits { clock: seen(), ..Default::default() }),
        (Code::UsesChance, ContractTraits { chance: seen(), ..Default::default() }),
        (Code::WritesTree, ContractTraits { writes: seen(), ..Default::default() }),
        (Code::UsesGit, ContractTraits { git: seen(), ..Default::default() }),
        (
            Code::CannotRun,
            ContractTraits { cannot_run: Some("cargo is missing".into()), ..Default::default() },
        ),
    ]
}

#[test]
fn every_code_is_said_about_some_plan() {
    let mut said: BTreeSet<Code> = BTreeSet::new();
    let mut failures = Vec::new();
    for (code, text) in provocations() {
        let found = diagnose(&text, permissive);
        if !found.iter().any(|d| d.code == code) {
            failures.push(format!("{code} {}: {found:#?}", code.title()));
        }
        said.insert(code);
    }
    for (code, worsen, text) in worldly() {
        let facts = |plan: &Plan| {
            let mut facts = permissive(plan);
            worsen(&mut facts);
            facts
        };
        let found = diagnose(&text, facts);
        if !found.iter().any(|d| d.code == code) {
            failures.push(format!("{code} {}: {found:#?}", code.title()));
        }
        said.insert(code);
    }
    for (code, traits) in ran() {
        let plan = provost_core::language::parse::plan(GOOD).plan;
        let traits = BTreeMap::from([("cargo test".to_owned(), traits)]);
        let found = verify::contracts_that_ran(&plan, &traits);
        if found.iter().map(|d| d.code).ne([code]) {
            failures.push(format!("{code} {}: {found:#?}", code.title()));
        }
        said.insert(code);
    }
    let (_, binary) = provost_core::language::parse::bytes(b"\x7fELF\xff\xfe");
    said.extend(binary.map(|d| d.code));
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    let silent: Vec<_> = Code::ALL.iter().filter(|code| !said.contains(code)).collect();
    assert!(silent.is_empty(), "never provoked: {silent:?}");
}

#[test]
fn one_mistake_gives_one_error() {
    for (code, text) in provocations() {
        let errors: Vec<_> =
            diagnose(&text, permissive).into_iter().filter(|d| d.severity == Severity::Error).collect();
        let expected = usize::from(code.severity() == Severity::Error);
        // A misspelt, missing or misplaced part causes at most one further error.
        assert!(errors.len() <= expected + 1, "{code}: {errors:#?}");
    }
}

#[test]
fn fixes_remove_their_cause() {
    for (code, text) in provocations() {
        let Some(diagnostic) = diagnose(&text, permissive).into_iter().find(|d| d.code == code) else {
            continue;
        };
        let Some(fix) = diagnostic.fix else { continue };
        let mut fixed = text.clone();
        fixed.replace_range(fix.span.start..fix.span.end, &fix.replacement);
        let again = diagnose(&fixed, permissive);
        let count = |list: &[provost_core::language::diagnostic::Diagnostic]| {
            list.iter().filter(|d| d.code == code).count()
        };
        assert!(count(&again) < count(&diagnose(&text, permissive)), "{code}: {fixed}\n{again:#?}");
    }
}

#[test]
fn a_mistake_made_ten_thousand_times_is_listed_a_hundred_times() {
    let text = format!("{GOOD}{}", "\u{200b}".repeat(10_000));
    let said = provost_core::language::parse::plan(&text).diagnostics;
    assert_eq!(said.len(), 100);
    assert!(said.iter().any(|d| d.message.ends_with("(and 9900 more of this kind)")), "{:?}", said.last());
}
