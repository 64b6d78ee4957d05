//! Removes members of objects and elements of lists from JSON with comments, and leaves every other byte.

use jsonc_parser::ast::Value as Node;
use jsonc_parser::common::Ranged as _;
use jsonc_parser::tokens::Token;
use serde_json::Value;

use super::Document;

/// The byte order mark.
const MARK: &str = "\u{feff}";
/// Most elements that are removed from one list.
const MOST: usize = 32;

/// Removes the member at `path`, and the objects around it that are then empty and were not among the first
/// `existing` keys. `None` if the text cannot be read.
pub(crate) fn member(text: &str, path: &[&str], existing: usize) -> Option<String> {
    let expected = expected(text, path, |parent, key| {
        parent.as_object_mut().map(|members| members.shift_remove(key));
    })?;
    let document = Document::parse(text).ok()?;
    let (chain, _) = document.chain(path);
    let left = match chain.len() == path.len() {
        true => document.cut(&chain, existing),
        false => document.emptied(path, existing).unwrap_or_else(|| text.to_owned()),
    };
    checked(text, left, expected)
}

/// Removes provost's elements from the list at `path`. If an element holds a list in which the user has
/// entries too, this function removes only provost's entries from that list.
pub(crate) fn elements(
    text: &str,
    path: &[&str],
    existing: usize,
    is_ours: impl Fn(&Value) -> bool,
) -> Option<String> {
    let expected = expected(text, path, |parent, key| {
        if let Some(Value::Array(list)) = parent.get_mut(key) {
            for element in list.iter_mut() {
                if let Some(part) = shared(element, &is_ours)
                    && let Some(inner) = element[part.as_str()].as_array_mut()
                {
                    inner.retain(|each| !is_ours(each));
                }
            }
            list.retain(|element| !is_ours(element));
        }
    })?;
    let mut left = text.to_owned();
    for _ in 0..MOST {
        match without_first(&left, path, existing, &is_ours)? {
            Some(next) => left = next,
            None => {
                let emptied = Document::parse(&left).ok()?.emptied(path, existing);
                return checked(text, emptied.unwrap_or(left), expected);
            }
        }
    }
    None
}

/// Removes the first element that is provost's; `Some(None)` if there is none.
fn without_first(
    text: &str,
    path: &[&str],
    existing: usize,
    is_ours: &impl Fn(&Value) -> bool,
) -> Option<Option<String>> {
    let document = Document::parse(text).ok()?;
    let (mut chain, node) = document.chain(path);
    let own = |list: &Node<'_>| {
        let elements = &list.as_array()?.elements;
        elements.iter().position(|element| is_ours(&Value::from(element.clone())))
    };
    let Some(index) = own(node).filter(|_| chain.len() == path.len()) else { return Some(None) };
    let element = &node.as_array()?.elements[index];
    let Some(part) = shared(&Value::from(element.clone()), is_ours) else {
        chain.push((node, index));
        return Some(Some(document.cut(&chain, existing)));
    };
    let (mut inner, list) = Document::below(element, &[part.as_str()]);
    inner.push((list, own(list)?));
    Some(Some(document.cut(&inner, usize::MAX)))
}

/// Returns the key of a list in an element that has something of provost and something else.
fn shared(element: &Value, is_ours: &impl Fn(&Value) -> bool) -> Option<String> {
    let members = element.as_object()?;
    members.iter().find_map(|(key, value)| {
        let list = value.as_array()?;
        let own = list.iter().filter(|each| is_ours(each)).count();
        (own > 0 && own < list.len()).then(|| key.clone())
    })
}

/// Returns the value that must be left.
fn expected(text: &str, path: &[&str], change: impl Fn(&mut Value, &str)) -> Option<Value> {
    let mut whole = super::value(text).ok()?;
    let (last, parents) = path.split_last()?;
    let mut at = Some(&mut whole);
    for key in parents {
        at = at.and_then(|value| value.get_mut(*key));
    }
    if let Some(parent) = at {
        change(parent, last);
    }
    Some(whole)
}

/// Returns the text if it means what was expected, and is as strict as it was.
fn checked(before: &str, left: String, mut expected: Value) -> Option<String> {
    let mut found = super::value(&left).ok()?;
    prune(&mut found);
    prune(&mut expected);
    let is_sound = found == expected && (super::is_strict(&left) || !super::is_strict(before));
    is_sound.then_some(left)
}

/// Removes objects and lists without content, so that two texts can be compared.
fn prune(value: &mut Value) {
    let is_empty = |value: &Value| {
        value.as_object().is_some_and(|members| members.is_empty())
            || value.as_array().is_some_and(Vec::is_empty)
    };
    match value {
        Value::Object(members) => {
            members.values_mut().for_each(prune);
            members.retain(|_, value| !is_empty(value));
        }
        Value::Array(list) => {
            list.iter_mut().for_each(prune);
            list.retain(|value| !is_empty(value));
        }
        _ => {}
    }
}

