//! Turns HTML into text for a model: headings, paragraphs, lists, links, code; no scripts and styles.
//!
//! It follows the tags in their order and builds no tree, so that no page can make it fail.

/// Elements whose content is not shown.
const HIDDEN: [&str; 7] = ["script", "style", "head", "noscript", "template", "svg", "iframe"];
/// Elements that begin a new paragraph.
const BLOCKS: [&str; 24] = [
    "address",
    "article",
    "aside",
    "blockquote",
    "div",
    "dl",
    "fieldset",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "main",
    "nav",
    "ol",
    "p",
    "section",
    "table",
    "ul",
];

/// Returns the text of a page.
pub(super) fn of_html(html: &str) -> String {
    let mut page = PageText::default();
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        page.say(&rest[..at]);
        rest = &rest[at..];
        if let Some(comment) = rest.strip_prefix("<!--") {
            rest = comment.split_once("-->").map_or("", |(_, after)| after);
            continue;
        }
        let is_tag = rest[1..].starts_with(|next: char| next.is_ascii_alphabetic() || "/!?".contains(next));
        if !is_tag {
            page.say("<");
            rest = &rest[1..];
            continue;
        }
        let Some(end) = rest.find('>') else { break };
        let tag = &rest[1..end];
        rest = &rest[end + 1..];
        let name = name(tag);
        if HIDDEN.contains(&name.as_str()) && !tag.ends_with('/') {
            rest = after_element(rest, &name);
            continue;
        }
        page.tag(tag, &name);
    }
    page.say(rest);
    page.out.trim().to_owned()
}

fn name(tag: &str) -> String {
    let name = tag.split(|other: char| !other.is_ascii_alphanumeric()).next().unwrap_or_default();
    name.to_ascii_lowercase()
}

/// Returns the text after the end of an element.
fn after_element<'t>(text: &'t str, name: &str) -> &'t str {
    let end = format!("</{name}");
    let found = text
        .char_indices()
        .filter(|(_, first)| *first == '<')
        .find(|(at, _)| text.get(*at..at + end.len()).is_some_and(|found| found.eq_ignore_ascii_case(&end)));
    match found {
        Some((at, _)) => text[at..].split_once('>').map_or("", |(_, after)| after),
        None => "",
    }
}

#[derive(Default)]
struct PageText {
    out: String,
    /// Depth of `<pre>`, in which white space counts.
    verbatim: usize,
    /// Targets of the links that are open.
    links: Vec<Option<String>>,
}

impl PageText {
    fn say(&mut self, text: &str) {
        let text = decoded(text);
        if self.verbatim > 0 {
            self.out.push_str(&text);
            return;
        }
        for (at, word) in text.split_whitespace().enumerate() {
            let has_space = at > 0 || text.starts_with(char::is_whitespace);
            if has_space && !self.out.is_empty() && !self.out.ends_with(char::is_whitespace) {
                self.out.push(' ');
            }
            self.out.push_str(word);
        }
        if text.ends_with(char::is_whitespace) && !self.out.ends_with(char::is_whitespace) {
            self.out.push(' ');
        }
    }

    fn tag(&mut self, tag: &str, name: &str) {
        let closed = tag.strip_prefix('/').map(self::name);
        match closed.as_deref().unwrap_or(name) {
            "br" => self.out.push('\n'),
            "hr" => self.begin_lines(2),
            "pre" => {
                self.begin_lines(2);
                self.verbatim =
                    if closed.is_some() { self.verbatim.saturating_sub(1) } else { self.verbatim + 1 };
            }
            "li" if closed.is_none() => {
                self.begin_lines(1);
                self.out.push_str("- ");
            }
            "tr" | "dt" | "dd" | "option" => self.begin_lines(1),
            "td" | "th" if closed.is_none() && !self.out.ends_with('\n') => self.out.push_str(" | "),
            "a" => match closed {
                None => self.links.push(attribute(tag, "href")),
                Some(_) => self.end_link(),
            },
            block if BLOCKS.contains(&block) => {
                self.begin_lines(2);
                let level = block.strip_prefix('h').and_then(|level| level.parse::<usize>().ok());
                if let (Some(level), None) = (level, &closed) {
                    self.out.push_str(&"#".repeat(level));
                    self.out.push(' ');
                }
            }
            _ => {}
        }
    }

    fn end_link(&mut self) {
        let target = self.links.pop().flatten();
        if let Some(target) = target.filter(|target| target.starts_with("http")) {
            self.out.push_str(&format!(" ({target})"));
        }
    }

    /// Ends the line, so that at least this many line ends are before what follows.
    fn begin_lines(&mut self, count: usize) {
        let end = self.out.trim_end_matches([' ', '\t']).len();
        self.out.truncate(end);
        let ends = self.out.bytes().rev().take_while(|byte| *byte == b'\n').count();
        if !self.out.is_empty() {
            self.out.push_str(&"\n".repeat(count.saturating_sub(ends)));
        }
    }
}

fn attribute(tag: &str, name: &str) -> Option<String> {
    let at = tag.to_ascii_lowercase().find(&format!("{name}="))? + name.len() + 1;
    let value = tag.get(at..)?;
    let quoted = ['"', '\''].iter().find_map(|mark| value.strip_prefix(*mark)?.split(*mark).next());
    let value = quoted.or_else(|| value.split_whitespace().next())?;
    Some(decoded(value))
}

/// Replaces character references.
fn decoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let found = rest[1..].split_once(';').filter(|(name, _)| name.len() <= 8);
        match found.and_then(|(name, after)| Some((reference(name)?, after))) {
            Some((character, after)) => {
                out.push(character);
                rest = after;
            }
            None => {
                out.push('&');
                rest = &rest[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

fn reference(name: &str) -> Option<char> {
    if let Some(number) = name.strip_prefix('#') {
        let number = match number.strip_prefix(['x', 'X']) {
            Some(hex) => u32::from_str_radix(hex, 16).ok()?,
            None => number.parse().ok()?,
        };
        return char::from_u32(number);
    }
    Some(match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" => ' ',
        "ndash" => '–',
        "mdash" => '—',
        "hellip" => '…',
        "copy" => '©',
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::of_html;

    #[test]
    fn a_page_keeps_its_shape_without_its_tags() {
        let html = r#"<!doctype html><HTML><head><title>no</title></head><body>
            <!-- no <p> --><nav><a href="/x">Home</a></nav>
            <h2 class=x>Two  words</h2><p>See <a href="https://e.org/?a=1&amp;b=2">the
            page</a>, 1 &lt; 2 &#8364; &unknown; a<b.</p>
            <ul><li>one</li><li>two <b>bold</b></li></ul>
            <pre>fn a() {
    1
}</pre><SCRIPT>if (a < b) { "</p>" }</SCRIPT><table><tr><th>k</th><th>v</th></tr><tr><td>1</td><td>2</td></tr></table>
            end<br>of it"#;
        expect![[r#"
            Home

            ## Two words

            See the page (https://e.org/?a=1&b=2), 1 < 2 € &unknown; a

            - one
            - two bold

            fn a() {
                1
            }

            k | v
            1 | 2

            end
            of it"#]]
        .assert_eq(&of_html(html));
    }

    #[test]
    fn no_page_makes_it_fail() {
        for html in
            ["<", "<a", "<script>x", "<!--", "</p></a></pre>", "<p", "a < b", "&#xffffffff;&#;&;", "<ä>"]
        {
            of_html(html);
        }
        assert_eq!(of_html("a < b & c"), "a < b & c");
    }
}
