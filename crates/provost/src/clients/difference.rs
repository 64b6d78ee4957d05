//! Compares two texts as a unified diff.

use std::time::Duration;

use similar::TextDiff;

/// Time limit for comparing two texts; after it the diff is longer than necessary.
const TIME_LIMIT: Duration = Duration::from_millis(300);

/// Returns the diff; a text that is `None` does not exist on that side.
pub(crate) fn unified(path: &str, before: Option<&str>, after: Option<&str>) -> String {
    let name = |text: Option<&str>| if text.is_some() { path } else { "/dev/null" };
    let (old, new) = (before.unwrap_or_default(), after.unwrap_or_default());
    let diff = TextDiff::configure().timeout(TIME_LIMIT).diff_lines(old, new);
    diff.unified_diff().header(name(before), name(after)).to_string()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn hunks_have_their_surroundings() {
        let old = "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl\n";
        let new = old.replace("b\n", "b\nB\n").replace("k\n", "K\n");
        expect![[r#"
            --- x
            +++ x
            @@ -1,5 +1,6 @@
             a
             b
            +B
             c
             d
             e
            @@ -8,5 +9,5 @@
             h
             i
             j
            -k
            +K
             l
        "#]]
        .assert_eq(&unified("x", Some(old), Some(&new)));
        expect![[r#"
            --- /dev/null
            +++ x
            @@ -0,0 +1 @@
            +a
        "#]]
        .assert_eq(&unified("x", None, Some("a\n")));
    }
}
