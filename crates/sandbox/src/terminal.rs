//! Pseudo terminals (pty) of commands, and the emulator that keeps what their screens would show.

use std::io;
use std::num::NonZeroU16;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, Winsize, tcgetattr, tcsetattr, tcsetwinsize,
};
use sinew_tool::{Key, Size};
use vt100::{Callbacks, Parser};

use super::input_queue::Piece;

/// Both ends of a pty.
#[derive(Debug)]
pub(super) struct Pty {
    /// sinew's end: reads the shown output and writes the typed input.
    pub(super) ours: OwnedFd,
    /// The command's end.
    pub(super) theirs: OwnedFd,
}

impl Pty {
    /// Opens a terminal of a size.
    pub(super) fn open(size: Size) -> io::Result<Self> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let ours = openpt(flags)?;
        grantpt(&ours)?;
        unlockpt(&ours)?;
        // A write must not block while the program does not read.
        rustix::io::ioctl_fionbio(&ours, true)?;
        let theirs = ioctl_tiocgptpeer(&ours, flags)?;
        let mut modes = tcgetattr(&theirs)?;
        // Backspace removes a whole UTF-8 character.
        modes.input_modes |= InputModes::IUTF8;
        tcsetattr(&theirs, OptionalActions::Now, &modes)?;
        set_size(&ours, size)?;
        Ok(Self { ours, theirs })
    }

    /// Returns fds of both ends, for typing.
    pub(super) fn hold(&self) -> io::Result<Tty> {
        Ok(Tty { ours: self.ours.try_clone()?, theirs: self.theirs.try_clone()? })
    }
}

fn set_size(ours: &OwnedFd, size: Size) -> io::Result<()> {
    let size = Winsize { ws_row: size.rows, ws_col: size.cols, ws_xpixel: 0, ws_ypixel: 0 };
    Ok(tcsetwinsize(ours, size)?)
}

/// The terminal of a background command.
#[derive(Debug)]
pub(super) struct Tty {
    ours: OwnedFd,
    /// The command's end, which shows how much input is unread.
    theirs: OwnedFd,
}

impl Tty {
    pub(super) fn resize(&self, size: Size) -> io::Result<()> {
        set_size(&self.ours, size)
    }

    /// Answers a terminal query of a program; drops the answer if the program does not read.
    pub(super) fn answer(&self, answers: &[u8]) {
        if !answers.is_empty() {
            let _ = rustix::io::write(&self.ours, answers);
        }
    }

    fn local_modes(&self) -> LocalModes {
        tcgetattr(&self.theirs).map_or(LocalModes::empty(), |modes| modes.local_modes)
    }

    /// Returns whether the kernel edits lines before a program reads them.
    pub(super) fn edits_lines(&self) -> bool {
        self.local_modes().contains(LocalModes::ICANON)
    }

    /// Returns whether typed text stays hidden, as at a password prompt. A program that edits its lines
    /// itself also shows them, unless it asks for a secret.
    pub(super) fn hides_input(&self, asks_secret: bool) -> bool {
        let modes = self.local_modes();
        !modes.contains(LocalModes::ECHO) && (modes.contains(LocalModes::ICANON) || asks_secret)
    }

    /// Returns whether the program has not read all input.
    pub(super) fn holds_unread(&self) -> bool {
        rustix::io::ioctl_fionread(&self.theirs).is_ok_and(|n| 0 < n)
    }

