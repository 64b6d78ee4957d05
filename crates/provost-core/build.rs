//! Turns `src/redact/shapes.toml` into a Rust table, so that no program that only redacts a line has to parse
//! it.

// These rules are for core itself; a build script reads and writes files.
#![allow(clippy::disallowed_methods)]

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;

use regex_syntax::hir::{Class, Hir, HirKind};

const TABLE: &str = "src/redact/shapes.toml";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={TABLE}");
    let file: toml::Table = std::fs::read_to_string(TABLE)?.parse()?;
    let rows = file.get("shape").and_then(toml::Value::as_array).ok_or("no [[shape]]")?;
    let mut source = format!("static SHAPES: [Shape; {}] = [\n", rows.len());
    for row in rows {
        let row = row.as_table().ok_or("a shape is a table")?;
        write_row(&mut source, row).map_err(|why| format!("{TABLE}: {why} in\n{row}"))?;
    }
    source.push_str("];\n");
    let to = Path::new(&std::env::var("OUT_DIR")?).join("shapes.rs");
    Ok(std::fs::write(to, source)?)
}

fn write_row(source: &mut String, row: &toml::Table) -> Result<(), Box<dyn Error>> {
    const KEYS: [&str; 4] = ["kind", "hints", "token", "part"];
    if let Some(unknown) = row.keys().find(|key| !KEYS.contains(&key.as_str())) {
        return Err(format!("unknown key `{unknown}`").into());
    }
    let text = |key: &str| row.get(key).and_then(toml::Value::as_str);
    let hints = row.get("hints").and_then(toml::Value::as_array).ok_or("no `hints`")?;
    let hints =
        hints.iter().map(toml::Value::as_str).collect::<Option<Vec<_>>>().ok_or("a hint is a text")?;
    let (pattern, whole) = match (text("token"), text("part")) {
        (Some(token), None) => (token, true),
        (None, Some(part)) => (part, false),
        _ => return Err("either `token` or `part`".into()),
    };
    let kind = text("kind").ok_or("no `kind`")?;
    let least = shortest_word(&regex_syntax::parse(pattern)?);
    writeln!(source, "    Shape::new({kind:?}, &{hints:?}, {pattern:?}, {whole}, {least}),")?;
    Ok(())
}

/// Returns how long a word must be at least, in bytes, to have a match of the pattern; 0 if a match may have
/// several words.
fn shortest_word(pattern: &Hir) -> usize {
    let least = pattern.properties().minimum_len().unwrap_or_default();
    if matches_a_space(pattern) { 0 } else { least }
}

fn matches_a_space(pattern: &Hir) -> bool {
    let is_space = |byte: &u8| byte.is_ascii_whitespace();
    let has_space = |from: u32, to: u32| (from..=to.min(127)).any(|at| is_space(&(at as u8)));
    match pattern.kind() {
        HirKind::Empty | HirKind::Look(_) => false,
        HirKind::Literal(literal) => literal.0.iter().any(is_space),
        HirKind::Class(Class::Unicode(class)) => {
            class.iter().any(|range| has_space(range.start().into(), range.end().into()))
        }
        HirKind::Class(Class::Bytes(class)) => {
            class.iter().any(|range| has_space(range.start().into(), range.end().into()))
        }
        HirKind::Repetition(repeated) => matches_a_space(&repeated.sub),
        HirKind::Capture(group) => matches_a_space(&group.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().any(matches_a_space),
    }
}
