//! Finds the files and functions that the task of a step names.

use crate::language::shell;

/// The names in a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskNames {
    /// Words that look like paths.
    pub paths: Vec<String>,
    /// Names in backticks that are no paths, such as `total` or `Cart.total()`; their last part.
    pub functions: Vec<String>,
}

/// Returns the names in a text, each once, in their order.
pub fn of_text(text: &str) -> TaskNames {
    let mut names = TaskNames::default();
    for (at, part) in text.split('`').enumerate() {
        let is_quoted = at % 2 == 1;
        for word in part.split_whitespace() {
            let word =
                word.trim_matches(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | '/' | '.' | '('));
            let word = word.trim_end_matches(['.', ',', ')', '(']);
            let function = word.rsplit(['.', ':']).next().unwrap_or(word);
            let is_name = is_identifier(function)
                && word.split(['.', ':']).all(|part| part.is_empty() || is_identifier(part));
            // `Cart.total` is no file, `cart.py` is one.
            let is_call = is_quoted && is_name && part.trim_end().ends_with(')');
            match shell::relative_path(word) {
                Some(path) if !is_call => add(&mut names.paths, path),
                _ if is_quoted && is_name && !function.is_empty() => add(&mut names.functions, function),
                _ => {}
            }
        }
    }
    names
}

fn is_identifier(word: &str) -> bool {
    !word.starts_with(|c: char| c.is_ascii_digit()) && word.chars().all(|c| c.is_alphanumeric() || c == '_')
}

fn add(kept: &mut Vec<String>, name: &str) {
    if !kept.iter().any(|known| known == name) {
        kept.push(name.to_owned());
    }
}

impl TaskNames {
    /// Returns whether a path of the repository is one of the named ones, or ends with one.
    pub fn has_path(&self, path: &str) -> bool {
        let is_end = |named: &str| {
            path.strip_suffix(named).is_some_and(|before| before.is_empty() || before.ends_with('/'))
        };
        self.paths.iter().any(|named| is_end(named) || path.starts_with(&format!("{named}/")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_names_files_and_functions() {
        let names = of_text(
            "Let `total` in price.py (see `src/cart.py`) give a discount, and `Cart.sum()` too.\n\
             Do not touch README.md, e.g. its head. Use `pip install x`.",
        );
        assert_eq!(names.paths, ["price.py", "src/cart.py", "README.md", "e.g"]);
        assert_eq!(names.functions, ["total", "sum", "pip", "install", "x"]);
        assert!(names.has_path("src/price.py") && names.has_path("src/cart.py"));
        assert!(!names.has_path("src/myprice.py") && !names.has_path("cart.py"));
        assert!(TaskNames { paths: vec!["src".into()], ..TaskNames::default() }.has_path("src/a.py"));
        assert_eq!(of_text("Improve it."), TaskNames::default());
    }
}
