//! Edits JSON with comments in place.
//!
//! `jsonc-parser` finds the position. New text is inserted directly after the bracket that opens its object or
//! list. The crate's own editor is not used: it reformats objects on one line and drops blank lines, so undoing
//! an edit would need a copy of the user's text.
//!
//! **Invariant:** an insertion removes no byte.

pub(crate) mod removal;

use std::fmt;

use jsonc_parser::ast::Value as Node;
use jsonc_parser::common::Ranged as _;
use jsonc_parser::tokens::TokenAndRange;
use jsonc_parser::{CollectOptions, CommentCollectionStrategy, CommentMap, ParseOptions, parse_to_ast};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Trouble;

/// Text to insert at a position.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Splice {
    pub at: usize,
    pub text: String,
}

impl Splice {
    pub(crate) fn apply(&self, text: &str) -> String {
        format!("{}{}{}", &text[..self.at], self.text, &text[self.at..])
    }

    /// Returns the text without the insertion, if it is there.
    pub(crate) fn undo(&self, text: &str) -> Option<String> {
        let (before, rest) = text.split_at_checked(self.at)?;
        Some(format!("{before}{}", rest.strip_prefix(self.text.as_str())?))
    }
}

/// Parses a whole text.
pub(crate) fn value(text: &str) -> Result<Value, Trouble> {
    Ok(Document::parse(text)?.root.into())
}

/// Returns whether a text is JSON without comments and superfluous commas.
pub(crate) fn is_strict(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text.trim_start_matches('\u{feff}')).is_ok()
}

/// Returns how many keys of a path exist.
pub(crate) fn existing(text: &str, path: &[&str]) -> usize {
    Document::parse(text).ok().and_then(|document| Some(document.reach(path).ok()?.0)).unwrap_or(0)
}

/// Makes `path` have this value; `None` if it already has.
pub(crate) fn member(text: &str, path: &[&str], wanted: &Value) -> Result<Option<Splice>, Trouble> {
    let document = Document::parse(text)?;
    let (depth, found) = document.reach(path)?;
    if depth < path.len() {
        return Ok(Some(document.insert(path, depth, found, wanted.clone())));
    }
    match Value::from(found.clone()) == *wanted {
        true => Ok(None),
        false => Err(Trouble::new(format!("`{}` is there already, and says something else", path.join(".")))),
    }
}

/// Makes the list at `path` contain provost's element.
pub(crate) fn element(
    text: &str,
    path: &[&str],
    wanted: &Value,
    is_ours: impl Fn(&Value) -> bool,
) -> Result<Option<Splice>, Trouble> {
    let document = Document::parse(text)?;
    let (depth, found) = document.reach(path)?;
    if depth < path.len() {
        return Ok(Some(document.insert(path, depth, found, Value::Array(vec![wanted.clone()]))));
    }
    let Value::Array(list) = Value::from(found.clone()) else {
        return Err(Trouble::new(format!("`{}` is there already, and is no list", path.join("."))));
    };
    match list.iter().find(|element| is_ours(element)) {
        Some(ours) if ours == wanted => Ok(None),
        Some(_) => {
            Err(Trouble::new(format!("`{}` has an entry for another provost: take it out", path.join("."))))
        }
        None => {
            let entry = Entry { key: None, value: wanted };
            Ok(Some(document.splice(found.start(), path.len(), &entry, list.is_empty())))
        }
    }
}

/// A parsed text. Positions are those of the text without a byte order mark.
struct Document<'t> {
    text: &'t str,
    /// Length of the byte order mark.
    mark: usize,
    root: Node<'t>,
    comments: CommentMap<'t>,
    tokens: Vec<TokenAndRange<'t>>,
}

impl<'t> Document<'t> {
    fn parse(text: &'t str) -> Result<Self, Trouble> {
        // Clients accept comments and trailing commas, but no other extension of JSON.
        let options = ParseOptions {
            allow_comments: true,
            allow_trailing_commas: true,
            allow_loose_object_property_names: false,
            allow_missing_commas: false,
            allow_single_quoted_strings: false,
            allow_hexadecimal_numbers: false,
            allow_unary_plus_numbers: false,
            allow_bare_decimal_point_numbers: false,
            allow_non_finite_numbers: false,
            allow_extended_string_escapes: false,
        };
        let collect = CollectOptions { comments: CommentCollectionStrategy::Separate, tokens: true };
        let bare = text.strip_prefix('\u{feff}').unwrap_or(text);
        let parsed = parse_to_ast(bare, &collect, &options)
            .map_err(|error| Trouble::new(format!("it is not JSON: {error}")))?;
        let root = parsed.value.ok_or_else(|| Trouble::new("it is not JSON: there is no value in it"))?;
        let comments = parsed.comments.unwrap_or_default();
        let tokens = parsed.tokens.unwrap_or_default();
        Ok(Self { text: bare, mark: text.len() - bare.len(), root, comments, tokens })
    }

