//! Edits JSON with comments in place.
//!
//! The text is normalised first: comments and trailing commas become blanks, so that every value keeps its
//! position. New text is inserted in one place, directly after the bracket that opens its object or list.
//!
//! **Invariant:** an edit adds bytes and removes none.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Trouble;

/// Text to insert at a position.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Splice {
    pub at: usize,
    pub text: String,
}

impl Splice {
    pub fn apply(&self, text: &str) -> String {
        format!("{}{}{}", &text[..self.at], self.text, &text[self.at..])
    }

    /// Returns the text without the insertion, if it is there.
    pub fn undo(&self, text: &str) -> Option<String> {
        let (before, rest) = text.split_at_checked(self.at)?;
        Some(format!("{before}{}", rest.strip_prefix(self.text.as_str())?))
    }
}

/// Parses a whole text.
pub fn value(text: &str) -> Result<Value, Trouble> {
    let plain = plain(text);
    let bare = plain.trim_start_matches('\u{feff}');
    serde_json::from_str(bare).map_err(|error| Trouble::new(format!("it is not JSON: {error}")))
}

/// Makes `path` have this value; `None` if it already has.
pub fn member(text: &str, path: &[&str], wanted: &Value) -> Result<Option<Splice>, Trouble> {
    let whole = value(text)?;
    let (depth, found) = reach(&whole, path)?;
    match found {
        Some(found) if found == wanted => Ok(None),
        Some(_) => {
            Err(Trouble::new(format!("`{}` is there already, and says something else", path.join("."))))
        }
        None => insert(text, path, depth, wanted.clone()),
    }
}

/// Makes the list at `path` contain provost's element.
pub fn element(
    text: &str,
    path: &[&str],
    wanted: &Value,
    is_ours: impl Fn(&Value) -> bool,
) -> Result<Option<Splice>, Trouble> {
    let whole = value(text)?;
    let (depth, found) = reach(&whole, path)?;
    let Some(found) = found else { return insert(text, path, depth, Value::Array(vec![wanted.clone()])) };
    let Some(list) = found.as_array() else {
        return Err(Trouble::new(format!("`{}` is there already, and is no list", path.join("."))));
    };
    match list.iter().find(|element| is_ours(element)) {
        Some(ours) if ours == wanted => Ok(None),
        Some(_) => {
            Err(Trouble::new(format!("`{}` has an entry for another provost: take it out", path.join("."))))
        }
        None => {
            let plain = plain(text);
            let open = opening(&plain, path)?;
            let entry = Entry { key: None, value: wanted };
            Ok(Some(splice(text, &plain, open, path.len(), &entry, list.is_empty())))
        }
    }
}

/// Returns how many keys of `path` exist, and the value if all do.
fn reach<'a>(whole: &'a Value, path: &[&str]) -> Result<(usize, Option<&'a Value>), Trouble> {
    let mut at = whole;
    for (depth, key) in path.iter().enumerate() {
        let Some(object) = at.as_object() else {
            let name =
                if depth == 0 { "the whole".to_owned() } else { format!("`{}`", path[..depth].join(".")) };
            return Err(Trouble::new(format!("{name} is no object")));
        };
        match object.get(*key) {
            Some(next) => at = next,
            None => return Ok((depth, None)),
        }
    }
    Ok((path.len(), Some(at)))
}

/// Inserts the first missing key into the last existing object.
fn insert(text: &str, path: &[&str], depth: usize, wanted: Value) -> Result<Option<Splice>, Trouble> {
    let nested = path[depth + 1..]
        .iter()
        .rev()
        .fold(wanted, |inner, key| Value::Object(std::iter::once(((*key).to_owned(), inner)).collect()));
    let plain = plain(text);
    let open = opening(&plain, &path[..depth])?;
    let is_empty = plain[open + 1..].trim_start().starts_with('}');
    let entry = Entry { key: Some(path[depth]), value: &nested };
    Ok(Some(splice(text, &plain, open, depth, &entry, is_empty)))
}

fn splice(text: &str, plain: &str, open: usize, depth: usize, entry: &Entry, is_empty: bool) -> Splice {
    let unit = indent(plain);
    let at = behind_comment(text, open + 1);
    let ends_line = plain[at..].trim_start_matches([' ', '\t', '\r']).starts_with('\n');
    if !is_empty && !ends_line {
        return Splice { at, text: format!("{entry}, ") };
    }
    let inner = unit.repeat(depth + 1);
    let mut added = String::new();
    for line in format!("{entry:#}").lines() {
        let bare = line.trim_start();
        // In the printed form, two blanks are one level.
        added.push_str(&format!("\n{inner}{}{bare}", unit.repeat((line.len() - bare.len()) / 2)));
    }
    if !is_empty {
        added.push(',');
    } else if !ends_line {
        added.push_str(&format!("\n{}", unit.repeat(depth)));
    }
    if text.contains("\r\n") {
        added = added.replace('\n', "\r\n");
    }
    Splice { at, text: added }
}

