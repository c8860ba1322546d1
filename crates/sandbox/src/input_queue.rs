//! Terminal input queue of a command: writes typed text in order, one line at a time. A program may ask for a
//! secret after any line. So each next line waits until the program has read the last one, and until the echo
//! setting of the terminal was checked again.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::{Duration, Instant};

use futures_channel::oneshot;
use sinew_tool::sync::lock;
use sinew_tool::{Key, Typed};

use super::ongoing::Ongoing;
use super::terminal::Tty;

/// How long a program may take to read a line before the next one.
const READ: Duration = Duration::from_secs(2);
/// The pause before its terminal is checked again.
const SETTLED: Duration = Duration::from_millis(20);
/// The longest line that a program reads where the kernel edits it, in bytes.
const MAX_LINE: usize = 4_095;

/// Why nothing, or not everything, was typed.
#[derive(Debug)]
pub(super) enum NotTyped {
    NoTerminal,
    Ended,
    /// The program hides its input; so many lines or keys were typed before.
    Secret(usize),
    /// A line has so many bytes, more than a program reads.
    TooLong(usize),
    /// The program does not read; so many of so many lines or keys were typed.
    Unread(usize, usize),
    Broken(io::Error),
}

type TypingResult = Result<(), NotTyped>;

/// The input, and the sender for its result.
type TypingRequest = (Vec<Typed>, oneshot::Sender<TypingResult>);

/// The thread that types into one terminal.
#[derive(Default)]
pub(super) struct InputQueue(Mutex<Typing>);

/// Whether a thread types.
#[derive(Default)]
enum Typing {
    #[default]
    NotYet,
    By(Sender<TypingRequest>),
    /// The terminal is gone.
    Over,
}

impl InputQueue {
    /// Queues input after all that was given before.
    pub(super) fn enter(
        &self,
        ongoing: &Arc<Ongoing>,
        typed: Vec<Typed>,
    ) -> io::Result<oneshot::Receiver<TypingResult>> {
        let (done, answer) = oneshot::channel();
        let mut orders = lock(&self.0);
        let sender = match &*orders {
            Typing::By(sender) => sender.clone(),
            // The answer never comes.
            Typing::Over => return Ok(answer),
            Typing::NotYet => {
                let (sender, receiver) = channel();
                let ongoing = Arc::downgrade(ongoing);
                let work = move || work(&receiver, &ongoing);
                thread::Builder::new().name(String::from("input_queue")).spawn(work)?;
                *orders = Typing::By(sender.clone());
                sender
            }
        };
        // After the end of the thread the answer never comes.
        let _ = sender.send((typed, done));
        Ok(answer)
    }

    /// Rejects all further input.
    pub(super) fn rest(&self) {
        *lock(&self.0) = Typing::Over;
    }
}

fn work(orders: &Receiver<TypingRequest>, ongoing: &Weak<Ongoing>) {
    while let Ok((typed, done)) = orders.recv() {
        let Some(ongoing) = ongoing.upgrade() else { return };
        // A caller that stopped waiting wants nothing typed.
        if !done.is_canceled() {
            let entered = enter(&ongoing, &typed, &|| !done.is_canceled());
            let _ = done.send(entered);
        }
    }
}

/// Input that is written at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    /// Characters, ended by Enter if they are a line.
    Line(String),
    /// Several lines as one bracketed paste.
    Paste(String),
    Key(Key),
}

impl Piece {
    /// Returns whether it answers no question and only ends or stops the program.
    fn gives_up(&self) -> bool {
        matches!(self, Self::Key(Key::Control('c' | 'C' | 'd' | 'D' | 'z' | 'Z' | '\\')))
    }
}

/// Splits input into pieces that are written one after the other.
pub(super) fn pieces(typed: &[Typed], takes_paste: bool) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for one in typed {
        match one {
            Typed::Key(key) => pieces.push(Piece::Key(*key)),
            Typed::Text(text) => {
                let text = text.replace("\r\n", "\n").replace('\r', "\n");
                let body = text.strip_suffix('\n').unwrap_or(&text);
                if takes_paste && body.contains('\n') {
                    pieces.push(Piece::Paste(body.to_owned()));
                    pieces.extend((body.len() < text.len()).then_some(Piece::Key(Key::Enter)));
                } else {
                    let lines = text.split_inclusive('\n').map(str::to_owned);
                    pieces.extend(lines.map(Piece::Line));
                }
            }
        }
    }
    pieces
}

/// Types input while its caller waits.
fn enter(ongoing: &Ongoing, typed: &[Typed], is_wanted: &dyn Fn() -> bool) -> TypingResult {
    let tty = ongoing.tty()?;
    let takes_paste = ongoing.emulator().is_some_and(|emulator| emulator.takes_paste());
    let pieces = pieces(typed, takes_paste);
    let longest = pieces.iter().map(|piece| match piece {
        Piece::Line(line) => line.len(),
        Piece::Paste(_) | Piece::Key(_) => 0,
    });
    if let Some(longest) = longest.max().filter(|longest| MAX_LINE < *longest)
        && tty.edits_lines()
    {
        return Err(NotTyped::TooLong(longest));
    }
    // The next wait is for output after this.
    ongoing.look_from_here();
    for (n_typed, piece) in pieces.iter().enumerate() {
        let unread = || NotTyped::Unread(n_typed, pieces.len());
        // Keys that give up are for programs that do not read.
        if n_typed != 0 && settle(&tty, is_wanted).is_err() && !piece.gives_up() {
            return Err(unread());
        }
        if !is_wanted() {
            return Err(unread());
        }
        let tty = ongoing.tty()?;
        let Some((asks, bytes)) =
            ongoing.emulator().map(|emulator| (emulator.asks_secret(), emulator.bytes_of(piece)))
        else {
            return Err(NotTyped::NoTerminal);
        };
        if tty.hides_input(asks) && !piece.gives_up() {
            return Err(NotTyped::Secret(n_typed));
        }
        match tty.write_all(&bytes, READ) {
            Ok(true) => {}
            Ok(false) => return Err(unread()),
            Err(error) => return Err(NotTyped::Broken(error)),
        }
    }
    Ok(())
}

/// Waits until the input is read, and a moment for the reaction of the program.
fn settle(tty: &Tty, is_wanted: &dyn Fn() -> bool) -> Result<(), ()> {
    let until = Instant::now() + READ;
    loop {
        thread::sleep(SETTLED);
        if !tty.holds_unread() {
            return Ok(());
        }
        if until <= Instant::now() || !is_wanted() {
            return Err(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_typed_line_by_line_unless_it_is_pasted() {
        let line = |text: &str| Piece::Line(text.to_owned());
        let paste = |text: &str| Piece::Paste(text.to_owned());
        let enter = || Piece::Key(Key::Enter);
        for (text, takes_paste, expected) in [
            ("a", false, vec![line("a")]),
            ("a\nb\r\nc", false, vec![line("a\n"), line("b\n"), line("c")]),
            ("a\n", true, vec![line("a\n")]),
            ("a\nb", true, vec![paste("a\nb")]),
            ("a\nb\n", true, vec![paste("a\nb"), enter()]),
            ("a\nb\n\n", true, vec![paste("a\nb\n"), enter()]),
            ("", true, vec![]),
        ] {
            let typed = [Typed::Text(text.to_owned())];
            assert_eq!(pieces(&typed, takes_paste), expected, "{text:?}");
        }
        let keys = [Typed::Key(Key::Tab), Typed::Text(String::from("x"))];
        assert_eq!(pieces(&keys, true), [Piece::Key(Key::Tab), line("x")]);
    }
}