    /// Returns how many keys of `path` exist, and the value of the last one.
    fn reach(&self, path: &[&str]) -> Result<(usize, &Node<'t>), Trouble> {
        let mut at = &self.root;
        for (depth, key) in path.iter().enumerate() {
            let Some(object) = at.as_object() else {
                let name = if depth == 0 {
                    "the whole".to_owned()
                } else {
                    format!("`{}`", path[..depth].join("."))
                };
                return Err(Trouble::new(format!("{name} is no object")));
            };
            // The last duplicate counts, as for JSON readers.
            match object.properties.iter().rev().find(|member| member.name.as_str() == *key) {
                Some(member) => at = &member.value,
                None => return Ok((depth, at)),
            }
        }
        Ok((path.len(), at))
    }

    /// Inserts the first missing key into `object`, the last existing one.
    fn insert(&self, path: &[&str], depth: usize, object: &Node<'_>, wanted: Value) -> Splice {
        let nested = path[depth + 1..]
            .iter()
            .rev()
            .fold(wanted, |inner, key| Value::Object(std::iter::once(((*key).to_owned(), inner)).collect()));
        let is_empty = object.as_object().is_none_or(|object| object.properties.is_empty());
        let entry = Entry { key: Some(path[depth]), value: &nested };
        self.splice(object.start(), depth, &entry, is_empty)
    }

    /// Inserts an entry after the bracket at `open`, and after the comments on its line.
    fn splice(&self, open: usize, depth: usize, entry: &Entry, is_empty: bool) -> Splice {
        let is_on_line = |end: &usize| !self.text[open..*end].contains('\n');
        let comments = self.comments.get(&(open + 1)).into_iter().flat_map(|found| found.iter());
        let at = comments.map(|comment| comment.end()).take_while(is_on_line).last().unwrap_or(open + 1);
        let ends_line = self.text[at..].trim_start_matches([' ', '\t', '\r']).starts_with('\n');
        let placed = |text: String| Splice { at: self.mark + at, text };
        if !is_empty && !ends_line {
            return placed(format!("{entry}, "));
        }
        let unit = self.indent();
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
        placed(if self.text.contains("\r\n") { added.replace('\n', "\r\n") } else { added })
    }

    /// Returns the indentation of the first key, or two blanks.
    fn indent(&self) -> &str {
        let first = self.root.as_object().and_then(|object| object.properties.first());
        let line = first.and_then(|first| self.text[..first.start()].rsplit_once('\n'));
        line.map(|(_, line)| line)
            .filter(|line| !line.is_empty() && line.trim_matches([' ', '\t']).is_empty())
            .unwrap_or("  ")
    }
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
        expected.assert_eq(&changed.replace("\r\n", "\n").replace('\u{feff}', ""));
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
    fn comments_on_the_line_of_a_bracket_stay_there() {
        check(
            "\u{feff}{ /* one */ // two\r\n  \"hooks\": { /* three\r\n */ \"x\": [] }\r\n}\r\n",
            expect![[r#"
                { /* one */ // two
                  "mcpServers": {
                    "provost": {
                      "command": "/p",
                      "args": [
                        "mcp"
                      ]
                    }
                  },
                  "hooks": {"Stop": [{"hooks":[{"command":"/p hook x"}]}],  /* three
                 */ "x": [] }
                }
            "#]],
        );
    }

    #[test]
    fn what_is_somebody_elses_is_left_alone() {
        let there = member("{\"mcpServers\": {\"provost\": 1}}", &["mcpServers", "provost"], &json!(2));
        assert!(there.is_err_and(|trouble| trouble.to_string().contains("says something else")));
        for wrong in ["{\"a\": [}", "{a: 1}", "{'a': 1}", "{\"a\": 0x1}", "{\"a\": 1 \"c\": 2}", "", "// {}"]
        {
            assert!(member(wrong, &["b"], &json!(1)).is_err(), "{wrong}");
        }
        assert!(member("[]", &["b"], &json!(1)).is_err());
        assert!(member("{\"b\": 3}", &["b", "c"], &json!(1)).is_err());
        assert!(element("{\"b\": 3}", &["b"], &json!(1), |_| false).is_err());
    }
}
