//! Decides which plans pass the gate without a person if an agent made them in a session of its client.
//!
//! No person has read such a plan, so it is covered only if it stays inside the workspace, and unless the
//! configuration lets agents write their own checks, only if a person trusted every check. An agent cannot make
//! its own work easier later: every check that was approved once must stay in the plan.
//!
//! **Invariant:** a rewrite that drops or changes a check, or widens `touches`, waits for a person.

use crate::model::approved_spec;
use crate::model::plan::{Check, Plan, Shell, StepNumber};

/// Programs that reach other machines or change the user.
const REACHING: [&str; 14] = [
    "sudo", "su", "doas", "ssh", "scp", "sftp", "rsync", "nc", "ncat", "telnet", "docker", "podman",
    "kubectl", "ftp",
];
const FETCHING: [&str; 2] = ["curl", "wget"];
const REMOTE_GIT: [&str; 4] = ["push", "fetch", "pull", "clone"];
/// Absolute paths that exist on every machine and are not private.
const SHARED: [&str; 6] = ["/usr/", "/bin/", "/dev/null", "/dev/stdin", "/dev/stdout", "/tmp/"];

/// Returns whether the plan is covered. `Err` says why it waits for a person. `before` is the last approved
/// plan, if any.
pub fn covers(before: Option<&Plan>, plan: &Plan) -> Result<(), String> {
    super::covers_reach(plan)?;
    for step in &plan.steps {
        if step.network.as_ref().is_some_and(|network| network.value) {
            return Err(format!("the check of step {} needs the network", step.number));
        }
    }
    if let Some(why) = plan.shells().find_map(|shell| outside(&shell.command)) {
        return Err(why);
    }
    before.map_or(Ok(()), |before| keeps(before, plan))
}

/// Returns whether a person trusted every check (`trusted` has their digests), and whether each can show the work:
/// it fails on the base, as far as `holds` knows, or the step is a guard. A person decides about steps without
/// a command anyway.
pub fn uses_trusted_checks(
    plan: &Plan,
    trusted: &[String],
    holds: impl Fn(StepNumber) -> bool,
) -> Result<(), String> {
    let is_own = |shell: &&Shell| !trusted.contains(&approved_spec::check_digest(shell).to_string());
    if let Some(own) = plan.shells().find(is_own) {
        let first = own.command.trim().lines().next().unwrap_or_default();
        return Err(format!("no person has trusted the check `{first}`"));
    }
    for step in &plan.steps {
        if matches!(step.contract.as_ref().map(|contract| &contract.check), Some(Check::Judge { .. })) {
            return Err(format!("a model would judge step {}", step.number));
        }
        if holds(step.number) && !step.is_guard() {
            return Err(format!("the check of step {} holds before the work", step.number));
        }
    }
    Ok(())
}

fn keeps(before: &Plan, plan: &Plan) -> Result<(), String> {
    let globs = |plan: &Plan| -> Option<Vec<String>> {
        plan.touches.as_ref().map(|globs| globs.iter().map(|glob| glob.value.clone()).collect())
    };
    if globs(before) != globs(plan) {
        return Err("it touches other files than the plan that was approved".to_owned());
    }
    let known: Vec<&str> = plan.shells().map(|shell| shell.command.as_str()).collect();
    match before.shells().find(|shell| !known.contains(&shell.command.as_str())) {
        Some(gone) => Err(format!("it drops or changes the check `{}`", gone.command.trim())),
        None => Ok(()),
    }
}

