//! Reads a template and fills in its parameters to make a plan.
//!
//! A template is a plan that contains `{{name}}`. It begins with lines that start with `#:`: one that says
//! what the template is for, then one for each parameter, `name | kind | default | about`. An undeclared
//! parameter is text in prose and a word in frontmatter and checks. A default may name facts of the project,
//! such as `{{test}}`, its test command; without that fact, the parameter has no default.
//!
//! **Invariant:** whatever the values are, the plan has the steps, fields and kinds of contract of the
//! template: a value that changes them is refused.

use std::collections::BTreeMap;
use std::fmt;

use crate::language::parse;
use crate::model::plan::{Check, Contract, Needs, Plan};

/// The built-in templates, by name.
pub const BUILT_IN: [(&str, &str); 8] = [
    ("blank", include_str!("template/blank.md")),
    ("bugfix", include_str!("template/bugfix.md")),
    ("docs", include_str!("template/docs.md")),
    ("feature", include_str!("template/feature.md")),
    (FIRST_TEST, include_str!("template/first-test.md")),
    (MEND_TESTS, include_str!("template/mend-tests.md")),
    ("refactor", include_str!("template/refactor.md")),
    ("release", include_str!("template/release.md")),
];

/// The default template of `provost new`.
pub const BLANK: &str = "blank";
/// The templates of `provost start`: for tests that pass, and for tests that fail.
pub const FIRST_TEST: &str = "first-test";
pub const MEND_TESTS: &str = "mend-tests";
/// The parameter for the name of the plan.
pub const NAME: &str = "name";

const HEADER: &str = "#:";
const OPEN: &str = "{{";
const CLOSE: &str = "}}";
const VALUE_MAX: usize = 400;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    pub about: String,
    pub parameters: Vec<Parameter>,
    body: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    pub name: String,
    pub kind: ValueKind,
    pub default: Option<String>,
    pub about: String,
}

/// The kind of a value, which decides where it may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// Text for people; never in a check or in the frontmatter.
    Text,
    /// A name, a number or a path without special meaning to the shell; allowed anywhere.
    Word,
    /// A line of shell; only alone on a line of a check.
    Command,
    /// Globs separated by commas; in the frontmatter or in a field.
    Globs,
}

