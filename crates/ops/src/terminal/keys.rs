//! The names of keys, as terminals and the tools around them have them.

use sinew_tool::{Key, ToolError, Typed};

/// Returns what a name stands for: a key, one character, or a key with `C-` (control), `M-` (alt) or `S-` before it.
pub(super) fn key(name: &str) -> Result<Typed, ToolError> {
    let mut chars = name.chars();
    if let (Some(c), None) = (chars.next(), chars.next()) {
        return Ok(Typed::Text(String::from(c)));
    }
    let known = named(name).or_else(|| function(name)).or_else(|| with_another(name));
    known.ok_or_else(|| {
        ToolError::argument("keys", format!("names no key with `{name}`")).hint(
            "use Enter, Tab, S-Tab, Escape, Space, Backspace, Delete, Insert, Up, Down, Left, Right, Home, \
             End, PageUp, PageDown, F1 to F12, C-c for control, M-x for alt, or one character",
        )
    })
}

fn named(name: &str) -> Option<Typed> {
    let key = match name.to_ascii_lowercase().as_str() {
        "enter" | "return" => Key::Enter,
        "tab" => Key::Tab,
        "s-tab" | "backtab" | "btab" => Key::BackTab,
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

/// Returns a character with control or alt.
fn with_another(name: &str) -> Option<Typed> {
    let after = |prefixes: &[&str]| {
        let rest = prefixes.iter().find_map(|prefix| name.strip_prefix(prefix))?;
        let mut chars = rest.chars();
        chars.next().filter(|_| chars.next().is_none())
    };
    let control = after(&["C-", "c-", "Ctrl-", "Ctrl+", "ctrl-", "ctrl+", "^"]);
    if let Some(c) = control {
        let has_code = c.is_ascii_alphabetic() || "@[\\]^_?".contains(c);
        return has_code.then_some(Typed::Key(Key::Control(c)));
    }
    after(&["M-", "m-", "Alt-", "Alt+", "alt-", "alt+"]).map(|c| Typed::Key(Key::Alt(c)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_for_keys() {
        let check = |name: &str, expected: Option<Typed>| {
            assert_eq!(key(name).ok(), expected, "{name}");
        };
        let text = |text: &str| Some(Typed::Text(text.to_owned()));
        let is = |key| Some(Typed::Key(key));
        check("Enter", is(Key::Enter));
        check("return", is(Key::Enter));
        check("C-c", is(Key::Control('c')));
        check("Ctrl+D", is(Key::Control('D')));
        check("^[", is(Key::Control('[')));
        check("M-é", is(Key::Alt('é')));
        check("S-Tab", is(Key::BackTab));
        check("PageDown", is(Key::PageDown));
        check("F1", is(Key::Function(1)));
        check("F12", is(Key::Function(12)));
        check("F", text("F"));
        check("漢", text("漢"));
        check("Space", text(" "));
        for unknown in ["", "F13", "F0", "C-é", "C-ab", "Entr", "M-", "C-"] {
            check(unknown, None);
        }
    }
}
