//! Splits the bytes of a script into its simple commands.
//!
//! One pass with one cursor. The same code reads substitutions one level deeper, so each byte is visited
//! once; nesting beyond a limit is skipped as text.

use super::{Join, ShellCommand, ShellScript, Word};

mod words;

const DEEPEST: u32 = 48;

/// Reads a script; it terminates on any input.
pub fn read(text: &str) -> ShellScript {
    let mut lexer = Lexer {
        bytes: text.as_bytes(),
        at: 0,
        depth: 0,
        backtick: false,
        script: ShellScript {
            words: Vec::with_capacity(16),
            commands: Vec::with_capacity(4),
            ..ShellScript::default()
        },
        pending: Vec::with_capacity(16),
        documents: Vec::new(),
    };
    while lexer.at < lexer.bytes.len() {
        let before = lexer.at;
        lexer.list(Until::End);
        // A stray closing bracket ends a list; continue after it.
        if lexer.at == before {
            lexer.at += 1;
        }
    }
    lexer.script
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    End,
    Parenthesis,
    Backtick,
}

struct Lexer<'t> {
    bytes: &'t [u8],
    at: usize,
    depth: u32,
    /// The innermost substitution uses backticks.
    backtick: bool,
    script: ShellScript,
    /// Words of the unfinished commands, the innermost last.
    pending: Vec<Word>,
    /// Here-documents whose bodies start on the next line: the delimiter, and whether tabs are cut.
    documents: Vec<(usize, usize, bool)>,
}

/// The command that is being read.
struct Current {
    /// Index of its first word in `pending`.
    base: usize,
    start: Option<usize>,
    negated: bool,
    /// The next word is the target of a redirection.
    redirected: bool,
    in_brackets: bool,
}

impl Current {
    fn new(base: usize) -> Self {
        Self { base, start: None, negated: false, redirected: false, in_brackets: false }
    }
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    /// Reads commands until the enclosing construct ends; the closing byte is consumed.
    fn list(&mut self, until: Until) {
        let mut current = Current::new(self.pending.len());
        // Number of open loops, conditions and groups; inside of one no command is at the top level.
        let mut nest = 0u32;
        let mut compound: Option<usize> = None;
        while self.at < self.bytes.len() {
            let byte = self.peek(0);
            match byte {
                b' ' | b'\t' | b'\r' => self.at += 1,
                b'\\' if self.peek(1) == b'\n' => self.at += 2,
                b'#' if current.in_brackets || self.starts_word() => self.comment(),
                b'\n' => {
                    self.end(&mut current, Join::Next, nest, compound);
                    self.at += 1;
                    self.bodies();
                }
                b';' if self.peek(1) == b';' && nest > 0 => {
                    self.end(&mut current, Join::Next, nest, compound);
                    self.at += 2;
                    self.pattern();
                }
                b'&' if self.peek(1) == b'>' => {
                    self.at += 2;
                    current.redirected = true;
                }
                b';' | b'&' | b'|' if byte == b';' || !current.in_brackets => {
                    let (join, length) = self.operator();
                    self.end(&mut current, join, nest, compound);
                    self.at += length;
                }
                b'&' | b'|' => self.at += 1,
                b'(' if self.pending.len() == current.base && self.peek(1) == b'(' => self.arithmetic(2),
                b'(' if self.pending.len() == current.base => {
                    self.at += 1;
                    self.open(nest, &mut compound);
                    self.deeper(Until::Parenthesis);
                }
                b'(' if current.in_brackets => self.at += 1,
                b'(' if self.pending.len() == current.base + 1 && self.peek(1) == b')' => {
                    // `name()`: a function; its body follows as a group.
                    if let Some(word) = self.pending.pop() {
                        self.script.functions.push((word.start, word.end));
                    }
                    current = Current::new(self.pending.len());
                    self.at += 2;
                }
                b'(' => self.array(),
                b')' if until == Until::Parenthesis => {
                    self.at += 1;
                    break;
                }
                b')' if current.in_brackets => self.at += 1,
                b')' => break,
                b'`' if until == Until::Backtick => {
                    self.at += 1;
                    break;
                }
                b'<' | b'>' => self.redirection(&mut current),
                _ => {
                    let word = self.word();
                    self.take(word, &mut current, &mut nest, &mut compound);
                }
            }
        }
        self.end(&mut current, Join::End, nest, compound);
    }

