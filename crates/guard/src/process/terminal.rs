//! Terminals: a pair of ends, of which a command has one, and what it would show on a screen.

use std::io;
use std::num::NonZeroU16;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use sinew_tool::{Key, Size, Typed};
use vt100::{Callbacks, Parser};

/// Both ends of a terminal.
#[derive(Debug)]
pub(super) struct Pty {
    /// What is read here was shown, and what is written here is typed.
    pub(super) ours: OwnedFd,
    /// The one of the command.
    pub(super) theirs: OwnedFd,
}

impl Pty {
    /// Opens a terminal of a size.
    pub(super) fn open(size: Size) -> io::Result<Self> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let ours = openpt(flags)?;
        grantpt(&ours)?;
        unlockpt(&ours)?;
        let theirs = ioctl_tiocgptpeer(&ours, flags)?;
        set_size(&ours, size)?;
        Ok(Self { ours, theirs })
    }
}

/// Gives a terminal a size.
pub(super) fn set_size(ours: &OwnedFd, size: Size) -> io::Result<()> {
    let size = Winsize { ws_row: size.rows, ws_col: size.cols, ws_xpixel: 0, ws_ypixel: 0 };
    Ok(tcsetwinsize(ours, size)?)
}

/// Returns whether a terminal shows nothing of a line that is typed, as where a password is asked for.
pub(super) fn hides_input(ours: &OwnedFd) -> bool {
    tcgetattr(ours).is_ok_and(|modes| {
        let local = modes.local_modes;
        local.contains(LocalModes::ICANON) && !local.contains(LocalModes::ECHO)
    })
}

/// What a program in a terminal would show on a screen.
pub(super) struct Emulator {
    parser: Parser<Answers>,
    size: Size,
    /// The screen at the last look.
    looked: Vec<String>,
}

/// A look at a screen.
pub(super) struct Looked {
    pub(super) rows: Vec<String>,
    pub(super) changed: Vec<bool>,
    pub(super) cursor: (u16, u16),
}

impl Emulator {
    pub(super) fn new(size: Size) -> Self {
        Self { parser: parser(size), size, looked: Vec::new() }
    }

    /// Takes what a program wrote; returns what a terminal answers.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Vec<u8> {
        let parser = &mut self.parser;
        // What somebody else's bytes break is a screen, and nothing more.
        if catch_unwind(AssertUnwindSafe(|| parser.process(bytes))).is_err() {
            self.parser = self::parser(self.size);
        }
        std::mem::take(&mut self.parser.callbacks_mut().0)
    }

    /// Returns the size.
    pub(super) fn size(&self) -> Size {
        self.size
    }

    /// Gives the screen another size.
    pub(super) fn resize(&mut self, size: Size) {
        let [rows, cols] = [size.rows, size.cols].map(at_least_one);
        self.size = size;
        let parser = &mut self.parser;
        if catch_unwind(AssertUnwindSafe(|| parser.set_size(rows, cols))).is_err() {
            self.parser = self::parser(size);
        }
    }

    /// Returns the text of the screen where a program fills it, as editors do.
    pub(super) fn filled(&self) -> Option<String> {
        let screen = self.parser.screen();
        screen.alternate_screen().then(|| screen.contents())
    }

    /// Looks at the screen, and remembers it for the next look.
    pub(super) fn look(&mut self) -> Looked {
        let screen = self.parser.screen();
        let rows: Vec<String> =
            screen.rows(0, self.size.cols).map(|row| row.trim_end().to_owned()).collect();
        let before = |at: usize| self.looked.get(at).map_or("", String::as_str);
        let changed = rows.iter().enumerate().map(|(at, row)| before(at) != row).collect();
        let cursor = screen.cursor_position();
        self.looked.clone_from(&rows);
        Looked { rows, changed, cursor }
    }

    /// Returns the bytes that a terminal sends for what is typed.
    pub(super) fn bytes_of(&self, typed: &[Typed]) -> Vec<u8> {
        let application = self.parser.screen().application_cursor();
        let mut bytes = Vec::new();
        for one in typed {
            match one {
                Typed::Text(text) => {
                    bytes.extend(text.replace("\r\n", "\r").replace('\n', "\r").into_bytes());
                }
                Typed::Key(key) => push_key(&mut bytes, *key, application),
            }
        }
        bytes
    }
}

