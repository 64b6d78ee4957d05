//! Renders output of programs with its terminal colours, which become classes of the stylesheet. Every other
//! terminal sequence is shown, not obeyed.

use maud::Render;

use super::text::T;

/// Output of an agent or a check.
pub(super) struct Ansi<'a>(pub &'a str);

/// The colours that are set at a place of the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Pen {
    /// One of the eight colours of a terminal.
    colour: Option<u32>,
    is_bold: bool,
}

impl Pen {
    /// Applies the numbers of one sequence. Colours beyond the sixteen of a terminal are left out.
    fn set(&mut self, numbers: &str) {
        let mut numbers = numbers.split(';').map(|number| number.parse::<u32>().unwrap_or(0));
        while let Some(number) = numbers.next() {
            match number {
                0 => *self = Self::default(),
                1 => self.is_bold = true,
                22 => self.is_bold = false,
                30..=37 => self.colour = Some(number - 30),
                90..=97 => self.colour = Some(number - 90),
                39 => self.colour = None,
                38 | 48 => {
                    let rest = if numbers.next() == Some(5) { 1 } else { 3 };
                    let last = numbers.by_ref().take(rest).last();
                    if number == 38 {
                        self.colour =
                            last.filter(|colour| rest == 1 && *colour < 16).map(|colour| colour % 8);
                    }
                }
                _ => {}
            }
        }
    }

    fn write(self, text: &str, buffer: &mut String) {
        if text.is_empty() {
            return;
        }
        if self == Self::default() {
            return T(text).render_to(buffer);
        }
        buffer.push_str("<span class=\"");
        if let Some(colour) = self.colour {
            buffer.push_str(&format!("ansi{colour}"));
        }
        buffer.push_str(if self.is_bold { " ansi-bold\">" } else { "\">" });
        T(text).render_to(buffer);
        buffer.push_str("</span>");
    }
}

/// Returns the numbers of a colour sequence at the beginning of the text, and the rest of the text.
fn sequence(text: &str) -> Option<(&str, &str)> {
    let text = text.strip_prefix("\u{1b}[")?;
    let end = text.find(|sign: char| !sign.is_ascii_digit() && sign != ';')?;
    Some((&text[..end], text[end..].strip_prefix('m')?))
}

impl Render for Ansi<'_> {
    fn render_to(&self, buffer: &mut String) {
        let (mut pen, mut rest, mut from) = (Pen::default(), self.0, 0);
        while let Some(at) = rest[from..].find('\u{1b}').map(|at| at + from) {
            match sequence(&rest[at..]) {
                Some((numbers, after)) => {
                    pen.write(&rest[..at], buffer);
                    pen.set(numbers);
                    (rest, from) = (after, 0);
                }
                None => from = at + 1,
            }
        }
        pen.write(rest, buffer);
    }
}

#[cfg(test)]
mod tests {
    use maud::html;

    use super::Ansi;

    fn shown(text: &str) -> String {
        html! { (Ansi(text)) }.into_string()
    }

    #[test]
    fn colours_become_classes_and_nothing_else_is_obeyed() {
        assert_eq!(shown("a \u{1b}[31mred\u{1b}[0m <b>"), "a <span class=\"ansi1\">red</span> &lt;b&gt;");
        assert_eq!(
            shown("\u{1b}[1;32mok\u{1b}[22m\u{1b}[39m."),
            "<span class=\"ansi2 ansi-bold\">ok</span>."
        );
        assert_eq!(shown("\u{1b}[38;5;9mx\u{1b}[38;2;1;2;3my\u{1b}[mz"), "<span class=\"ansi1\">x</span>yz");
        assert_eq!(shown("\u{1b}[2J\u{1b}]0;t\u{7}\u{202e}\u{1b}["), "␛[2J␛]0;t␇&lt;U+202E&gt;␛[");
    }
}
