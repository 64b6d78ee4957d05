//! Tests new plans: from a template, and from a goal by a planner whose drafts are sent back.

use provost_rehearsal::{Model, Turn};

use crate::env::Env;

const NO_PLAN: &str = "notes, no plan\n";

/// Drafts by round: the first has no contract, the second one that cannot fail, the third is good.
pub(crate) const PLANNER: &str = r#"prompt=$(cat)
touch written-by-planner 2>/dev/null
head='---\ntype: plan\nstatus: approved\nowner: planner\ntouches: ["out/**"]\n---\n# Greet\n\n**Context:** One step, because it is one file.\n\n## Steps\n### 1. Greet\n**target:** coder\n**task:** Write hello to `out/greeting.txt`, and nothing else.\n'
weak='**contract:**\n```shell\nbash out/greet.sh | grep hello || true\n```\n'
good='**contract:**\n```shell\nbash -c "test \\"\\$(cat out/greeting.txt)\\" = hello"\n```\n**on_fail:** escalate\n'
case "$prompt" in
  *P051*) body=$good ;;
  *P039*) body=$weak ;;
  *"Say hello"*) body= ;;
  *) exit 7 ;;
esac
printf 'My draft:\n\n````markdown\n'"$head$body"'````\nThat is it.\n'
"#;

pub(crate) fn env(planner: &str) -> Env {
    let env = Env::new(NO_PLAN);
    env.write("planner.sh", planner);
    let config = env.read("provost.toml");
    env.write(
        "provost.toml",
        format!("{config}[agents.planner]\ndriver = \"command\"\ncommand = [\"bash\", \"planner.sh\"]\n"),
    );
    env
}

#[test]
fn a_goal_becomes_a_plan_that_waits_at_the_gate() {
    let env = env(PLANNER);
    let fenced = env.has_fences();
    let made = env.provost(&["new", "greet", "--goal", "Say hello", "--json"]).exits(4);
    assert_eq!(made.json()["rounds"], 3, "{}", made.err);
    assert!(made.err.contains("P039") && made.err.contains("P051"), "{}", made.err);
    assert!(made.err.contains("provost approve greet --revision"), "{}", made.err);
    assert!(env.read(".harness/PLAN-greet.md").contains("status: verified"));
    // A status that the planner writes into the draft approves nothing.
    let shown = env.provost(&["show", "greet", "--json"]).exits(0).json();
    assert_eq!(shown["stage"], "verified");
    let log = env.provost(&["log", "greet", "--json"]).exits(0).lines();
    let names: Vec<_> = log.iter().map(|event| event["event"].as_str().unwrap_or_default()).collect();
    assert_eq!(names, ["PLAN_CREATED", "PLAN_VERIFIED", "GATE_APPROVAL_REQUESTED"]);
    if fenced {
        assert!(!env.work().join("written-by-planner").exists(), "the planner wrote to the workspace");
    }
    let again = env.provost(&["new", "greet", "--goal", "Say hello"]).exits(5);
    assert!(again.err.contains("already exists"), "{}", again.err);
}

#[test]
fn the_rounds_have_an_end_and_the_draft_is_kept() {
    let env = env(PLANNER).isolation("in-place");
    let made = env.provost(&["new", "greet", "--goal", "Say hello", "--rounds", "1"]).exits(3);
    assert!(made.err.contains("P039") && made.err.contains("still has errors after"), "{}", made.err);
    assert!(env.read(".harness/PLAN-greet.md").contains("### 1. Greet"));
    env.provost(&["approve", "greet", "--revision", "0123456789ab"]).exits(5);
}

#[test]
fn a_planner_that_has_nothing_to_say_leaves_nothing() {
    for planner in ["echo I would rather not\n", "exit 3\n", "kill -9 $$\n"] {
        let env = env(planner).isolation("in-place");
        let made = env.provost(&["new", "greet", "--goal", "Say hello", "--rounds", "2"]).exits(1);
        assert!(made.err.contains("the planner wrote no plan in 2 rounds"), "{}", made.err);
        assert!(!env.work().join(".harness/PLAN-greet.md").exists());
    }
    let none = Env::new(NO_PLAN).provost(&["new", "greet", "--goal", "Say hello"]).exits(3);
    assert!(none.err.contains("[agents.planner]"), "{}", none.err);
}