    /// Returns the operator at the cursor, and its length.
    fn operator(&self) -> (Join, usize) {
        match (self.peek(0), self.peek(1)) {
            (b'&', b'&') => (Join::And, 2),
            (b'&', _) => (Join::Background, 1),
            (b'|', b'|') => (Join::Or, 2),
            (b'|', b'&') => (Join::Pipe, 2),
            (b'|', _) => (Join::Pipe, 1),
            _ => (Join::Next, 1),
        }
    }

    fn starts_word(&self) -> bool {
        self.at == 0
            || matches!(
                self.bytes[self.at - 1],
                b' ' | b'\t' | b'\n' | b';' | b'(' | b')' | b'&' | b'|' | b'`'
            )
    }

    fn comment(&mut self) {
        while self.at < self.bytes.len() && self.peek(0) != b'\n' {
            self.at += 1;
        }
    }

    /// Runs `list` one level deeper.
    fn deeper(&mut self, until: Until) {
        if self.depth >= DEEPEST {
            // Nested too deeply: skip the rest as text.
            self.at = self.bytes.len();
            return;
        }
        self.depth += 1;
        self.list(until);
        self.depth -= 1;
    }

    /// Begins a compound command; at the top level it gets its own entry in the list.
    fn open(&mut self, nest: u32, compound: &mut Option<usize>) {
        if nest > 0 || self.depth > 0 {
            return;
        }
        *compound = Some(self.script.commands.len());
        self.script.commands.push(ShellCommand {
            first: self.script.words.len(),
            count: 0,
            start: self.at,
            end: self.at,
            top: true,
            compound: true,
            negated: false,
            then: Join::End,
        });
    }

    /// Handles a word: a keyword changes the nesting, any other word belongs to the command.
    fn take(&mut self, word: Word, current: &mut Current, nest: &mut u32, compound: &mut Option<usize>) {
        if std::mem::take(&mut current.redirected) {
            self.script.words.push(word);
            return;
        }
        let bytes = self.bytes;
        let raw = &bytes[word.start..word.end];
        if self.pending.len() == current.base && !word.quoted {
            match raw {
                b"!" => {
                    current.negated = !current.negated;
                    current.start.get_or_insert(word.start);
                    return;
                }
                b"if" | b"while" | b"until" | b"{" => {
                    self.open(*nest, compound);
                    *nest += 1;
                    return;
                }
                b"for" | b"select" => {
                    self.open(*nest, compound);
                    *nest += 1;
                    self.header();
                    return;
                }
                b"case" => {
                    self.open(*nest, compound);
                    *nest += 1;
                    self.blanks();
                    self.word();
                    self.blanks();
                    self.word();
                    self.pattern();
                    return;
                }
                b"then" | b"do" | b"else" | b"elif" | b"in" | b"coproc" => return,
                b"fi" | b"done" | b"esac" | b"}" => {
                    *nest = nest.saturating_sub(1);
                    return;
                }
                b"function" => {
                    self.blanks();
                    let name = self.word();
                    self.script.functions.push((name.start, name.end));
                    if self.peek(0) == b'(' {
                        self.at += 2;
                    }
                    return;
                }
                b"[[" => current.in_brackets = true,
                _ => {}
            }
        }
        if current.in_brackets && raw == b"]]" {
            current.in_brackets = false;
        }
        current.start.get_or_insert(word.start);
        self.pending.push(word);
    }

    /// Reads `for x in a b c` up to the first command.
    fn header(&mut self) {
        while self.at < self.bytes.len() && !matches!(self.peek(0), b';' | b'\n') {
            match self.peek(0) {
                b' ' | b'\t' | b'\r' | b'(' | b')' | b'<' | b'>' | b'&' | b'|' => self.at += 1,
                _ => {
                    let word = self.word();
                    self.script.listed.push(word);
                }
            }
        }
    }

    /// Skips the pattern of a `case` up to its bracket; does nothing at `esac`.
    fn pattern(&mut self) {
        while matches!(self.peek(0), b' ' | b'\t' | b'\r' | b'\n' | b'(' | b';' | b'&') {
            self.at += 1;
        }
        if self.bytes[self.at..].starts_with(b"esac") {
            return;
        }
        while self.at < self.bytes.len() {
            match self.peek(0) {
                b')' => {
                    self.at += 1;
                    return;
                }
                b' ' | b'\t' | b'\r' | b'\n' | b'|' | b'(' | b';' | b'&' | b'<' | b'>' => self.at += 1,
                _ => {
                    self.word();
                }
            }
        }
    }

