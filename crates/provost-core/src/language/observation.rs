//! Watches a contract while it runs: whether it reaches for a network, calls git, and changes its files.
//!
//! The contract runs inside a small script, which prints what it saw. Such a run says nothing about the
//! result of the contract: its verdict comes from a run without the script.

use serde::Serialize;

use crate::language::shell_word::quoted;

const SCRIPT: &str = include_str!("observation/observe.sh");

/// The order in which the tests of an observed contract run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestOrder {
    Usual,
    /// Another order, for the runners of [`REORDERED`].
    Other,
}

/// Runners whose tests an observed run can put into another order.
pub const REORDERED: [&str; 3] = ["pytest", "unittest", "go test"];

/// What an observed run saw.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Observation {
    /// The exit code of the contract.
    pub exit_code: i32,
    /// Packets for which there was no way out of the sandbox.
    pub lost_packets: u64,
    pub git: bool,
    /// The first files of its tree that it changed, made or removed.
    pub changed: Vec<String>,
    /// Number of all of them.
    pub changes: u64,
}

/// Returns the command that runs a contract and prints what it did.
pub fn command(contract: &str, order: TestOrder) -> String {
    let order = match order {
        TestOrder::Usual => "usual",
        TestOrder::Other => "reversed",
    };
    format!("set -- {} {order}\n{SCRIPT}", quoted(contract))
}

/// Reads the output of the script; `None` if it did not come to its end.
pub fn read(output: &str) -> Option<Observation> {
    let mut seen = Observation::default();
    let mut is_whole = false;
    for line in output.lines() {
        match line.split_once(' ') {
            Some(("exit", code)) => seen.exit_code = code.parse().ok()?,
            Some(("network", packets)) => seen.lost_packets = packets.parse().ok()?,
            Some(("changed", path)) => seen.changed.push(path.to_owned()),
            Some(("changes", count)) => {
                seen.changes = count.trim().parse().ok()?;
                is_whole = true;
            }
            None if line == "git" => seen.git = true,
            _ => {}
        }
    }
    is_whole.then_some(seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_the_script_is_read() {
        let seen = read("exit 1\nnetwork 3\ngit\nchanged out/a b.txt\nchanges 2\n");
        let expected = Observation {
            exit_code: 1,
            lost_packets: 3,
            git: true,
            changed: vec!["out/a b.txt".to_owned()],
            changes: 2,
        };
        assert_eq!(seen, Some(expected));
        assert_eq!(read("exit 0\nchanges 0\n"), Some(Observation::default()));
        for cut in ["", "exit 0\n", "exit zero\nchanges 0\n"] {
            assert_eq!(read(cut), None, "{cut}");
        }
    }

    #[test]
    fn a_contract_is_one_word_of_the_command() {
        let text = command("echo 'a b'; exit 3", TestOrder::Other);
        assert!(text.starts_with("set -- 'echo '\\''a b'\\''; exit 3' reversed\n"), "{text}");
    }
}
