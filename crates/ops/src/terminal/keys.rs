//! Parses key names as terminals and their tools write them.

use sinew_tool::{Key, ToolError, Typed};

/// Parses a key name: a key or one character, after `C-` (control), `M-` (alt) or `S-` (shift).
pub(super) fn keys(name: &str) -> Result<Vec<Typed>, ToolError> {
    known(name).ok_or_else(|| {
        ToolError::argument("keys", format!("names no key with `{name}`")).hint(
            "use Enter, Tab, S-Tab, Escape, Space, Backspace, Delete, Insert, Up, Down, Left, Right, Home, \
             End, PageUp, PageDown, F1 to F12, C-c for control, M-x for alt, S-Up for shift, or one \
             character",
        )
    })
}

/// The modifiers of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct With {
    shift: bool,
    alt: bool,
    control: bool,
}

fn known(name: &str) -> Option<Vec<Typed>> {
    let text = |c: char| Typed::Text(String::from(c));
    if let Some(c) = only(name) {
        return Some(vec![text(c)]);
    }
    let (with, rest) = modifiers(name);
    let key = match only(rest) {
        Some(c) if with.control => control(c)?,
        // The case of the letter already says whether Shift is held.
        Some(c) => Typed::Key(Key::Alt(c)),
        None => named(rest).or_else(|| function(rest))?,
    };
    let Typed::Key(key) = key else {
        return match (key, with) {
            (key, With { control: false, shift: false, alt: false }) => Some(vec![key]),
            (_, With { control: true, .. }) => Some(vec![Typed::Key(Key::Control('@'))]),
            (key, _) => Some(vec![Typed::Key(Key::Escape), key]),
        };
    };
    let escape = Typed::Key(Key::Escape);
    match (key, with) {
        (Key::Cursor(to), with) if with != With::default() => {
            let held =
                1 + u8::from(with.shift) + 2 * u8::from(with.alt) + 4 * u8::from(with.control);
            Some(vec![Typed::Key(Key::CursorWith(to, held))])
        }
        (Key::Tab, With { shift: true, .. }) => Some(vec![Typed::Key(Key::BackTab)]),
        (Key::Control(_), With { alt: true, .. }) => Some(vec![escape, Typed::Key(key)]),
        (Key::Control(_) | Key::Alt(_), _)
        | (_, With { shift: false, alt: false, control: false }) => Some(vec![Typed::Key(key)]),
        (key, With { alt: true, control: false, shift: false }) => {
            Some(vec![escape, Typed::Key(key)])
        }
        _ => None,
    }
}

/// Returns the only character of a name.
fn only(name: &str) -> Option<char> {
    let mut chars = name.chars();
    chars.next().filter(|_| chars.next().is_none())
}

/// Returns the modifiers of a name and its rest.
fn modifiers(name: &str) -> (With, &str) {
    let (mut with, mut rest) = (With::default(), name);
    if let Some(after) = rest.strip_prefix('^') {
        return (With { control: true, ..with }, after);
    }
    loop {
        let Some((word, after)) =
            rest.split_once(['-', '+']).filter(|(_, after)| !after.is_empty())
        else {
            return (with, rest);
        };
        match word.to_ascii_lowercase().as_str() {
            "c" | "ctrl" | "control" => with.control = true,
            "m" | "alt" | "a" => with.alt = true,
            "s" | "shift" => with.shift = true,
            _ => return (with, rest),
        }
        rest = after;
    }
}

fn control(c: char) -> Option<Typed> {
    let has_code = c.is_ascii_alphabetic() || "@[\\]^_?".contains(c);
    has_code.then_some(Typed::Key(Key::Control(c)))
}

fn named(name: &str) -> Option<Typed> {
    let key = match name.to_ascii_lowercase().as_str() {
        "enter" | "return" => Key::Enter,
        "tab" => Key::Tab,
        "backtab" | "btab" => Key::BackTab,
        "escape" | "esc" => Key::Escape,
        "backspace" | "bspace" => Key::Backspace,
        "delete" | "dc" => Key::Delete,
        "insert" | "ic" => Key::Insert,
        "up" => Key::Cursor('A'),
        "down" => Key::Cursor('B'),
        "right" => Key::Cursor('C'),
        "left" => Key::Cursor('D'),
        "home" => Key::Cursor('H'),
        "end" => Key::Cursor('F'),
        "pageup" | "ppage" | "pgup" => Key::PageUp,
        "pagedown" | "npage" | "pgdn" => Key::PageDown,
        "space" => return Some(Typed::Text(String::from(" "))),
        _ => return None,
    };
    Some(Typed::Key(key))
}

fn function(name: &str) -> Option<Typed> {
    let number = name.strip_prefix(['F', 'f'])?.parse().ok()?;
    (1..=12).contains(&number).then_some(Typed::Key(Key::Function(number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_for_keys() {
        let check = |name: &str, expected: Option<Vec<Typed>>| {
            assert_eq!(keys(name).ok(), expected, "{name}");
        };
        let text = |text: &str| Some(vec![Typed::Text(text.to_owned())]);
        let is = |key| Some(vec![Typed::Key(key)]);
        let escaped = |key| Some(vec![Typed::Key(Key::Escape), Typed::Key(key)]);
        check("Enter", is(Key::Enter));
        check("return", is(Key::Enter));
        check("C-c", is(Key::Control('c')));
        check("Ctrl+D", is(Key::Control('D')));
        check("^[", is(Key::Control('[')));
        check("C-Space", is(Key::Control('@')));
        check("M-é", is(Key::Alt('é')));
        check("M-X", is(Key::Alt('X')));
        check("M-Enter", escaped(Key::Enter));
        check("C-M-x", escaped(Key::Control('x')));
        check("S-Tab", is(Key::BackTab));
        check("C-Left", is(Key::CursorWith('D', 5)));
        check("S-Up", is(Key::CursorWith('A', 2)));
        check("C-S-End", is(Key::CursorWith('F', 6)));
        check("PageDown", is(Key::PageDown));
        check("F1", is(Key::Function(1)));
        check("F12", is(Key::Function(12)));
        check("F", text("F"));
        check("-", text("-"));
        check("漢", text("漢"));
        check("Space", text(" "));
        for unknown in ["", "F13", "F0", "C-é", "C-ab", "Entr", "M-", "C-", "C-Enter", "X-a"] {
            check(unknown, None);
        }
    }
}