/// Containers from the outermost, each with the number of the child that leads on.
type Chain<'d, 't> = Vec<(&'d Node<'t>, usize)>;

impl<'t> Document<'t> {
    /// Returns the way along `path`, as far as it exists, and the value at its end.
    fn chain<'d>(&'d self, path: &[&str]) -> (Chain<'d, 't>, &'d Node<'t>) {
        Self::below(&self.root, path)
    }

    fn below<'d>(from: &'d Node<'t>, path: &[&str]) -> (Chain<'d, 't>, &'d Node<'t>) {
        let (mut at, mut chain) = (from, Vec::new());
        for key in path {
            let Some(object) = at.as_object() else { break };
            // The last duplicate counts, as for JSON readers.
            let found = object.properties.iter().rposition(|member| member.name.as_str() == *key);
            let Some(index) = found else { break };
            chain.push((at, index));
            at = &object.properties[index].value;
        }
        (chain, at)
    }

    /// Removes what `path` leads to if it is empty and its key is not among the first `existing`.
    fn emptied(&self, path: &[&str], existing: usize) -> Option<String> {
        let (chain, node) = self.chain(path);
        let is_container = node.as_object().is_some() || node.as_array().is_some();
        let is_empty = is_container && children(node).is_empty();
        (is_empty && chain.len() > existing).then(|| self.cut(&chain, existing))
    }

    /// Removes the last child of the chain, and with it the containers that it leaves empty.
    fn cut(&self, chain: &Chain<'_, 't>, existing: usize) -> String {
        let mut depth = chain.len() - 1;
        while depth > existing && children(chain[depth].0).len() == 1 {
            depth -= 1;
        }
        let (container, index) = chain[depth];
        self.without(container, index)
    }

    fn without(&self, container: &Node<'t>, index: usize) -> String {
        let children = children(container);
        let (start, end) = children[index];
        let (open, close) = (container.start() + 1, container.end() - 1);
        let next = children.get(index + 1).map_or(close, |(start, _)| *start);
        let after = self.comma(end, next);
        let before = index.checked_sub(1).and_then(|previous| self.comma(children[previous].1, start));
        let mut cuts = vec![self.reach_of(start, end, after, index + 1 == children.len())];
        match (after, before) {
            (Some(comma), _) if comma >= cuts[0].1 => cuts.push((comma, comma + 1)),
            (None, Some(comma)) => cuts.push((comma, comma + 1)),
            _ => {}
        }
        cuts.sort_unstable();
        let mut left = String::with_capacity(self.text.len());
        let mut at = 0;
        for (start, end) in cuts {
            left.push_str(&self.text[at..start]);
            at = end;
        }
        left.push_str(&self.text[at..]);
        let removed = self.text.len() - left.len();
        let inner = open..close - removed;
        if children.len() == 1 && left[inner.clone()].trim().is_empty() {
            left.replace_range(inner, "");
        }
        format!("{}{left}", &MARK[..self.mark])
    }

    /// Returns what to cut for a child: its line with the line end before it, or only itself with a blank.
    fn reach_of(&self, start: usize, end: usize, comma: Option<usize>, is_last: bool) -> (usize, usize) {
        let blanks = [' ', '\t'];
        let is_tight = |comma: &usize| self.text[end..*comma].trim().is_empty();
        let to = comma.filter(is_tight).map_or(end, |comma| comma + 1);
        let line = self.text[..start].trim_end_matches(blanks);
        let rest = self.text[to..].trim_start_matches(blanks);
        let ends_line = rest.starts_with(['\n', '\r']) || rest.starts_with("//");
        if line.ends_with('\n') && ends_line {
            let from = line.strip_suffix("\r\n").or(line.strip_suffix('\n')).unwrap_or(line);
            return (from.len(), to);
        }
        match is_last {
            true => (line.len(), to),
            false => (start, self.text.len() - rest.len()),
        }
    }

    /// Returns the position of the comma between two positions.
    fn comma(&self, from: usize, to: usize) -> Option<usize> {
        let is_between = |at: usize| (from..to).contains(&at);
        let found = self.tokens.iter().find(|token| token.token == Token::Comma && is_between(token.start()));
        found.map(|token| token.start())
    }
}

/// Returns where each member or element is.
fn children(container: &Node<'_>) -> Vec<(usize, usize)> {
    match container {
        Node::Object(object) => object.properties.iter().map(|each| (each.start(), each.end())).collect(),
        Node::Array(array) => array.elements.iter().map(|each| (each.start(), each.end())).collect(),
        _ => Vec::new(),
    }
}
