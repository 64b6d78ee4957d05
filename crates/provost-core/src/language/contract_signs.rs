//! Reads signs of weakness from the text of a contract and from the code of the files that it names: the
//! clock, random numbers, the network, git, and tests that must not run at the same time.
//!
//! **Invariant:** a sign comes from code, never from a string or a comment. A sign is no proof: the reader is
//! told what was found and where.

use crate::language::shell::{self, ShellScript, is_assignment};
use crate::language::source_code::SourceLanguage;
use crate::language::source_code::scan::{self, CodeTokenKind};
use crate::language::test_files;
use crate::model::contract_traits::{ContractTraits, Evidence};

/// Calls that read the clock, without spaces.
const CLOCK: [&str; 15] = [
    "time.time(",
    "datetime.now(",
    "datetime.utcnow(",
    "datetime.today(",
    "date.today(",
    "perf_counter(",
    "time.monotonic(",
    "Date.now(",
    "newDate()",
    "performance.now(",
    "SystemTime::now(",
    "Instant::now(",
    "Utc::now(",
    "time.Now(",
    "time.Since(",
];

/// Calls that give random values, without spaces.
const CHANCE: [&str; 17] = [
    "random.random(",
    "random.randint(",
    "random.randrange(",
    "random.choice(",
    "random.choices(",
    "random.sample(",
    "random.shuffle(",
    "random.uniform(",
    "uuid.uuid4(",
    "secrets.token_",
    "Math.random(",
    "randomUUID(",
    "randomBytes(",
    "thread_rng(",
    "rand::random",
    "rand.Int",
    "rand.Shuffle(",
];

/// Variables of bash.
const CLOCK_VARIABLES: [&str; 3] = ["SECONDS", "EPOCHSECONDS", "EPOCHREALTIME"];

/// Programs that talk to other machines, whatever their arguments are.
const REMOTE: [&str; 8] = ["ssh", "scp", "sftp", "ping", "dig", "nslookup", "telnet", "ftp"];

/// Programs that talk to another machine with one of these words.
const FETCHING: [(&str, &[&str]); 12] = [
    ("git", &["clone", "fetch", "pull", "push", "ls-remote"]),
    ("npm", &["install", "ci", "update", "publish", "audit"]),
    ("pnpm", &["install", "add"]),
    ("yarn", &["install", "add"]),
    ("pip", &["install", "download"]),
    ("pip3", &["install", "download"]),
    ("go", &["get", "install"]),
    ("cargo", &["install", "publish"]),
    ("docker", &["pull", "push"]),
    ("apt-get", &["install", "update"]),
    ("apt", &["install", "update"]),
    ("gem", &["install"]),
];

/// Words that make tests run one after the other.
const IN_ONE_ROW: [&str; 5] = [
    "--test-threads=1",
    "--runInBand",
    "--no-file-parallelism",
    "--test-concurrency=1",
    "RUST_TEST_THREADS=1",
];

/// Returns the traits that the text of a contract shows, and the code of files that it names: their paths
/// and their texts.
pub fn of_contract(command: &str, files: &[(String, String)]) -> ContractTraits {
    let script = shell::read(command);
    let mut traits = ContractTraits { only_looks: test_files::only_looks(command), ..Default::default() };
    of_variables(command, &mut traits);
    for words in commands(command, &script) {
        of_words(&words, &mut traits);
    }
    for (path, text) in files {
        of_code(path, text, &mut traits);
    }
    traits
}