/// Returns the part of a check that plainly leads out of the workspace.
fn outside(command: &str) -> Option<String> {
    let breaks = |c: char| c.is_whitespace() || ";|&()<>=\"'`{}".contains(c);
    let words: Vec<&str> = command.split(breaks).filter(|word| !word.is_empty()).collect();
    let fetches = words.iter().any(|word| FETCHING.contains(word));
    let at_home = |word: &str| ["localhost", "127.0.0.1", "[::1]"].iter().any(|host| word.contains(host));
    for (place, word) in words.iter().enumerate() {
        let reaches = REACHING.contains(word)
            || *word == "git" && words.get(place + 1).is_some_and(|next| REMOTE_GIT.contains(next));
        if reaches {
            return Some(format!("a check uses `{word}`, which reaches outside the workspace"));
        }
        if fetches && word.contains("://") && !at_home(word) {
            return Some(format!("a check fetches `{word}`"));
        }
        let absolute =
            word.starts_with('/') && word.len() > 1 && !SHARED.iter().any(|shared| word.starts_with(shared));
        let upwards = *word == ".." || word.starts_with("../") || word.contains("/../");
        let home = word.starts_with('~') || word.starts_with("$HOME") || word.starts_with("${HOME");
        if absolute || upwards || home {
            return Some(format!("a check names `{word}`, which is outside the workspace"));
        }
    }
    let nowhere = fetches && !words.iter().any(|word| at_home(word));
    nowhere.then(|| "a check fetches something from another machine".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::parse;

    fn plan(touches: &str, check: &str, more: &str) -> Plan {
        let text = format!(
            "---\ntype: plan\nstatus: draft\ntouches: [{touches}]\n---\n\n# P\n\n## Steps\n\n### 1. One\n\n\
             **target:** session\n**task:** Do it.\n**contract:**\n```shell\n{check}\n```\n{more}\n"
        );
        parse::plan(&text).plan
    }

    #[test]
    fn checks_inside_the_workspace_are_covered() {
        for check in [
            "cargo test --quiet",
            "test -f out/a && grep -q x out/a > /dev/null 2>&1",
            "/usr/bin/env python3 -m pytest",
            "./serve & curl -sf http://localhost:8080/health",
            "node -e 'process.exit(a/b > 1 ? 0 : 1)'",
            "git diff --exit-code",
        ] {
            assert_eq!(covers(None, &plan("\"src/**\"", check, "")), Ok(()), "{check}");
        }
    }

    #[test]
    fn checks_that_reach_outside_wait_for_a_person() {
        for check in [
            "cat /etc/passwd",
            "grep -q x ~/.ssh/config",
            "ls ../other",
            "curl -sf https://example.org",
            "wget example.org",
            "sudo make check",
            "git push origin main",
            "cat \"$HOME/.netrc\"",
        ] {
            assert!(covers(None, &plan("\"src/**\"", check, "")).is_err(), "{check}");
        }
        assert!(covers(None, &plan("\"src/**\"", "make check", "**network:** on")).is_err());
    }

    #[test]
    fn only_trusted_checks_that_can_show_the_work_need_no_person() {
        let own = plan("\"src/**\"", "make check", "");
        let digests: Vec<String> =
            own.shells().map(|shell| approved_spec::check_digest(shell).to_string()).collect();
        let asked = |plan: &Plan, trusted: &[String], holds: bool| {
            uses_trusted_checks(plan, trusted, |_| holds).err().unwrap_or_default()
        };
        assert_eq!(asked(&own, &digests, false), "");
        assert_eq!(asked(&own, &[], false), "no person has trusted the check `make check`");
        assert_eq!(asked(&own, &digests, true), "the check of step 1 holds before the work");
        assert_eq!(asked(&plan("\"src/**\"", "make check", "**guard:** yes"), &digests, true), "");
        assert_eq!(
            asked(&plan("\"src/**\"", "make check || true", ""), &digests, false),
            "no person has trusted the check `make check || true`"
        );
    }

    #[test]
    fn a_rewrite_keeps_every_check_and_where_it_writes() {
        let before = plan("\"src/**\"", "make check", "");
        assert_eq!(covers(Some(&before), &plan("\"src/**\"", "make check", "**timeout:** 5m")), Ok(()));
        assert!(covers(Some(&before), &plan("\"src/**\"", "true", "")).is_err());
        assert!(covers(Some(&before), &plan("\"**\"", "make check", "")).is_err());
    }
}
