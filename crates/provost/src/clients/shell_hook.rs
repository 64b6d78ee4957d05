//! Puts a call of provost before the first command of a shell script, and finds it there.
//!
//! **Invariant:** no command that could end the script runs before the call.

use super::jsonc::Splice;
use super::lines::as_in;
use super::{Trouble, quoted};

/// A new script.
const SHELL: &str = "#!/bin/sh\n";
const SHELLS: [&str; 6] = ["sh", "bash", "dash", "ash", "ksh", "zsh"];

/// Returns the insertion of `lines` after the first line, unless they are there. The last of them is the
/// call, and `ours` identifies a call of any provost.
pub(crate) fn call(text: &str, lines: &str, ours: &str) -> Result<Option<Splice>, Trouble> {
    if text.trim().is_empty() {
        return Ok(Some(Splice { at: 0, text: format!("{SHELL}{lines}") }));
    }
    let wanted = lines.lines().last().unwrap_or_default().trim();
    if let Some(shell) = interpreter(text).filter(|shell| !SHELLS.contains(shell)) {
        return Err(Trouble::new(format!("it is a script for {shell}; let it run this first: {wanted}")));
    }
    match text.lines().find(|line| is_call(line, ours)) {
        Some(line) if line.trim() != wanted => return Err(Trouble::new("it has a call of another provost")),
        Some(_) if is_first(text, ours) => return Ok(None),
        Some(_) => {
            return Err(Trouble::new(
                "commands run before provost's line, and one that exits leaves the push unchecked",
            ));
        }
        None => {}
    }
    let has_shebang = text.starts_with("#!");
    let first = text.split_inclusive('\n').next().unwrap_or_default();
    let gap = if has_shebang && !first.ends_with('\n') { "\n" } else { "" };
    let at = if has_shebang { first.len() } else { 0 };
    Ok(Some(Splice { at, text: as_in(text, &format!("{gap}{lines}")) }))
}

/// Returns the program that the script calls for `ours`.
pub(crate) fn program(text: &str, ours: &str) -> Option<String> {
    let line = text.lines().find(|line| is_call(line, ours))?;
    let (word, _) = line.trim().split_once(ours)?;
    let word = word.strip_prefix("exec ").unwrap_or(word);
    let bare = word.strip_prefix('\'').and_then(|word| word.strip_suffix('\''));
    let bare = bare.map_or_else(|| word.to_owned(), |bare| bare.replace("'\\''", "'"));
    (quoted(&bare) == word).then_some(bare)
}

/// Returns whether nothing of a script that `init` made is left.
pub(crate) fn is_empty(text: &str) -> bool {
    text.trim().is_empty() || text.trim() == SHELL.trim()
}

fn is_call(line: &str, ours: &str) -> bool {
    !line.trim_start().starts_with('#') && line.contains(ours)
}

/// Returns the program that runs the script; `None` if the system chooses, which is a shell.
fn interpreter(text: &str) -> Option<&str> {
    let mut words = text.lines().next()?.strip_prefix("#!")?.split_whitespace();
    let first = words.next()?.rsplit('/').next()?;
    let is_option = |word: &&str| word.starts_with('-') || word.contains('=');
    match first {
        "env" => words.find(|word| !is_option(word)).and_then(|word| word.rsplit('/').next()),
        first => Some(first),
    }
}

/// Returns whether only comments and settings come before the call.
fn is_first(text: &str, ours: &str) -> bool {
    let is_harmless = |line: &str| {
        let line = line.trim();
        let plain = !line.contains([';', '&', '|', '`', '(']);
        line.is_empty() || line.starts_with('#') || plain && is_setting(line)
    };
    text.lines().take_while(|line| !is_call(line, ours)).all(is_harmless)
}

fn is_setting(line: &str) -> bool {
    let is_name =
        |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let line = line.strip_prefix("export ").unwrap_or(line);
    let is_assignment =
        line.split_once('=').is_some_and(|(name, value)| is_name(name) && !value.contains(' '));
    // `set -e` ends a script only when a command fails, and none came yet.
    is_assignment || line.starts_with("set -") || line.starts_with("set +")
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    const LINES: &str = "# provost: no push\n/p hook git-pre-push \"$@\" </dev/null || exit $?\n";
    const OURS: &str = " hook git-pre-push";

    fn check(text: &str) -> String {
        match call(text, LINES, OURS) {
            Ok(Some(splice)) => {
                let after = splice.apply(text);
                assert_eq!(call(&after, LINES, OURS), Ok(None), "{after}");
                assert_eq!(program(&after, OURS).as_deref(), Some("/p"));
                assert_eq!(splice.undo(&after).as_deref(), Some(text));
                format!("{after:?}\n")
            }
            Ok(None) => "nothing to do\n".to_owned(),
            Err(trouble) => format!("{trouble}\n"),
        }
    }

    #[test]
    fn the_call_comes_first_whatever_the_hook_does() {
        let hooks = [
            "",
            "#!/bin/sh\nexit 0\n",
            "#!/usr/bin/env bash\r\nset -e\r\nmake\r\n",
            "make test\n",
            "#!/bin/sh",
            "#!/usr/bin/env -S python3 -u\nimport sys\n",
            &format!("#!/bin/sh\nset -eu\nexport A=b\n{LINES}exit 0\n"),
            &format!("#!/bin/sh\nmake || exit 0\n{LINES}"),
            "#!/bin/sh\nexec /old/provost hook git-pre-push \"$@\"\n",
        ];
        expect![[r##"
            "#!/bin/sh\n# provost: no push\n/p hook git-pre-push \"$@\" </dev/null || exit $?\n"
            "#!/bin/sh\n# provost: no push\n/p hook git-pre-push \"$@\" </dev/null || exit $?\nexit 0\n"
            "#!/usr/bin/env bash\r\n# provost: no push\r\n/p hook git-pre-push \"$@\" </dev/null || exit $?\r\nset -e\r\nmake\r\n"
            "# provost: no push\n/p hook git-pre-push \"$@\" </dev/null || exit $?\nmake test\n"
            "#!/bin/sh\n# provost: no push\n/p hook git-pre-push \"$@\" </dev/null || exit $?\n"
            it is a script for python3; let it run this first: /p hook git-pre-push "$@" </dev/null || exit $?
            nothing to do
            commands run before provost's line, and one that exits leaves the push unchecked
            it has a call of another provost
        "##]]
        .assert_eq(&hooks.map(check).concat());
        assert_eq!(program("'/a b/it'\\''s' hook git-pre-push", OURS).as_deref(), Some("/a b/it's"));
    }
}