    /// Types bytes; returns whether there was room for all of them in time.
    pub(super) fn write_all(&self, mut bytes: &[u8], time: Duration) -> io::Result<bool> {
        let until = Instant::now() + time;
        while !bytes.is_empty() {
            match rustix::io::write(&self.ours, bytes) {
                Ok(n) => bytes = bytes.get(n..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    let left = until.saturating_duration_since(Instant::now());
                    let mut watched = [PollFd::new(&self.ours, PollFlags::OUT)];
                    let n = poll(&mut watched, Timespec::try_from(left).ok().as_ref());
                    if left.is_zero() || n == Ok(0) {
                        return Ok(false);
                    }
                }
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(true)
    }
}

/// Returns the first number of an escape sequence.
fn first_number(numbers: &[u8]) -> usize {
    let digits = numbers.iter().filter(|byte| 0x20 <= **byte && **byte != 0x7f);
    digits.take_while(|byte| byte.is_ascii_digit()).fold(0_usize, |number, digit| {
        number.saturating_mul(10).saturating_add(usize::from(digit - b'0'))
    })
}

/// Words in a prompt for a secret.
const SECRETS: &[&str] = &[
    "password",
    "passphrase",
    "passcode",
    "pin",
    "token",
    "secret",
    "otp",
    "api key",
    "credential",
];

/// Returns whether a line asks for a secret.
fn is_secret_question(line: &str) -> bool {
    let line = line.trim_end().to_lowercase();
    let is_question = line.ends_with([':', '?', '>']);
    let words = || line.split(|c: char| !c.is_alphanumeric());
    let has = |secret: &str| match secret.len() {
        // A short word may be part of another.
        0..=3 => words().any(|word| word == secret),
        _ => line.contains(secret),
    };
    is_question && SECRETS.iter().any(|secret| has(secret))
}

/// Terminal emulator: the screen that a program would show.
pub(super) struct Emulator {
    parser: Parser<Answers>,
    size: Size,
    /// The screen at the last look.
    looked: Vec<String>,
    /// The start of an escape sequence that is still incomplete.
    begun: Vec<u8>,
    /// How many bytes were not drawn since the last look.
    n_skipped: u64,
}

/// A look at a screen.
pub(super) struct Looked {
    pub(super) rows: Vec<String>,
    pub(super) changed: Vec<bool>,
    pub(super) cursor: (u16, u16),
    pub(super) n_skipped: u64,
}

impl Emulator {
    pub(super) fn new(size: Size) -> Self {
        Self { parser: parser(size), size, looked: Vec::new(), begun: Vec::new(), n_skipped: 0 }
    }

    /// Draws output of a program; returns the answers to its terminal queries.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Vec<u8> {
        let bytes = self.tamed(bytes);
        let parser = &mut self.parser;
        // Output that makes the parser panic costs only the screen.
        if catch_unwind(AssertUnwindSafe(|| parser.process(&bytes))).is_err() {
            self.parser = self::parser(self.size);
        }
        std::mem::take(&mut self.parser.callbacks_mut().0)
    }

    /// Skips output of a program, without any answer.
    pub(super) fn skip(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.begun.clear();
        self.n_skipped += bytes.len() as u64;
        Vec::new()
    }

    /// Limits repeat counts in escape sequences to the screen size, since a few bytes could take very long.
    fn tamed(&mut self, bytes: &[u8]) -> Vec<u8> {
        let most = usize::from(self.size.rows) * usize::from(self.size.cols);
        let mut out = std::mem::take(&mut self.begun);
        // Where the numbers of an open sequence begin.
        let mut numbers = out.strip_prefix(b"\x1b[").map(|_| 2);
        for byte in bytes {
            match (numbers, byte) {
                (Some(at), b'b') => {
                    let asked = out.get(at..).map_or(0, first_number);
                    if most < asked {
                        out.truncate(at);
                        out.extend(most.to_string().into_bytes());
                    }
                    numbers = None;
                }
                // No useful program writes more.
                (Some(at), 0x30..=0x3f) if MAX_NUMBERS <= out.len() - at => continue,
                // Control characters take effect without ending a sequence.
                (Some(_), 0x30..=0x3f | 0..=0x1a | 0x1c..=0x1f | 0x7f) => {}
                (Some(_), _) => numbers = None,
                (None, _) => {}
            }
            out.push(*byte);
            if out.ends_with(b"\x1b[") {
                numbers = Some(out.len());
            }
        }
        let begun = match numbers {
            Some(at) => out.len().min(at - 2),
            None if out.last() == Some(&0x1b) => out.len() - 1,
            None => out.len(),
        };
        self.begun = out.split_off(begun);
        out
    }

    pub(super) fn size(&self) -> Size {
        self.size
    }

    pub(super) fn resize(&mut self, size: Size) {
        let [rows, cols] = [size.rows, size.cols].map(at_least_one);
        self.size = size;
        let parser = &mut self.parser;
        if catch_unwind(AssertUnwindSafe(|| parser.set_size(rows, cols))).is_err() {
            self.parser = self::parser(size);
        }
    }

    /// Returns the text of the alternate screen, which programs such as editors use.
    pub(super) fn filled(&self) -> Option<String> {
        let screen = self.parser.screen();
        screen.alternate_screen().then(|| screen.contents())
    }

    /// Returns the screen, and remembers it for the next look.
    pub(super) fn look(&mut self) -> Looked {
        let screen = self.parser.screen();
        let rows: Vec<String> =
            screen.rows(0, self.size.cols).map(|row| row.trim_end().to_owned()).collect();
        let before = |at: usize| self.looked.get(at).map_or("", String::as_str);
        let changed = rows.iter().enumerate().map(|(at, row)| before(at) != row).collect();
        let cursor = screen.cursor_position();
        self.looked.clone_from(&rows);
        Looked { rows, changed, cursor, n_skipped: std::mem::take(&mut self.n_skipped) }
    }

    /// Returns whether the program accepts bracketed paste.
    pub(super) fn takes_paste(&self) -> bool {
        self.parser.screen().bracketed_paste()
    }

    /// Returns whether the text before the cursor asks for a secret.
    pub(super) fn asks_secret(&self) -> bool {
        let screen = self.parser.screen();
        let (row, col) = screen.cursor_position();
        let line = screen.rows(0, col).nth(usize::from(row));
        line.is_some_and(|line| is_secret_question(&line))
    }

    /// Returns the bytes that a terminal sends for typed input.
    pub(super) fn bytes_of(&self, piece: &Piece) -> Vec<u8> {
        let screen = self.parser.screen();
        let mut bytes = Vec::new();
        match piece {
            Piece::Line(line) => bytes.extend(line.replace('\n', "\r").into_bytes()),
            Piece::Paste(text) => {
                let text = text.replace("\u{1b}[201~", "").replace('\n', "\r");
                bytes.extend(format!("\u{1b}[200~{text}\u{1b}[201~").into_bytes());
            }
            Piece::Key(key) => push_key(&mut bytes, *key, screen.application_cursor()),
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

/// The answers to terminal queries.
#[derive(Default)]
struct Answers(Vec<u8>);

/// The longest numbers of an escape sequence, in bytes.
const MAX_NUMBERS: usize = 64;
/// The most bytes of answers to one piece of output.
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

/// Adds the bytes that xterm sends for a key.
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
        Key::CursorWith(to, with) => bytes.extend(format!("\u{1b}[1;{with}{to}").into_bytes()),
        Key::Function(n) => bytes.extend(function_key(n).bytes()),
        Key::Control(c) => {
            // Only the five lower bits of the character remain.
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
        let check = |setting: &[u8], piece: Piece, bytes: &[u8]| {
            let mut emulator = emulator();
            emulator.take(setting);
            assert_eq!(emulator.bytes_of(&piece), bytes, "{piece:?}");
        };
        check(b"", Piece::Line(String::from("a\n")), b"a\r");
        let paste = Piece::Paste(String::from("a\nb\x1b[201~c"));
        check(b"", paste, b"\x1b[200~a\rbc\x1b[201~");
        check(b"", Piece::Key(Key::Cursor('A')), b"\x1b[A");
        check(b"\x1b[?1h", Piece::Key(Key::Cursor('A')), b"\x1bOA");
        check(b"", Piece::Key(Key::CursorWith('D', 5)), b"\x1b[1;5D");
        check(b"", Piece::Key(Key::Control('c')), b"\x03");
        check(b"", Piece::Key(Key::Control('[')), b"\x1b");
        check(b"", Piece::Key(Key::Control('@')), b"\0");
        check(b"", Piece::Key(Key::Alt('é')), "\u{1b}é".as_bytes());
        check(b"", Piece::Key(Key::Function(12)), b"\x1b[24~");
    }

    #[test]
    fn questions_for_secrets_are_known() {
        for (line, is_secret) in [
            ("Password: ", true),
            ("[sudo] password for ada:", true),
            ("Enter passphrase for key '/x':", true),
            ("PIN:", true),
            ("API key?", true),
            ("Spinning:", false),
            ("Name:", false),
            ("the password was changed", false),
            ("", false),
        ] {
            assert_eq!(is_secret_question(line), is_secret, "{line}");
        }
        let mut emulator = emulator();
        emulator.take(b"Secret: ");
        assert!(emulator.asks_secret());
        emulator.take(b"x");
        assert!(!emulator.asks_secret());
    }

    #[test]
    fn a_sequence_repeats_no_more_than_there_is_room_for() {
        for (pieces, expected) in [
            (&[&b"a\x1b[3b"[..]][..], &b"a\x1b[3b"[..]),
            (&[b"a\x1b[65535b"], b"a\x1b[40b"),
            (&[b"a\x1b", b"[65", b"535", b"b."], b"a\x1b[40b."),
            (&[b"\x1b[99", b"9;9H"], b"\x1b[999;9H"),
            (&[b"\x1b[\x1b[65535b"], b"\x1b[\x1b[40b"),
            (&[b"\x1b"], b""),
            (&[b"\x1b[65535;7b"], b"\x1b[40b"),
            (&[b"\x1b[655\x0035b"], b"\x1b[40b"),
            (&[b"\x1b[99999999999999999999999b"], b"\x1b[40b"),
        ] {
            let mut emulator = emulator();
            let tamed: Vec<u8> = pieces.iter().flat_map(|piece| emulator.tamed(piece)).collect();
            assert_eq!(tamed, expected, "{pieces:?}");
        }
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
                let tamed = emulator.tamed(&piece);
                // A panic is caught where it is drawn, and would hide here.
                emulator.parser.process(&tamed);
                prop_assert_eq!(emulator.look().rows.len(), usize::from(emulator.size().rows));
                let size = |n: usize| NonZeroU16::new(u16::try_from(n % 6).unwrap_or(0) + 1).unwrap();
                let (rows, cols) = (size(piece.len()), size(piece.len() / 6));
                emulator.size = Size { rows: rows.get(), cols: cols.get() };
                emulator.parser.set_size(rows, cols);
            }
        }
    }
}