impl ValueKind {
    pub fn word(self) -> &'static str {
        match self {
            ValueKind::Text => "text",
            ValueKind::Word => "word",
            ValueKind::Command => "command",
            ValueKind::Globs => "globs",
        }
    }

    fn read(word: &str) -> Option<ValueKind> {
        [ValueKind::Text, ValueKind::Word, ValueKind::Command, ValueKind::Globs]
            .into_iter()
            .find(|kind| kind.word() == word)
    }

    /// Returns a sample value of this kind that changes nothing around it.
    fn sample(self) -> &'static str {
        match self {
            ValueKind::Text => "Some words",
            ValueKind::Word => "word",
            ValueKind::Command => "make check",
            ValueKind::Globs => "src/**",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateProblem {
    #[error("the template has no value for {}; set it with {}", .0.join(", "), as_options(.0))]
    Missing(Vec<String>),
    #[error("the template has no parameter `{name}`{}", known(.there))]
    Unknown { name: String, there: Vec<String> },
    #[error("the value of `{name}` {why}")]
    Value { name: String, why: &'static str },
    #[error("the value of `{name}` would change the steps, fields or checks of the template")]
    BreaksOut { name: String },
    #[error("line {line} of the template: {why}")]
    Template { line: usize, why: String },
}

fn as_options(names: &[String]) -> String {
    names.iter().map(|name| format!("--set {name}=…")).collect::<Vec<_>>().join(" ")
}

fn known(there: &[String]) -> String {
    if there.is_empty() { String::new() } else { format!("; it has {}", there.join(", ")) }
}

/// The region of the plan that a line is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Region {
    Frontmatter,
    Check,
    Prose,
}

impl Template {
    pub fn read(text: &str) -> Result<Template, TemplateProblem> {
        let text = text.replace("\r\n", "\n");
        let mut template = Template { about: String::new(), parameters: Vec::new(), body: String::new() };
        let mut head = 0;
        for (index, line) in text.lines().enumerate() {
            let Some(said) = line.strip_prefix(HEADER) else { break };
            head += 1;
            match said.splitn(4, '|').map(str::trim).collect::<Vec<_>>().as_slice() {
                [about] => template.about = (*about).to_owned(),
                [name, kind, default, about] => {
                    template.parameters.push(parameter(index + 1, name, kind, default, about)?)
                }
                _ => return Err(wrong(index + 1, "a parameter is `name | kind | default | about`")),
            }
        }
        template.body = text.split_inclusive('\n').skip(head).collect();
        template.look_at_places(head)?;
        Ok(template)
    }

    /// Adds undeclared parameters, and rejects those at places where they are not allowed.
    fn look_at_places(&mut self, head: usize) -> Result<(), TemplateProblem> {
        let body = self.body.clone();
        for (index, (region, line)) in regions(&body).enumerate() {
            let number = head + index + 1;
            for name in places(line).map_err(|why| wrong(number, why))? {
                let kind = match self.parameters.iter().find(|parameter| parameter.name == name) {
                    Some(parameter) => parameter.kind,
                    None => {
                        let kind = if region == Region::Prose { ValueKind::Text } else { ValueKind::Word };
                        let (name, about) = (name.to_owned(), String::new());
                        self.parameters.push(Parameter { name, kind, default: None, about });
                        kind
                    }
                };
                let alone = line.trim() == format!("{OPEN}{name}{CLOSE}");
                let fits = match kind {
                    // At the start of a line, free text could become a field.
                    ValueKind::Text => region == Region::Prose && !line.trim_start().starts_with(OPEN),
                    ValueKind::Word => true,
                    ValueKind::Command => region == Region::Check && alone,
                    ValueKind::Globs => region != Region::Check,
                };
                if !fits {
                    let kind = kind.word();
                    return Err(wrong(
                        number,
                        format!("`{name}` has the kind {kind}, which is not allowed here"),
                    ));
                }
            }
        }
        Ok(())
    }

    /// Fills facts of the project into the defaults. A default that needs an unknown fact is dropped.
    pub fn for_project(mut self, facts: &BTreeMap<String, String>) -> Template {
        for parameter in &mut self.parameters {
            parameter.default = parameter.default.take().and_then(|default| with_facts(&default, facts));
        }
        self
    }

    /// Returns the plan with `values` filled in.
    pub fn fill(&self, plan: &str, values: &BTreeMap<String, String>) -> Result<String, TemplateProblem> {
        let is_known = |name: &str| self.parameters.iter().any(|parameter| parameter.name == name);
        if let Some(name) = values.keys().find(|name| !is_known(name)) {
            let there = self.parameters.iter().map(|parameter| parameter.name.clone());
            return Err(TemplateProblem::Unknown {
                name: name.clone(),
                there: there.filter(|name| name != NAME).collect(),
            });
        }
        let value = |parameter: &Parameter| match (values.get(&parameter.name), &parameter.default) {
            (Some(value), _) | (None, Some(value)) => Some(value.clone()),
            (None, None) => (parameter.name == NAME).then(|| plan.to_owned()),
        };
        let missing = self.parameters.iter().filter(|parameter| value(parameter).is_none());
        let missing: Vec<String> = missing.map(|parameter| parameter.name.clone()).collect();
        if !missing.is_empty() {
            return Err(TemplateProblem::Missing(missing));
        }
        let mut chosen: BTreeMap<&str, String> = BTreeMap::new();
        for parameter in &self.parameters {
            let value = value(parameter).unwrap_or_default();
            allowed(parameter.kind, &value)
                .map_err(|why| TemplateProblem::Value { name: parameter.name.clone(), why })?;
            chosen.insert(&parameter.name, value);
        }
        self.keeps_its_shape(&chosen)?;
        Ok(self.with(&chosen))
    }

    /// Tests each value alone, with harmless samples for the others, so that the error names the bad one.
    fn keeps_its_shape(&self, chosen: &BTreeMap<&str, String>) -> Result<(), TemplateProblem> {
        let harmless: BTreeMap<&str, String> = self
            .parameters
            .iter()
            .map(|parameter| (parameter.name.as_str(), parameter.kind.sample().to_owned()))
            .collect();
        let shape_of = |values: &BTreeMap<&str, String>| shape(&parse::plan(&self.with(values)).plan);
        let expected = shape_of(&harmless);
        for (name, value) in chosen {
            let mut tried = harmless.clone();
            tried.insert(name, value.clone());
            if shape_of(&tried) != expected {
                return Err(TemplateProblem::BreaksOut { name: (*name).to_owned() });
            }
        }
        Ok(())
    }

    fn with(&self, values: &BTreeMap<&str, String>) -> String {
        let mut out = String::with_capacity(self.body.len() + 256);
        for (region, line) in regions(&self.body) {
            let mut rest = line;
            while let Some((before, after)) = rest.split_once(OPEN) {
                let Some((name, after)) = after.split_once(CLOSE) else { break };
                out.push_str(before);
                let name = name.trim();
                let value = values.get(name).map(String::as_str).unwrap_or_default();
                let kind = self.parameters.iter().find(|parameter| parameter.name == name);
                match (kind.map(|parameter| parameter.kind), region) {
                    (Some(ValueKind::Globs), Region::Frontmatter) => out.push_str(&as_list(value)),
                    _ => out.push_str(value.trim()),
                }
                rest = after;
            }
            out.push_str(rest);
        }
        out
    }
}

fn parameter(
    line: usize,
    name: &str,
    kind: &str,
    default: &str,
    about: &str,
) -> Result<Parameter, TemplateProblem> {
    if !is_name(name) {
        return Err(wrong(line, format!("`{name}` is not a parameter name; use a-z, 0-9 and `_`")));
    }
    let Some(kind) = ValueKind::read(kind) else {
        return Err(wrong(line, format!("there is no kind `{kind}`; use text, word, command or globs")));
    };
    let default = (!default.is_empty()).then(|| default.to_owned());
    Ok(Parameter { name: name.to_owned(), kind, default, about: about.to_owned() })
}

/// Replaces each `{{fact}}`; `None` if one is not known.
fn with_facts(default: &str, facts: &BTreeMap<String, String>) -> Option<String> {
    let (mut out, mut rest) = (String::new(), default);
    while let Some((before, after)) = rest.split_once(OPEN) {
        let (name, after) = after.split_once(CLOSE)?;
        out.push_str(before);
        out.push_str(facts.get(name.trim())?);
        rest = after;
    }
    out.push_str(rest);
    Some(out)
}

fn wrong(line: usize, why: impl Into<String>) -> TemplateProblem {
    TemplateProblem::Template { line, why: why.into() }
}

fn is_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

/// Returns the parameter names in one line.
fn places(line: &str) -> Result<Vec<&str>, String> {
    let mut names = Vec::new();
    let mut rest = line;
    while let Some((_, after)) = rest.split_once(OPEN) {
        let Some((name, after)) = after.split_once(CLOSE) else {
            return Err(format!("`{OPEN}` is never closed"));
        };
        let name = name.trim();
        if !is_name(name) {
            return Err(format!("`{name}` is not a parameter name; use a-z, 0-9 and `_`"));
        }
        names.push(name);
        rest = after;
    }
    Ok(names)
}

/// Returns every line with its end and its region.
fn regions(body: &str) -> impl Iterator<Item = (Region, &str)> {
    let mut in_frontmatter = false;
    let mut fence: Option<String> = None;
    body.split_inclusive('\n').enumerate().map(move |(index, line)| {
        let trimmed = line.trim();
        if trimmed == "---" && (index == 0 || in_frontmatter) {
            in_frontmatter = index == 0;
            return (Region::Frontmatter, line);
        }
        if in_frontmatter {
            return (Region::Frontmatter, line);
        }
        let mark: String = trimmed.chars().take_while(|each| ['`', '~'].contains(each)).collect();
        match &fence {
            Some(open) if trimmed == mark && mark.starts_with(open.as_str()) => fence = None,
            Some(_) => {}
            None if mark.len() >= 3 => fence = Some(mark),
            None => return (Region::Prose, line),
        }
        (Region::Check, line)
    })
}

/// Returns whether a value is allowed for this kind; the error says why not.
fn allowed(kind: ValueKind, value: &str) -> Result<(), &'static str> {
    let value = value.trim();
    if value.is_empty() {
        return Err("is empty");
    }
    if value.len() > VALUE_MAX {
        return Err("is too long: 400 bytes at most");
    }
    if value.chars().any(|each| each.is_control() || is_unseen(each)) {
        return Err("holds a line break, a control character or an invisible character; write one \
             line of plain text");
    }
    if value.contains(['`']) || value.contains("~~~") || value.contains(OPEN) || value.contains(CLOSE) {
        return Err("holds a backtick, `~~~` or a double brace, which would end the block around it");
    }
    let of = |more: &'static str| move |each: char| each.is_ascii_alphanumeric() || more.contains(each);
    match kind {
        ValueKind::Text if value.contains("**") || value.contains('<') => {
            Err("holds `**` or `<`, which Markdown reads as formatting")
        }
        ValueKind::Text => Ok(()),
        ValueKind::Word if value.starts_with('-') || !value.chars().all(of("._/:@%+,=-")) => {
            Err("is not a single word; use letters, digits and ._/:@%+,=- and no dash at the start")
        }
        ValueKind::Word => Ok(()),
        ValueKind::Command if value.ends_with('\\') || value.contains("<<") => {
            Err("would continue on the next line (`\\` at the end, or `<<`)")
        }
        ValueKind::Command if !quotes_are_closed(value) => Err("opens a quote and does not close it"),
        ValueKind::Command => Ok(()),
        ValueKind::Globs => {
            let is_glob = |glob: &str| {
                !glob.is_empty() && !glob.starts_with(['-', '/', '*', '!']) && glob.chars().all(of("._/*?-"))
                    || glob.starts_with("**/") && glob.chars().all(of("._/*?-"))
            };
            match value.split(',').map(str::trim).all(is_glob) {
                true => Ok(()),
                false => Err("is not a list of globs such as src/**, docs/*.md"),
            }
        }
    }
}