/// Returns the known words of each command, without assignments and wrappers such as `timeout`.
fn commands(text: &str, script: &ShellScript) -> Vec<Vec<String>> {
    let literal = |words: &[shell::Word]| {
        words.iter().map(|word| word.literal(text).unwrap_or_default().into_owned()).collect::<Vec<_>>()
    };
    let mut all = Vec::new();
    for command in &script.commands {
        let mut words = script.words_of(command);
        while let Some((first, rest)) = words.split_first() {
            if is_assignment(first.raw(text)) {
                all.push(vec![first.raw(text).to_owned()]);
                words = rest;
                continue;
            }
            all.push(literal(words));
            let name = first.literal(text).unwrap_or_default();
            match shell::wrapped(&name, text, rest) {
                shell::WrappedCommand::Command(inner) if !inner.is_empty() => words = inner,
                shell::WrappedCommand::Command(_) | shell::WrappedCommand::Nothing => break,
                shell::WrappedCommand::Script(inner) => {
                    let inner = inner.literal(text).unwrap_or_default().into_owned();
                    let nested = shell::read(&inner);
                    all.extend(nested.commands.iter().map(|command| {
                        let words = nested.words_of(command);
                        words
                            .iter()
                            .map(|word| word.literal(&inner).unwrap_or_default().into_owned())
                            .collect()
                    }));
                    break;
                }
            }
        }
    }
    all
}

fn of_variables(command: &str, traits: &mut ContractTraits) {
    let names =
        |name: &str| ["$", "${", "(("].iter().any(|before| command.contains(&format!("{before}{name}")));
    if let Some(name) = CLOCK_VARIABLES.iter().find(|name| names(name)) {
        note(&mut traits.clock, &format!("${name}"), None);
    }
    if names("RANDOM") {
        note(&mut traits.chance, "$RANDOM", None);
    }
    if let Some(device) = ["/dev/urandom", "/dev/random"].iter().find(|device| command.contains(*device)) {
        note(&mut traits.chance, device, None);
    }
}

fn of_words(words: &[String], traits: &mut ContractTraits) {
    let Some((name, rest)) = words.split_first() else { return };
    let has = |wanted: &[&str]| rest.iter().find(|word| wanted.contains(&word.as_str()));
    // A date that is given is not the current one.
    let is_given = |word: &String| word.starts_with("-d") || word.starts_with("--date") || word == "-r";
    match name.as_str() {
        "date" if !rest.iter().any(is_given) => note(&mut traits.clock, "date", None),
        "find" => {
            if let Some(age) = has(&["-mmin", "-mtime", "-newermt", "-cmin", "-amin"]) {
                note(&mut traits.clock, &format!("find {age}"), None);
            }
        }
        "shuf" | "uuidgen" => note(&mut traits.chance, name, None),
        "openssl" if has(&["rand"]).is_some() => note(&mut traits.chance, "openssl rand", None),
        "curl" | "wget" if !rest.iter().any(|word| is_here(word)) => note(&mut traits.network, name, None),
        name if REMOTE.contains(&name) => note(&mut traits.network, name, None),
        _ => {}
    }
    if name == "git" {
        note(&mut traits.git, "git", None);
    }
    let fetching = FETCHING.iter().find(|(program, _)| program == name);
    if let Some(word) = fetching.and_then(|(_, wanted)| has(wanted)) {
        note(&mut traits.network, &format!("{name} {word}"), None);
    }
    if let Some(word) = words.iter().find(|word| IN_ONE_ROW.contains(&word.as_str())) {
        note(&mut traits.order, word, None);
    }
}

/// Returns whether an address is one of this machine.
fn is_here(word: &str) -> bool {
    ["localhost", "127.0.0.1", "[::1]", "--unix-socket", "file:"].iter().any(|here| word.contains(here))
}

fn of_code(path: &str, text: &str, traits: &mut ContractTraits) {
    let Some(language) = SourceLanguage::of_path(path) else { return };
    let mut lines: Vec<(usize, String)> = Vec::new();
    for token in scan::tokens(text, language) {
        let part = match token.kind {
            CodeTokenKind::Comment => continue,
            CodeTokenKind::Text => "''",
            CodeTokenKind::Word | CodeTokenKind::Number | CodeTokenKind::Sign => token.text(text),
        };
        match lines.last_mut().filter(|(line, _)| *line == token.line) {
            Some((_, joined)) => joined.push_str(part),
            None => lines.push((token.line, part.to_owned())),
        }
    }
    let first = |calls: &[&'static str]| {
        lines.iter().find_map(|(line, code)| {
            let call = calls.iter().find(|call| code.contains(**call))?;
            Some((call.trim_end_matches(['(', '_']), format!("{path}:{}", line + 1)))
        })
    };
    if let Some((call, place)) = first(&CLOCK) {
        note(&mut traits.clock, call, Some(&place));
    }
    // With a seed, the values are the same each time.
    let is_seeded = lines.iter().any(|(_, code)| code.to_lowercase().contains("seed"));
    if let Some((call, place)) = first(&CHANCE).filter(|_| !is_seeded) {
        note(&mut traits.chance, call, Some(&place));
    }
}

