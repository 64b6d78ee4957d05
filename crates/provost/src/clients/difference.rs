//! Compares two texts as a unified diff.

const CONTEXT: usize = 3;
/// Size limit of the comparison table; larger texts are shown as removed and added as a whole.
const TABLE_MAX: usize = 4_000_000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Line<'a> {
    Same(&'a str),
    Gone(&'a str),
    New(&'a str),
}

pub fn unified(path: &str, before: Option<&str>, after: Option<&str>) -> String {
    let (old, new) = (before.unwrap_or_default(), after.unwrap_or_default());
    let name = |text: Option<&str>| if text.is_some() { path } else { "/dev/null" };
    let mut out = format!("--- {}\n+++ {}\n", name(before), name(after));
    let lines = compared(&old.lines().collect::<Vec<_>>(), &new.lines().collect::<Vec<_>>());
    let is_near = |at: usize| {
        let (from, to) = (at.saturating_sub(CONTEXT), (at + CONTEXT + 1).min(lines.len()));
        lines[from..to].iter().any(|line| !matches!(line, Line::Same(_)))
    };
    let (mut old_line, mut new_line, mut at) = (1, 1, 0);
    while at < lines.len() {
        if !is_near(at) {
            (old_line, new_line, at) = (old_line + 1, new_line + 1, at + 1);
            continue;
        }
        let end = (at..lines.len()).find(|at| !is_near(*at)).unwrap_or(lines.len());
        let hunk = &lines[at..end];
        let olds = hunk.iter().filter(|line| !matches!(line, Line::New(_))).count();
        let news = hunk.iter().filter(|line| !matches!(line, Line::Gone(_))).count();
        // An empty side starts before its first line.
        let (from, to) = (old_line - usize::from(olds == 0), new_line - usize::from(news == 0));
        out.push_str(&format!("@@ -{from},{olds} +{to},{news} @@\n"));
        for line in hunk {
            let (sign, text) = match line {
                Line::Same(text) => (' ', text),
                Line::Gone(text) => ('-', text),
                Line::New(text) => ('+', text),
            };
            out.push_str(&format!("{sign}{text}\n"));
        }
        (old_line, new_line, at) = (old_line + olds, new_line + news, end);
    }
    out
}

fn compared<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Line<'a>> {
    let same = |(a, b): &(&&str, &&str)| a == b;
    let head = old.iter().zip(new).take_while(same).count();
    let (old_rest, new_rest) = (&old[head..], &new[head..]);
    let tail = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(same).count();
    let (old_middle, new_middle) = (&old_rest[..old_rest.len() - tail], &new_rest[..new_rest.len() - tail]);
    let mut lines: Vec<Line<'a>> = old[..head].iter().map(|line| Line::Same(line)).collect();
    lines.extend(middle(old_middle, new_middle));
    lines.extend(old[old.len() - tail..].iter().map(|line| Line::Same(line)));
    lines
}

/// Compares by the longest common subsequence.
fn middle<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Line<'a>> {
    if old.len().saturating_mul(new.len()) > TABLE_MAX {
        let gone = old.iter().map(|line| Line::Gone(line));
        return gone.chain(new.iter().map(|line| Line::New(line))).collect();
    }
    let width = new.len() + 1;
    let mut longest = vec![0_u32; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            longest[i * width + j] = match old[i] == new[j] {
                true => longest[(i + 1) * width + j + 1] + 1,
                false => longest[(i + 1) * width + j].max(longest[i * width + j + 1]),
            };
        }
    }
    let (mut i, mut j, mut lines) = (0, 0, Vec::new());
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            lines.push(Line::Same(old[i]));
            (i, j) = (i + 1, j + 1);
        } else if i < old.len()
            && (j == new.len() || longest[(i + 1) * width + j] >= longest[i * width + j + 1])
        {
            lines.push(Line::Gone(old[i]));
            i += 1;
        } else {
            lines.push(Line::New(new[j]));
            j += 1;
        }
    }
    lines
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
            @@ -0,0 +1,1 @@
            +a
        "#]]
        .assert_eq(&unified("x", None, Some("a\n")));
    }
}