/// A member of an object or an element of a list; on one line, or on several with `#`.
struct Entry<'a> {
    key: Option<&'a str>,
    value: &'a Value,
}

impl fmt::Display for Entry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(key) = self.key {
            write!(f, "{}: ", Value::String(key.to_owned()))?;
        }
        match f.alternate() {
            true => write!(f, "{:#}", self.value),
            false => write!(f, "{}", self.value),
        }
    }
}

/// Returns the position after a comment on the line of an opening bracket, so that the comment stays there.
fn behind_comment(text: &str, from: usize) -> usize {
    let rest = &text[from..];
    let blanks = rest.len() - rest.trim_start_matches([' ', '\t']).len();
    let comment = &rest[blanks..];
    let line = comment.find('\n').unwrap_or(comment.len());
    let line = if comment[..line].ends_with('\r') { line - 1 } else { line };
    if comment.starts_with("//") {
        return from + blanks + line;
    }
    match comment.strip_prefix("/*").and_then(|inner| inner.find("*/")) {
        Some(end) if end + 4 <= line => from + blanks + end + 4,
        _ => from,
    }
}

/// Returns the indentation unit of the text.
fn indent(plain: &str) -> String {
    let indented = plain.lines().find_map(|line| {
        let inner = line.trim_start_matches([' ', '\t']);
        let width = line.len() - inner.len();
        (width > 0 && inner.starts_with(['"', '{'])).then(|| line[..width].to_owned())
    });
    indented.unwrap_or_else(|| "  ".to_owned())
}

/// Returns the position of the bracket that opens the value at `path`.
fn opening(plain: &str, path: &[&str]) -> Result<usize, Trouble> {
    let lost = || Trouble::new("its form is not understood");
    let mut at = plain.find(['{', '[']).ok_or_else(lost)?;
    for key in path {
        at = find_key(plain, at, key).ok_or_else(lost)?;
    }
    Ok(at)
}

/// Returns the position of a key's value in the object that opens at `open`. The last duplicate counts, as
/// for JSON readers.
fn find_key(plain: &str, open: usize, wanted: &str) -> Option<usize> {
    let bytes = plain.as_bytes();
    let (mut at, mut depth, mut found) = (open + 1, 0_usize, None);
    let mut expects_key = true;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                let end = string_end(bytes, at)?;
                if depth == 0 && expects_key {
                    let key: String = serde_json::from_str(&plain[at..end]).ok()?;
                    let colon = end + plain[end..].find(':')?;
                    let begins = colon + 1 + plain[colon + 1..].find(|c: char| !c.is_whitespace())?;
                    if key == wanted {
                        found = Some(begins);
                    }
                    expects_key = false;
                    at = begins;
                    continue;
                }
                at = end;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 0 => return found,
            b'}' | b']' => depth -= 1,
            b',' if depth == 0 => expects_key = true,
            _ => {}
        }
        at += 1;
    }
    found
}

/// Returns the position after the closing quote.
fn string_end(bytes: &[u8], open: usize) -> Option<usize> {
    let mut at = open + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return Some(at + 1),
            _ => at += 1,
        }
    }
    None
}

