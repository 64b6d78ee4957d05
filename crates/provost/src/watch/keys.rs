//! Maps keys and the mouse to intents. A key means the same on every screen.
//!
//! **Invariant:** pasted text is text, and never a decision.

use crossterm::event::{
    Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};

/// Input mode of the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Looking,
    /// The person types a line of text.
    Typing,
    /// The person is asked to confirm.
    Confirming,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Intent {
    /// Move in the list.
    Move(i32),
    First,
    Last,
    /// Scroll the page beside it, by lines.
    Scroll(i32),
    /// Scroll by a number of screens.
    Page(i32),
    Open,
    Back,
    Quit,
    Tab(usize),
    NextTab,
    Help,
    /// A key with a meaning on this screen.
    Press(char),
    Click {
        x: u16,
        y: u16,
    },
    Wheel {
        x: u16,
        y: u16,
        by: i32,
    },
    Type(String),
    Erase,
    EraseAll,
    Submit,
    Cancel,
    Yes,
    Mouse,
    Suspend,
    Redraw,
}

pub(super) fn intent(event: &Event, mode: Mode) -> Option<Intent> {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => pressed(key, mode),
        Event::Mouse(mouse) if mode == Mode::Looking => pointed(mouse),
        Event::Paste(text) if mode == Mode::Typing => {
            Some(Intent::Type(text.split_whitespace().collect::<Vec<_>>().join(" ")))
        }
        Event::Resize(..) => Some(Intent::Redraw),
        _ => None,
    }
}

fn pressed(key: &KeyEvent, mode: Mode) -> Option<Intent> {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('c') if control => return Some(Intent::Quit),
        KeyCode::Char('z') if control => return Some(Intent::Suspend),
        KeyCode::Char('l') if control => return Some(Intent::Redraw),
        _ => {}
    }
    match mode {
        Mode::Looking => looking(key.code, control),
        Mode::Typing => typing(key.code, control),
        // Only an explicit yes is a yes.
        Mode::Confirming => Some(match key.code {
            KeyCode::Char('y' | 'Y') if !control => Intent::Yes,
            _ => Intent::Cancel,
        }),
    }
}

fn looking(code: KeyCode, control: bool) -> Option<Intent> {
    if control {
        return match code {
            KeyCode::Char('d') => Some(Intent::Page(1)),
            KeyCode::Char('u') => Some(Intent::Page(-1)),
            _ => None,
        };
    }
    Some(match code {
        KeyCode::Up | KeyCode::Char('k') => Intent::Move(-1),
        KeyCode::Down | KeyCode::Char('j') => Intent::Move(1),
        KeyCode::Home => Intent::First,
        KeyCode::End => Intent::Last,
        KeyCode::PageUp => Intent::Page(-1),
        KeyCode::PageDown | KeyCode::Char(' ') => Intent::Page(1),
        KeyCode::Char('K') => Intent::Scroll(-1),
        KeyCode::Char('J') => Intent::Scroll(1),
        KeyCode::Enter | KeyCode::Right => Intent::Open,
        KeyCode::Esc | KeyCode::Left | KeyCode::Backspace => Intent::Back,
        KeyCode::Char('q') => Intent::Quit,
        KeyCode::Char('1') => Intent::Tab(0),
        KeyCode::Char('2') => Intent::Tab(1),
        KeyCode::Char('3') => Intent::Tab(2),
        KeyCode::Tab => Intent::NextTab,
        KeyCode::Char('?') | KeyCode::F(1) => Intent::Help,
        KeyCode::Char('m') => Intent::Mouse,
        KeyCode::Char(key) => Intent::Press(key),
        _ => return None,
    })
}

fn typing(code: KeyCode, control: bool) -> Option<Intent> {
    Some(match code {
        KeyCode::Char('u' | 'w') if control => Intent::EraseAll,
        KeyCode::Char(sign) if !control => Intent::Type(sign.to_string()),
        KeyCode::Backspace => Intent::Erase,
        KeyCode::Enter => Intent::Submit,
        KeyCode::Esc => Intent::Cancel,
        _ => return None,
    })
}

fn pointed(mouse: &MouseEvent) -> Option<Intent> {
    let (x, y) = (mouse.column, mouse.row);
    match mouse.kind {
        MouseEventKind::Down(MouseButton::Left) => Some(Intent::Click { x, y }),
        MouseEventKind::ScrollUp => Some(Intent::Wheel { x, y, by: -3 }),
        MouseEventKind::ScrollDown => Some(Intent::Wheel { x, y, by: 3 }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(code: KeyCode) -> Event {
        Event::Key(KeyEvent::new(code, KeyModifiers::NONE))
    }

    #[test]
    fn only_a_plain_yes_is_a_yes() {
        assert_eq!(intent(&key(KeyCode::Char('y')), Mode::Confirming), Some(Intent::Yes));
        for code in [KeyCode::Enter, KeyCode::Char('n'), KeyCode::Char(' '), KeyCode::Esc, KeyCode::Tab] {
            assert_eq!(intent(&key(code), Mode::Confirming), Some(Intent::Cancel), "{code:?}");
        }
        assert_eq!(intent(&Event::Paste("y".to_owned()), Mode::Confirming), None);
        assert_eq!(intent(&Event::Paste("ay".to_owned()), Mode::Looking), None);
    }

    #[test]
    fn a_pasted_text_is_one_line_of_text() {
        let pasted = intent(&Event::Paste("two\nlines\t".to_owned()), Mode::Typing);
        assert_eq!(pasted, Some(Intent::Type("two lines".to_owned())));
        assert_eq!(intent(&key(KeyCode::Char('q')), Mode::Typing), Some(Intent::Type("q".to_owned())));
        assert_eq!(intent(&key(KeyCode::Char('q')), Mode::Looking), Some(Intent::Quit));
    }
}