fn parser(size: Size) -> Parser<Answers> {
    Parser::new_with_callbacks(
        at_least_one(size.rows),
        at_least_one(size.cols),
        0,
        Answers::default(),
    )
}

fn at_least_one(n: u16) -> NonZeroU16 {
    NonZeroU16::new(n).unwrap_or(NonZeroU16::MIN)
}

/// What a terminal answers to programs that ask it something.
#[derive(Default)]
struct Answers(Vec<u8>);

/// The most that is answered to one piece of output.
const MAX_ANSWERS: usize = 1_024;

impl Callbacks for Answers {
    fn unhandled_csi(
        &mut self,
        screen: &mut vt100::Screen,
        intermediate: Option<u8>,
        _second: Option<u8>,
        params: &[&[u16]],
        c: char,
    ) {
        let first = params.first().and_then(|param| param.first()).copied().unwrap_or(0);
        let answer = match (intermediate, c, first) {
            (None, 'c', 0) => String::from("\u{1b}[?1;2c"),
            (Some(b'>'), 'c', 0) => String::from("\u{1b}[>0;0;0c"),
            (None, 'n', 5) => String::from("\u{1b}[0n"),
            (None, 'n', 6) => {
                let (row, col) = screen.cursor_position();
                format!("\u{1b}[{};{}R", row + 1, col + 1)
            }
            _ => return,
        };
        if self.0.len() + answer.len() <= MAX_ANSWERS {
            self.0.extend(answer.into_bytes());
        }
    }
}

/// Adds what a terminal sends for a key, as terminals of the family of xterm do.
fn push_key(bytes: &mut Vec<u8>, key: Key, application: bool) {
    match key {
        Key::Enter => bytes.push(b'\r'),
        Key::Tab => bytes.push(b'\t'),
        Key::BackTab => bytes.extend(b"\x1b[Z"),
        Key::Escape => bytes.push(0x1b),
        Key::Backspace => bytes.push(0x7f),
        Key::Delete => bytes.extend(b"\x1b[3~"),
        Key::Insert => bytes.extend(b"\x1b[2~"),
        Key::PageUp => bytes.extend(b"\x1b[5~"),
        Key::PageDown => bytes.extend(b"\x1b[6~"),
        Key::Cursor(to) => {
            bytes.extend(if application { b"\x1bO" } else { b"\x1b[" });
            push_char(bytes, to);
        }
        Key::Function(n) => bytes.extend(function_key(n).bytes()),
        Key::Control(c) => {
            // The five upper bits of a letter and of the signs beside them are taken away.
            let byte = u8::try_from(c.to_ascii_uppercase()).unwrap_or(b'@');
            bytes.push(if byte == b'?' { 0x7f } else { byte & 0x1f });
        }
        Key::Alt(c) => {
            bytes.push(0x1b);
            push_char(bytes, c);
        }
    }
}

fn push_char(bytes: &mut Vec<u8>, c: char) {
    bytes.extend(c.encode_utf8(&mut [0; 4]).bytes());
}