/// Returns the text with comments and trailing commas blanked, every other byte in its place.
fn plain(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let blank = |out: &mut [u8], from: usize, to: usize| {
        for byte in &mut out[from..to] {
            if !matches!(*byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
    };
    let (mut at, mut comma) = (0, None);
    while at < bytes.len() {
        let rest = &bytes[at..];
        if rest.starts_with(b"//") || rest.starts_with(b"/*") {
            let end = match rest[1] {
                b'/' => text[at..].find('\n').map_or(bytes.len(), |end| at + end),
                _ => text[at + 2..].find("*/").map_or(bytes.len(), |end| at + 2 + end + 2),
            };
            blank(&mut out, at, end);
            at = end;
            continue;
        }
        match bytes[at] {
            b'"' => {
                at = string_end(bytes, at).unwrap_or(bytes.len());
                comma = None;
                continue;
            }
            b',' => comma = Some(at),
            b'}' | b']' => {
                if let Some(comma) = comma.take() {
                    out[comma] = b' ';
                }
            }
            byte if byte.is_ascii_whitespace() => {}
            _ => comma = None,
        }
        at += 1;
    }
    String::from_utf8(out).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    fn check(text: &str, expected: Expect) {
        let server = json!({ "command": "/p", "args": ["mcp"] });
        let mut changed = text.to_owned();
        let first = member(&changed, &["mcpServers", "provost"], &server).unwrap().unwrap();
        changed = first.apply(&changed);
        let hook = json!({ "hooks": [{ "command": "/p hook x" }] });
        let ours = |value: &Value| value.to_string().contains("/p hook");
        let second = element(&changed, &["hooks", "Stop"], &hook, ours).unwrap().unwrap();
        changed = second.apply(&changed);
        let whole = value(&changed).unwrap();
        assert_eq!(whole["mcpServers"]["provost"], server);
        assert_eq!(whole["hooks"]["Stop"][0], hook);
        // A second run changes nothing; undone, the text is as before.
        assert_eq!(member(&changed, &["mcpServers", "provost"], &server).unwrap(), None);
        assert_eq!(element(&changed, &["hooks", "Stop"], &hook, ours).unwrap(), None);
        assert_eq!(changed.replacen(&second.text, "", 1).replacen(&first.text, "", 1), text);
        // Inserted lines have the line ending of the text.
        let all = changed.matches('\n').count();
        assert_eq!(changed.matches("\r\n").count(), if text.contains("\r\n") { all } else { 0 });
        expected.assert_eq(&changed.replace("\r\n", "\n"));
    }

    #[test]
    fn an_empty_object_is_filled() {
        check(
            "{}\n",
            expect![[r#"
                {
                  "hooks": {
                    "Stop": [
                      {
                        "hooks": [
                          {
                            "command": "/p hook x"
                          }
                        ]
                      }
                    ]
                  },
                  "mcpServers": {
                    "provost": {
                      "command": "/p",
                      "args": [
                        "mcp"
                      ]
                    }
                  }
                }
            "#]],
        );
    }

    #[test]
    fn comments_order_and_superfluous_commas_stay() {
        check(
            "{ // mine\n    /* \"hooks\": not this */\n    \"theme\": \"a // b\",\n    \"hooks\": {\n        \"Stop\": [\n            { \"hooks\": [{ \"command\": \"say \\\"}\\\"\" }] }, // other\n        ],\n    },\n}\n",
            expect![[r#"
                { // mine
                    "mcpServers": {
                        "provost": {
                            "command": "/p",
                            "args": [
                                "mcp"
                            ]
                        }
                    },
                    /* "hooks": not this */
                    "theme": "a // b",
                    "hooks": {
                        "Stop": [
                            {
                                "hooks": [
                                    {
                                        "command": "/p hook x"
                                    }
                                ]
                            },
                            { "hooks": [{ "command": "say \"}\"" }] }, // other
                        ],
                    },
                }
            "#]],
        );
    }

    #[test]
    fn one_line_and_tabs_and_carriage_returns() {
        check(
            "{\"a\": 1, \"mcpServers\": {\"x\": {}}}",
            expect![[
                r#"{"hooks": {"Stop":[{"hooks":[{"command":"/p hook x"}]}]}, "a": 1, "mcpServers": {"provost": {"command":"/p","args":["mcp"]}, "x": {}}}"#
            ]],
        );
        check(
            "{\r\n\t\"hooks\": {\r\n\t\t\"Stop\": []\r\n\t}\r\n}\r\n",
            expect![[r#"
                {
                	"mcpServers": {
                		"provost": {
                			"command": "/p",
                			"args": [
                				"mcp"
                			]
                		}
                	},
                	"hooks": {
                		"Stop": [
                			{
                				"hooks": [
                					{
                						"command": "/p hook x"
                					}
                				]
                			}
                		]
                	}
                }
            "#]],
        );
    }

    #[test]
    fn what_is_somebody_elses_is_left_alone() {
        let there = member("{\"mcpServers\": {\"provost\": 1}}", &["mcpServers", "provost"], &json!(2));
        assert!(there.is_err_and(|trouble| trouble.to_string().contains("says something else")));
        assert!(member("{\"a\": [}", &["b"], &json!(1)).is_err());
        assert!(member("[]", &["b"], &json!(1)).is_err());
        assert!(member("{\"b\": 3}", &["b", "c"], &json!(1)).is_err());
        assert!(element("{\"b\": 3}", &["b"], &json!(1), |_| false).is_err());
    }
}
