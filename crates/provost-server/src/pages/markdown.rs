//! Renders Markdown of plans and agents. Nothing in it is obeyed.
//!
//! **Invariant:** raw HTML is shown as text, and no link or image of a text leads anywhere: its address is
//! written out.

use maud::{Markup, PreEscaped, Render as _};
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use super::highlight::{self, Syntax};
use super::text::T;

/// Renders a text. Headings are paragraphs, because the page has its own outline.
pub(super) fn markdown(text: &str) -> Markup {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut out = String::with_capacity(text.len() * 5 / 4 + 32);
    out.push_str("<div class=\"prose\">");
    // Addresses of the open links.
    let mut links: Vec<String> = Vec::new();
    // The syntax of the open block of code.
    let mut syntax: Option<&Syntax> = None;
    for event in Parser::new_ext(text, options) {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language))) => {
                syntax = Syntax::of(&language);
                out.push_str("<pre><code>");
            }
            Event::Text(text) if syntax.is_some() => {
                syntax.into_iter().for_each(|syntax| out.push_str(&highlight::code(&text, syntax).0));
            }
            Event::End(TagEnd::CodeBlock) => {
                syntax = None;
                out.push_str("</code></pre>");
            }
            Event::Start(tag) => begin(&mut out, &mut links, tag),
            Event::End(end) => close(&mut out, &mut links, end),
            Event::Code(code) | Event::InlineMath(code) | Event::DisplayMath(code) => {
                out.push_str("<code>");
                T(&code).render_to(&mut out);
                out.push_str("</code>");
            }
            Event::Text(text)
            | Event::Html(text)
            | Event::InlineHtml(text)
            | Event::FootnoteReference(text) => T(&text).render_to(&mut out),
            Event::SoftBreak => out.push('\n'),
            Event::HardBreak => out.push_str("<br>"),
            Event::Rule => out.push_str("<hr>"),
            Event::TaskListMarker(done) => out.push_str(if done { "☑ " } else { "☐ " }),
        }
    }
    out.push_str("</div>");
    PreEscaped(out)
}

fn begin(out: &mut String, links: &mut Vec<String>, tag: Tag<'_>) {
    let element = match tag {
        Tag::Paragraph | Tag::HtmlBlock => "<p>",
        Tag::Heading { .. } => "<p class=\"heading\">",
        Tag::BlockQuote(_) => "<blockquote>",
        Tag::CodeBlock(_) => "<pre><code>",
        Tag::List(None) => "<ul>",
        Tag::List(Some(1)) => "<ol>",
        Tag::List(Some(first)) => return out.push_str(&format!("<ol start=\"{first}\">")),
        Tag::Item => "<li>",
        Tag::Table(_) => "<div class=\"scroll\"><table>",
        Tag::TableHead => "<thead><tr>",
        Tag::TableRow => "<tr>",
        Tag::TableCell => "<td>",
        Tag::Emphasis => "<em>",
        Tag::Strong => "<strong>",
        Tag::Strikethrough => "<s>",
        Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
            return links.push(dest_url.into_string());
        }
        _ => "",
    };
    out.push_str(element);
}

fn close(out: &mut String, links: &mut Vec<String>, end: TagEnd) {
    let element = match end {
        TagEnd::Paragraph | TagEnd::HtmlBlock | TagEnd::Heading(_) => "</p>",
        TagEnd::BlockQuote(_) => "</blockquote>",
        TagEnd::CodeBlock => "</code></pre>",
        TagEnd::List(true) => "</ol>",
        TagEnd::List(false) => "</ul>",
        TagEnd::Item => "</li>",
        TagEnd::Table => "</table></div>",
        TagEnd::TableHead => "</tr></thead>",
        TagEnd::TableRow => "</tr>",
        TagEnd::TableCell => "</td>",
        TagEnd::Emphasis => "</em>",
        TagEnd::Strong => "</strong>",
        TagEnd::Strikethrough => "</s>",
        TagEnd::Link | TagEnd::Image => {
            let address = links.pop().unwrap_or_default();
            let mut shown = String::new();
            T(&address).render_to(&mut shown);
            // An address that is its own text is not repeated.
            if !out.ends_with(&shown) {
                out.push_str(" <code>");
                out.push_str(&shown);
                out.push_str("</code>");
            }
            ""
        }
        _ => "",
    };
    out.push_str(element);
}

#[cfg(test)]
mod tests {
    use super::markdown;

    #[test]
    fn markdown_is_laid_out_and_nothing_in_it_is_obeyed() {
        let shown = markdown(
            "Do **this** in `a.rs`:\n\n- one\n- [ ] two\n\n```sh\nrm <x>\n```\n\n<script>alert(1)</script>\n",
        )
        .into_string();
        assert_eq!(
            shown,
            "<div class=\"prose\"><p>Do <strong>this</strong> in <code>a.rs</code>:</p><ul><li>one</li>\
             <li>☐ two</li></ul><pre><code>rm &lt;x&gt;\n</code></pre><p>&lt;script&gt;alert(1)&lt;/script&gt;\n\
             </p></div>"
        );
    }

    #[test]
    fn a_link_leads_nowhere_and_says_where_it_would() {
        let shown =
            markdown("[here](javascript:x) ![p](//e/x.png) <https://a.example> \u{202e}").into_string();
        assert!(!shown.contains("href") && !shown.contains("src="), "{shown}");
        assert!(shown.contains("here <code>javascript:x</code>"), "{shown}");
        assert!(shown.contains("https://a.example &lt;U+202E&gt;"), "{shown}");
    }
}