/// Keeps the first sign of a kind.
fn note(kept: &mut Option<Evidence>, what: &str, place: Option<&str>) {
    let place = place.unwrap_or("the contract");
    kept.get_or_insert_with(|| Evidence::text(format!("`{what}` in {place}")));
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn shown(command: &str, files: &[(String, String)]) -> String {
        let ContractTraits { only_looks, network, order, chance, clock, git, .. } =
            of_contract(command, files);
        let signs =
            [("network", network), ("order", order), ("chance", chance), ("clock", clock), ("git", git)];
        let mut words: Vec<String> =
            signs.into_iter().filter_map(|(name, sign)| Some(format!("{name} {}", sign?.what))).collect();
        words.extend(only_looks.then(|| "only looks".to_owned()));
        format!("{}: {}\n", command.replace('\n', "; "), words.join(", "))
    }

    #[track_caller]
    fn check(commands: &[&str], expected: Expect) {
        expected.assert_eq(&commands.iter().map(|command| shown(command, &[])).collect::<String>());
    }

    #[test]
    fn the_text_of_a_contract_has_signs() {
        check(
            &[
                "python3 -m pytest -q tests",
                "test -f a.md && grep -q word a.md",
                "curl -sf https://example.org/",
                "./serve & curl -sf http://localhost:8000/",
                "timeout 9 npm ci && npm test",
                "git diff --exit-code",
                "bash -c 'git fetch'",
                "test \"$(date +%Y)\" = 2026",
                "date -d @0",
                "test $((RANDOM % 2)) = 0",
                "test $RANDOM -gt 3",
                "find . -mmin -5",
                "cargo test -- --test-threads=1",
                "RUST_TEST_THREADS=1 cargo test",
                "echo date; echo 'curl x'",
            ],
            expect![[r#"
                python3 -m pytest -q tests: 
                test -f a.md && grep -q word a.md: only looks
                curl -sf https://example.org/: network `curl` in the contract
                ./serve & curl -sf http://localhost:8000/: 
                timeout 9 npm ci && npm test: network `npm ci` in the contract
                git diff --exit-code: git `git` in the contract
                bash -c 'git fetch': network `git fetch` in the contract, git `git` in the contract
                test "$(date +%Y)" = 2026: clock `date` in the contract
                date -d @0: 
                test $((RANDOM % 2)) = 0: chance `$RANDOM` in the contract, only looks
                test $RANDOM -gt 3: chance `$RANDOM` in the contract, only looks
                find . -mmin -5: clock `find -mmin` in the contract
                cargo test -- --test-threads=1: order `--test-threads=1` in the contract
                RUST_TEST_THREADS=1 cargo test: order `RUST_TEST_THREADS=1` in the contract
                echo date; echo 'curl x': only looks
            "#]],
        );
    }

    #[test]
    fn code_has_signs_outside_of_strings_and_comments() {
        let files = |path: &str, text: &str| vec![(path.to_owned(), text.to_owned())];
        let of = |path: &str, text: &str| shown("x", &files(path, text));
        let texts = [
            of("t.py", "import time\n# time.time()\nx = 'time.time()'\n"),
            of("t.py", "import time\nnow = time . time()\n"),
            of("t.js", "const a = new Date();\nconst b = Math.random();\n"),
            of("t.rs", "let now = std::time::Instant::now();\n"),
            of("t.py", "import random\nrandom.seed(1)\nx = random.random()\n"),
            of("t.txt", "time.time()\n"),
        ];
        expect![[r#"
            x: 
            x: clock `time.time` in t.py:2
            x: chance `Math.random` in t.js:2, clock `newDate()` in t.js:1
            x: clock `Instant::now` in t.rs:1
            x: 
            x: 
        "#]]
        .assert_eq(&texts.concat());
    }
}