fn function_key(n: u8) -> &'static str {
    match n {
        1 => "\u{1b}OP",
        2 => "\u{1b}OQ",
        3 => "\u{1b}OR",
        4 => "\u{1b}OS",
        5 => "\u{1b}[15~",
        6 => "\u{1b}[17~",
        7 => "\u{1b}[18~",
        8 => "\u{1b}[19~",
        9 => "\u{1b}[20~",
        10 => "\u{1b}[21~",
        11 => "\u{1b}[23~",
        _ => "\u{1b}[24~",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn emulator() -> Emulator {
        Emulator::new(Size { rows: 4, cols: 10 })
    }

    #[test]
    fn a_screen_shows_what_stands_there() {
        let mut emulator = emulator();
        emulator.take(b"one\r\ntwo\r\n\x1b[31mred\x1b[0m");
        let looked = emulator.look();
        assert_eq!(looked.rows, ["one", "two", "red", ""]);
        assert_eq!(looked.changed, [true, true, true, false]);
        assert_eq!(looked.cursor, (2, 3));
        emulator.take(b"\x1b[1;1Hnew\x1b[K");
        let looked = emulator.look();
        assert_eq!(looked.rows, ["new", "two", "red", ""]);
        assert_eq!(looked.changed, [true, false, false, false]);
        assert_eq!(emulator.filled(), None);
        emulator.take(b"\x1b[?1049h\x1b[Hfull");
        assert!(emulator.filled().is_some_and(|text| text.starts_with("full")));
    }

    #[test]
    fn questions_to_the_terminal_are_answered() {
        for (asked, answered) in [
            (&b"ab\x1b[6n"[..], &b"\x1b[1;3R"[..]),
            (b"\x1b[5n", b"\x1b[0n"),
            (b"\x1b[c", b"\x1b[?1;2c"),
            (b"\x1b[>c", b"\x1b[>0;0;0c"),
            (b"plain", b""),
        ] {
            assert_eq!(emulator().take(asked), answered, "{asked:?}");
        }
        assert!(emulator().take(&b"\x1b[6n".repeat(10_000)).len() <= MAX_ANSWERS);
    }

    #[test]
    fn keys_are_those_of_xterm() {
        let check = |setting: &[u8], typed: Typed, bytes: &[u8]| {
            let mut emulator = emulator();
            emulator.take(setting);
            assert_eq!(emulator.bytes_of(std::slice::from_ref(&typed)), bytes, "{typed:?}");
        };
        check(b"", Typed::Text(String::from("a\nb\r\n")), b"a\rb\r");
        check(b"", Typed::Key(Key::Cursor('A')), b"\x1b[A");
        check(b"\x1b[?1h", Typed::Key(Key::Cursor('A')), b"\x1bOA");
        check(b"", Typed::Key(Key::Control('c')), b"\x03");
        check(b"", Typed::Key(Key::Control('[')), b"\x1b");
        check(b"", Typed::Key(Key::Control('@')), b"\0");
        check(b"", Typed::Key(Key::Alt('é')), "\u{1b}é".as_bytes());
        check(b"", Typed::Key(Key::Function(12)), b"\x1b[24~");
    }

    #[test]
    fn a_screen_gets_another_size() {
        let mut emulator = emulator();
        emulator.take(b"one\r\ntwo");
        emulator.resize(Size { rows: 2, cols: 20 });
        assert_eq!(emulator.look().rows, ["one", "two"]);
        emulator.take(b"\x1b[1;15Hwide");
        assert_eq!(emulator.look().rows, ["one           wide", "two"]);
    }

    proptest! {
        #[test]
        fn any_bytes_leave_a_screen(pieces in prop::collection::vec(
            prop_oneof![
                prop::collection::vec(any::<u8>(), 0..40),
                "\u{1b}\\[[0-9;?>]{0,6}[A-Za-z@`]".prop_map(String::into_bytes),
                "[漢é\u{301}\u{200d}🎉a]{0,12}".prop_map(String::into_bytes),
            ],
            0..12,
        )) {
            let mut emulator = emulator();
            for piece in pieces {
                emulator.take(&piece);
                prop_assert_eq!(emulator.look().rows.len(), usize::from(emulator.size().rows));
                let rows = u16::try_from(piece.len() % 6 + 1).unwrap_or(1);
                emulator.resize(Size { rows, cols: 7 - rows });
            }
        }
    }
}