/// Recognises direction marks, zero-width characters and similar ones.
fn is_unseen(each: char) -> bool {
    matches!(each, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

fn quotes_are_closed(line: &str) -> bool {
    let mut open: Option<char> = None;
    let mut chars = line.chars();
    while let Some(each) = chars.next() {
        match (open, each) {
            (Some('\''), '\'') => open = None,
            (Some('\''), _) => {}
            (_, '\\') => {
                chars.next();
            }
            (Some('"'), '"') => open = None,
            (None, '"' | '\'') => open = Some(each),
            _ => {}
        }
    }
    open.is_none()
}

fn as_list(globs: &str) -> String {
    let quoted: Vec<String> = globs.split(',').map(|glob| format!("\"{}\"", glob.trim())).collect();
    format!("[{}]", quoted.join(", "))
}

/// Returns everything that a value must not change: the structure without the words.
fn shape(plan: &Plan) -> Vec<String> {
    let head = format!(
        "{} {} {:?} {:?} {:?} {} {:?}",
        plan.depends_on.len(),
        plan.touches.is_some(),
        plan.owner.is_some(),
        plan.budget.as_ref().map(|budget| &budget.value),
        plan.context.is_some(),
        plan.postconditions.len(),
        plan.require_red.as_ref().map(|red| red.value),
    );
    let steps = plan.steps.iter().map(|step| {
        format!(
            "{} {:?} {} {} {} | {} | {} | {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
            step.number,
            needs(&step.needs),
            step.target.is_some(),
            step.task.is_some(),
            step.subscriptions.len(),
            step.precondition.as_ref().map(check).unwrap_or_default(),
            step.contract.as_ref().map(check).unwrap_or_default(),
            step.mark.mark,
            step.timeout.as_ref().map(|it| it.value),
            step.budget.as_ref().map(|it| &it.value),
            step.contract_timeout.as_ref().map(|it| it.value),
            !step.protect.is_empty(),
            step.network.as_ref().map(|it| it.value),
            step.agent_network.as_ref().map(|it| it.value),
            step.git.as_ref().map(|it| it.value),
            step.hidden.as_ref().map(|it| it.value),
            (step.writes.as_ref().map(|it| it.value), step.verify_runs.as_ref().map(|it| it.value)),
            (step.lasting.as_ref().map(|it| it.value), step.is_guard(), step.plan.is_some()),
            step.on_fail.as_ref().map(|it| &it.value),
        )
    });
    let posts = plan.postconditions.iter().map(|post| post.contract.as_ref().map(check).unwrap_or_default());
    std::iter::once(head).chain(steps).chain(posts).collect()
}

fn needs(needs: &Needs) -> Option<Vec<u32>> {
    match needs {
        Needs::Before => None,
        Needs::Steps(steps) => Some(steps.iter().map(|step| step.value.0).collect()),
    }
}

fn check(contract: &Contract) -> String {
    match &contract.check {
        Check::Shell(shell) => {
            let expected = shell.expectations.iter().map(|each| &each.value);
            format!("shell of {} lines, {:?}", shell.command.lines().count(), expected.collect::<Vec<_>>())
        }
        Check::Human => "human".to_owned(),
        Check::Judge { .. } => "judge".to_owned(),
    }
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}", self.name, self.kind.word())?;
        match &self.default {
            Some(default) => write!(f, ", default {default}")?,
            None => f.write_str(", required")?,
        }
        write!(f, ") {}", self.about)
    }
}

#[cfg(test)]
mod tests;
