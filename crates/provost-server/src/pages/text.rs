//! Escapes foreign text: nothing in it is markup, moves the cursor or changes the writing direction.
//!
//! Terminal colours are removed, because they mean nothing here. All other invisible characters are shown as
//! a symbol, so that a person reads what is there.

use std::borrow::Cow;
use std::fmt::Write as _;

use maud::{Escaper, Render};

/// Any text of a plan, an agent, a check or a person.
pub(super) struct T<'a>(pub &'a str);

impl Render for T<'_> {
    fn render_to(&self, buffer: &mut String) {
        // Fast path for plain ASCII text.
        let plain = self.0.bytes().all(|byte| matches!(byte, b'\n' | b'\t' | b' '..=b'~'));
        let text = if plain { Cow::Borrowed(self.0) } else { Cow::Owned(visible(self.0)) };
        let _ = Escaper::new(buffer).write_str(&text);
    }
}

/// The same, with text between back-quotes as code.
pub(super) struct Ticks<'a>(pub &'a str);

impl Render for Ticks<'_> {
    fn render_to(&self, buffer: &mut String) {
        let parts: Vec<&str> = self.0.split('`').collect();
        // A last back-quote without a partner is an ordinary character.
        let pairs = (parts.len() - 1) / 2;
        for (at, part) in parts.iter().enumerate() {
            let is_code = at % 2 == 1 && at / 2 < pairs;
            buffer.push_str(if is_code {
                "<code>"
            } else if at % 2 == 1 {
                "`"
            } else {
                ""
            });
            T(part).render_to(buffer);
            buffer.push_str(if is_code { "</code>" } else { "" });
        }
    }
}

/// Returns the text with invisible characters replaced by symbols.
pub(super) fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(sign) = rest.next() {
        match sign {
            '\n' | '\t' => out.push(sign),
            '\r' if rest.peek() == Some(&'\n') => {}
            '\u{1b}' if rest.peek() == Some(&'[') => {
                // A colour sequence ends in `m`; other terminal sequences are shown.
                let colour: String =
                    rest.clone().skip(1).take_while(|c| c.is_ascii_digit() || *c == ';').collect();
                let length = 1 + colour.len();
                if rest.clone().nth(length) == Some('m') {
                    rest.by_ref().take(length + 1).for_each(drop);
                } else {
                    out.push('␛');
                }
            }
            // The symbols for control characters are in the same order.
            '\0'..='\u{1f}' => out.push(char::from_u32(0x2400 + u32::from(sign)).unwrap_or('�')),
            '\u{7f}' => out.push('␡'),
            '\u{80}'..='\u{9f}' => named(&mut out, sign),
            sign if is_unseen(sign) => named(&mut out, sign),
            sign => out.push(sign),
        }
    }
    out
}

fn named(out: &mut String, sign: char) {
    let _ = write!(out, "<U+{:04X}>", u32::from(sign));
}

/// Returns whether the character changes the writing direction or has no width.
fn is_unseen(sign: char) -> bool {
    matches!(sign,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use maud::html;

    use super::{T, Ticks, visible};

    #[test]
    fn text_between_back_quotes_is_code() {
        let shown = |text| html! { (Ticks(text)) }.into_string();
        assert_eq!(shown("run `a <b>` now"), "run <code>a &lt;b&gt;</code> now");
        assert_eq!(shown("`a` and `b"), "<code>a</code> and `b");
        assert_eq!(shown("none"), "none");
    }

    #[test]
    fn nothing_in_a_text_is_obeyed() {
        assert_eq!(visible("a\u{1b}[31mred\u{1b}[0m\n"), "ared\n");
        assert_eq!(visible("\u{1b}[2J\u{1b}]0;title\u{7}"), "␛[2J␛]0;title␇");
        assert_eq!(visible("x\u{202e}y\u{200b}z"), "x<U+202E>y<U+200B>z");
        assert_eq!(visible("one\r\ntwo\rthree\0"), "one\ntwo␍three␀");
        assert_eq!(visible("\u{1b}["), "␛[");
        let shown = html! { p title=(T("\"><script>")) { (T("<script>alert(1)</script>&")) } }.into_string();
        assert_eq!(
            shown,
            "<p title=\"&quot;&gt;&lt;script&gt;\">&lt;script&gt;alert(1)&lt;/script&gt;&amp;</p>"
        );
    }
}
