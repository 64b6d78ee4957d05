//! Tests that marks do not change the spec, and that everything else does.

use expect_test::expect;
use proptest::prelude::*;

use super::*;
use crate::language::parse;
use crate::model::plan::AgentNetwork;
use crate::model::run_policy::AgentAccess;
use crate::model::verdict::Isolation;

const PLAN: &str = "---\r\ntype: plan\r\nstatus: \"draft\"   # ours\r\nowner: me\r\n---\r\n\
# Ünïcode\r\n\r\n## Steps\r\n\r\n### 1. First `thing`\r\n**target:** coder\r\n**task:**\r\nDo it.\r\n\
**contract:**\r\n```shell\r\ntest -f one\r\n```\r\n\r\n### 2. ⏳ Second\r\n**target:** coder\r\n\
**task:**\r\nDo it.\r\n**contract:**\r\n```shell\r\ntest -f two\r\n```\r\n";

fn law_of(text: &str) -> Hash {
    digest(text, &parse::plan(text).plan)
}

#[test]
fn a_mark_changes_its_own_bytes_and_no_law() {
    let plan = parse::plan(PLAN).plan;
    let marked = mark(PLAN, &plan, "in-progress", |step| {
        (step.0 == 1).then_some(Mark::Passed(crate::model::pass::Pass::Verified))
    });
    expect![[r#"
        ---
        type: plan
        status: "in-progress"   # ours
        owner: me
        ---
        # Ünïcode

        ## Steps

        ### 1. ✅ First `thing`
        **target:** coder
        **task:**
        Do it.
        **contract:**
        ```shell
        test -f one
        ```

        ### 2. Second
        **target:** coder
        **task:**
        Do it.
        **contract:**
        ```shell
        test -f two
        ```
    "#]]
    .assert_eq(&marked.replace('\r', ""));
    assert_eq!(law_of(PLAN), law_of(&marked));
    let back =
        mark(&marked, &parse::plan(&marked).plan, "draft", |step| (step.0 == 2).then_some(Mark::Running));
    assert_eq!(back, PLAN);
}

#[test]
fn every_other_byte_is_law() {
    let law = law_of(PLAN);
    for (from, to) in
        [("one", "two"), ("# ours", "# Ours"), ("\r\n\r\n## Steps", "\r\n## Steps"), ("me", "you")]
    {
        let changed = PLAN.replacen(from, to, 1);
        assert_ne!(changed, PLAN);
        assert_ne!(law_of(&changed), law, "{from} -> {to}");
    }
}

#[test]
fn the_base_the_named_files_and_the_terms_are_part_of_what_is_approved() {
    let law = law_of(PLAN);
    let file = |path: &str, sha256: &str| NamedFile { path: path.to_owned(), sha256: sha256.to_owned() };
    let with = |files: Vec<NamedFile>| revision(law, &Binding { files, ..Binding::default() });
    let under = |terms: RunPolicy| revision(law, &Binding { terms, ..Binding::default() });
    let open = AgentAccess { network: AgentNetwork::On, ..AgentAccess::default() };
    let role =
        |name: &str, reach| RunPolicy { roles: [(name.to_owned(), reach)].into(), ..RunPolicy::default() };
    let all = [
        with(vec![]),
        revision(law, &Binding { base: Some("abc".to_owned()), ..Binding::default() }),
        with(vec![file("a", "1")]),
        with(vec![file("a", "2")]),
        with(vec![file("b", "1")]),
        with(vec![file("a", "1"), file("b", "1")]),
        // A file name that imitates a second line.
        with(vec![file("a\nfile 1 1 b", "1")]),
        under(RunPolicy { isolation: Some(Isolation::InPlace), ..RunPolicy::default() }),
        under(RunPolicy { require_red: true, ..RunPolicy::default() }),
        under(role("coder", AgentAccess::default())),
        under(role("coder", open)),
    ];
    let distinct: std::collections::BTreeSet<_> = all.iter().collect();
    assert_eq!(distinct.len(), all.len());
}

#[test]
fn a_difference_is_told_in_the_words_of_the_plan() {
    let changed = PLAN.replace("test -f two", "true").replace("owner: me", "owner: you").replace(
        "Do it.\r\n**contract:**\r\n```shell\r\ntest -f one",
        "Do less.\r\n**contract:**\r\n```shell\r\ntest -f one",
    );
    let added = format!("{changed}\r\n### 3. Third\r\n**target:** coder\r\n");
    let old = parse::plan(PLAN).plan;
    let new = parse::plan(&added).plan;
    let at = |base: &str| Binding { base: Some(base.to_owned()), ..Binding::default() };
    let changes = diff(
        Law { text: PLAN, plan: &old, binding: Some(&at("aaaa")) },
        Law { text: &added, plan: &new, binding: Some(&at("bbbb")) },
    );
    expect![[r#"
        owner: `me` -> `you`
        step 1 task: `Do it.` -> `Do less.`
        step 2 contract: `test -f two` -> `true`
        step 3 added: Third
        the base commit moved: aaaa -> bbbb
    "#]]
    .assert_eq(&format!("{}\n", changes.join("\n")));
}

proptest! {
    #[test]
    fn parse_mark_unmark_gives_the_same_bytes(
        prose in "[ -~\n]{0,60}", title in "[^\r\n]{0,30}", status in "(draft|done|\"failed\"|'approved')", which in 0usize..5,
        put in "[ -~\n✅❌]{0,2}", at in 0usize..200
    ) {
        let text = format!(
            "---\ntype: plan\nstatus: {status} # x\n---\n# T\n{prose}\n\n## Steps\n\n### 1. {title}\n**target:** a\n\n### 2. b\n{prose}\n"
        );
        let plan = parse::plan(&text).plan;
        let before: Vec<_> = plan.steps.iter().map(|step| step.mark.mark).collect();
        let word = plan.status.as_ref().map(|status| status.value.clone()).unwrap_or_default();
        let marked = mark(&text, &plan, "in-progress", |_| Some(Mark::ALL[which]));
        let replan = parse::plan(&marked).plan;
        prop_assert_eq!(digest(&text, &plan), digest(&marked, &replan));
        let statuses = ["in-progress", "done"];
        prop_assert!(is_marked(&text, &plan, &marked, &statuses));
        // Whatever is changed besides: texts that are taken for the same without parsing have the same spec.
        let mut other = marked.clone();
        let at = (0..=at.min(other.len())).rev().find(|at| other.is_char_boundary(*at)).unwrap_or(0);
        other.insert_str(at, &put);
        if is_marked(&text, &plan, &other, &statuses) {
            prop_assert_eq!(digest(&text, &plan), digest(&other, &parse::plan(&other).plan), "{}", other);
        }
        // A mark in another form is replaced by provost's; without such a mark, undoing is exact.
        if before.iter().all(Option::is_none) {
            let back = mark(&marked, &replan, &word, |_| None);
            prop_assert_eq!(back, text);
        }
    }
}

#[test]
fn a_step_put_in_between_moves_the_others_and_changes_none() {
    let step = |number: u32, title: &str, needs: &str| {
        format!("\n### {number}. {title}\n**target:** a\n{needs}**task:**\n{title}.\n")
    };
    let text = |steps: &[String]| format!("# T\n\n## Steps\n{}", steps.concat());
    let old = text(&[step(1, "One", ""), step(2, "Two", ""), step(3, "Three", "**needs:** 2\n")]);
    let new = text(&[
        step(1, "One", ""),
        step(2, "Between", ""),
        step(3, "Two", ""),
        step(4, "Three", "**needs:** 3\n"),
    ]);
    let (before, after) = (parse::plan(&old).plan, parse::plan(&new).plan);
    let law = |text, plan| Law { text, plan, binding: None };
    assert_eq!(
        diff(law(&old, &before), law(&new, &after)),
        ["step 2 added: Between", "step 2 is step 3 now: Two", "step 3 is step 4 now: Three"]
    );
    assert_eq!(
        diff(law(&new, &after), law(&old, &before)),
        ["step 3 is step 2 now: Two", "step 4 is step 3 now: Three", "step 2 removed: Between"]
    );
}