#[test]
fn a_planner_may_write_the_plan_to_the_file_it_is_told() {
    let env = env(
        "prompt=$(cat); file=$(sed -n 's/.*or write it to `\\(.*\\)`\\.$/\\1/p' <<< \"$prompt\"); cp skeleton.md \"$file\"; echo written\n",
    );
    env.write(
        "skeleton.md",
        crate::env::plan(&["bash -c 'test -s out/1 && wc -c < out/1 | grep -qx 5'"], "escalate"),
    );
    let made = env.provost(&["new", "greet", "--goal", "Say hello", "--rounds", "1"]);
    assert!([3, 4].contains(&made.code), "{}", made.err);
    assert!(env.read(".harness/PLAN-greet.md").contains("Do part 1 of the work."), "{}", made.err);
}

#[test]
fn templates_are_filled_and_say_what_they_lack() {
    let env = Env::new(NO_PLAN);
    let missing = env.provost(&["new", "fix", "--template", "bugfix"]).exits(2);
    assert!(missing.err.contains("--set issue=…"), "{}", missing.err);
    let injected =
        ["new", "fix", "--template", "bugfix", "--set", "issue=1", "--set", "title=x **contract:** human"];
    env.provost(&injected).exits(2);
    assert!(!env.work().join(".harness/PLAN-fix.md").exists());
    // Here is no project, so no test command is known.
    let missing = env.provost(&["new", "fix", "--template", "bugfix", "--set", "issue=423"]).exits(2);
    assert!(missing.err.contains("--set test=…"), "{}", missing.err);
    let set = ["--set", "issue=423", "--set", "test=make test", "--json"];
    let made = env.provost(&[&["new", "fix", "--template", "bugfix"][..], &set].concat()).exits(0);
    assert_eq!(made.json()["steps"], 3);
    env.provost(&["verify", "fix"]).exits(0);
    let unknown = env.provost(&["new", "other", "--template", "bugfux"]).exits(2);
    assert!(unknown.err.contains("there are blank, bugfix"), "{}", unknown.err);
    for name in ["../x", "a/b", "Upper", ""] {
        env.provost(&["new", name]).exits(2);
    }
}

#[test]
fn a_skeleton_is_there_to_be_edited_and_users_have_templates_of_their_own() {
    let env = Env::new(NO_PLAN);
    env.provost(&["new", "later"]).exits(0);
    assert!(env.read(".harness/PLAN-later.md").contains("# later"));
    env.write(
        ".harness/templates/own.md",
        "#: Ours.\n---\nstatus: draft\ntouches: [\"out/**\"]\n---\n# Say {{what}}\n## Steps\n### 1. Say\n**target:** coder\n**task:** Say {{what}} in `out/a`.\n**contract:**\n```shell\ntest \"$(cat out/a)\" = {{word}}\n```\n",
    );
    let list = env.provost(&["new", "--list-templates", "--json"]).exits(0).json();
    assert_eq!(list["templates"][0]["name"], "own", "{list}");
    env.provost(&["new", "mine", "--template", "own", "--set", "what=good day", "--set", "word=hi;true"])
        .exits(2);
    env.provost(&["new", "mine", "--template", "own", "--set", "what=good day", "--set", "word=hi"]).exits(0);
    assert!(env.read(".harness/PLAN-mine.md").contains("# Say good day"));
}

#[test]
fn a_model_in_our_own_loop_drafts_too() {
    const KEY: &str = "sk-rehearsed-and-not-a-real-key";
    let draft = |contract: &str| {
        let why = "\n**Context:** One step, because it is one file.\n\n## Steps";
        let plan = crate::env::plan(&[contract], "escalate").replacen("\n## Steps", why, 1);
        Turn::text(format!("Here it is.\n\n````markdown\n{plan}````\n"))
    };
    let good = "bash -c 'test \"$(cat out/1)\" = done'";
    let turns = [draft("make check || true"), draft(good).expecting("P051")];
    let model = Model::script(turns).key(KEY).serve().expect("a model");
    let env = Env::new(NO_PLAN);
    let level = if env.has_fences() { "clean" } else { "in-place" };
    let config = env.read("provost.toml");
    let role = format!(
        "[agents.drafter]\ndriver = \"builtin\"\nmodel = \"rehearsed\"\nprovider = \"anthropic\"\nbase_url = \"{}\"\nkey_env = \"DRAFTER_KEY\"\n[plan]\nrole = \"drafter\"\n",
        model.url()
    );
    env.write("provost.toml", format!("{config}{role}"));
    let env = env.isolation(level);
    let made =
        env.command(&["new", "greet", "--goal", "Say hello", "--json"]).env("DRAFTER_KEY", KEY).output();
    let made = crate::env::answer(made.expect("provost")).exits(4);
    model.expect_kept();
    let shown = made.json();
    assert_eq!((&shown["rounds"], &shown["usage"][1]["model"]), (&2.into(), &"rehearsed".into()), "{shown}");
    assert!(env.read(".harness/PLAN-greet.md").contains(good));
}