    fn blanks(&mut self) {
        while matches!(self.peek(0), b' ' | b'\t') {
            self.at += 1;
        }
    }

    /// Ends the command with the operator that joins it to the next one.
    fn end(&mut self, current: &mut Current, then: Join, nest: u32, compound: Option<usize>) {
        let base = current.base;
        let done = std::mem::replace(current, Current::new(base));
        let Some(start) = done.start else {
            // An operator after `fi`, `done` or `)` belongs to the whole compound command.
            if nest == 0
                && let Some(command) = compound.and_then(|at| self.script.commands.get_mut(at))
                && command.then == Join::End
                && then != Join::End
            {
                command.then = then;
                command.end = self.at;
            }
            return;
        };
        let first = self.script.words.len();
        let count = self.pending.len() - base;
        let end = self.pending[base..].last().map_or(start, |word| word.end);
        self.script.words.extend(self.pending.drain(base..));
        let top = nest == 0 && self.depth == 0;
        self.script.commands.push(ShellCommand {
            first,
            count,
            start,
            end,
            top,
            compound: false,
            negated: done.negated,
            then,
        });
    }

    fn redirection(&mut self, current: &mut Current) {
        let byte = self.peek(0);
        if current.in_brackets {
            self.at += 1;
            return;
        }
        if self.peek(1) == b'(' {
            self.at += 2;
            self.deeper(Until::Parenthesis);
            return;
        }
        if byte == b'<' {
            if let Some(end) = self.placeholder() {
                self.script.placeholders.push((self.at, end));
                self.at = end;
                return;
            }
            if self.peek(1) == b'<' && self.peek(2) != b'<' {
                return self.here_document();
            }
        }
        while matches!(self.peek(0), b'<' | b'>' | b'&' | b'|') {
            self.at += 1;
        }
        // `2>&1` and `>&-` have no file.
        if self.bytes[self.at - 1] == b'&' {
            while matches!(self.peek(0), b'0'..=b'9' | b'-') {
                self.at += 1;
            }
            return;
        }
        current.redirected = true;
    }

    /// Returns the length of a placeholder such as `<your-name>`: letters, digits and blanks right between
    /// the brackets.
    fn placeholder(&self) -> Option<usize> {
        let rest = &self.bytes[self.at + 1..];
        if !rest.first()?.is_ascii_alphabetic() {
            return None;
        }
        let inside =
            |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b' ' | b'/');
        let length = rest.iter().take(60).take_while(|byte| inside(byte)).count();
        let closed = rest.get(length) == Some(&b'>') && rest[length - 1].is_ascii_alphanumeric();
        let redirects = matches!(rest.get(length + 1), Some(b'>' | b'&'));
        (closed && !redirects).then_some(self.at + length + 2)
    }

    fn here_document(&mut self) {
        self.at += 2;
        let tabs = self.peek(0) == b'-';
        self.at += usize::from(tabs);
        self.blanks();
        let word = self.word();
        self.documents.push((word.start, word.end, tabs));
    }

    /// Reads the bodies of the here-documents of the line that just ended.
    fn bodies(&mut self) {
        for (start, end, tabs) in std::mem::take(&mut self.documents) {
            let delimiter: Vec<u8> = self.bytes[start..end]
                .iter()
                .copied()
                .filter(|byte| !matches!(byte, b'\'' | b'"' | b'\\'))
                .collect();
            let body = self.at;
            while self.at < self.bytes.len() {
                let rest = &self.bytes[self.at..];
                let length = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
                let mut line = &rest[..length];
                self.at = (self.at + length + 1).min(self.bytes.len());
                while tabs && line.first() == Some(&b'\t') {
                    line = &line[1..];
                }
                if line.strip_suffix(b"\r").unwrap_or(line) == delimiter {
                    break;
                }
            }
            self.script.documents.push((body, self.at));
        }
    }

    /// Reads `a=(…)`: words that are not commands.
    fn array(&mut self) {
        self.at += 1;
        while self.at < self.bytes.len() && self.peek(0) != b')' {
            match self.peek(0) {
                b' ' | b'\t' | b'\n' | b'\r' | b';' | b'&' | b'|' | b'<' | b'>' | b'(' => self.at += 1,
                _ => {
                    let word = self.word();
                    self.script.listed.push(word);
                }
            }
        }
        self.at = (self.at + 1).min(self.bytes.len());
    }
}
