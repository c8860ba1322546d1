//! Commands that go on after the call that began them, and the terminals that some of them have.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::{Cancel, Exit, Refusals};

/// A command that goes on after the call that began it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Background {
    /// Its name within the session.
    pub id: String,
    /// What was run, as it was named.
    pub command: String,
    /// Whether it has a terminal.
    pub is_terminal: bool,
    /// How long it has been running, or ran.
    pub duration: Duration,
    /// Where its output is stored, by path relative to the first root.
    pub stored: Option<String>,
    /// How many bytes of it are stored there.
    pub n_stored: u64,
    /// How many bytes it has written, of which nobody has looked at `n_unread`.
    pub n_written: u64,
    /// How many bytes it has written since somebody looked.
    pub n_unread: u64,
    /// How it ended, if it did.
    pub exit: Option<Exit>,
    /// What the sandbox refused to it; known at its end.
    pub refusals: Refusals,
}

impl Background {
    /// Returns whether it runs or how it ended, and how long that took.
    pub fn state(&self) -> String {
        let seconds = self.duration.as_secs();
        let time = match seconds {
            0..10 => format!("{:.1} s", self.duration.as_secs_f64()),
            _ => format!("{seconds} s"),
        };
        match &self.exit {
            None => format!("running for {time}"),
            Some(exit) => format!("{exit} after {time}"),
        }
    }

    /// Returns where its output is stored, and how much of it where that is not all.
    pub fn stored_words(&self) -> Option<String> {
        let path = self.stored.as_ref()?;
        Some(match self.n_stored < self.n_written {
            true => format!("its first {} bytes are in {path}", self.n_stored),
            false => format!("the whole output is in {path}"),
        })
    }

    /// Returns the command in one line, and its beginning where it is long.
    pub fn short_command(&self) -> String {
        let mut chars = self.command.chars().map(|c| if c.is_control() { ' ' } else { c });
        let mut command: String = chars.by_ref().take(SHOWN_COMMAND).collect();
        if chars.next().is_some() {
            command.push('…');
        }
        command
    }
}

/// How much of a command is shown in a line about it, in characters.
const SHOWN_COMMAND: usize = 60;

/// Says whether a text is the one that is waited for.
pub type Matcher = Arc<dyn Fn(&[u8]) -> bool + Send + Sync>;

/// What is waited for before a look; the end of the command ends every wait.
#[derive(Clone)]
pub struct Wait {
    /// Said yes to by what was written since the last look; of a program that fills the screen, by the
    /// screen.
    pub until: Option<Matcher>,
    /// Nothing was written for so long.
    pub idle: Option<Duration>,
    /// The longest wait.
    pub at_most: Duration,
    /// Raised when the caller takes the call back.
    pub cancel: Cancel,
}

impl fmt::Debug for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wait").field("idle", &self.idle).finish_non_exhaustive()
    }
}

/// Why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// What was waited for was written.
    Matched,
    /// What was waited for stands in the last lines that were looked at before.
    MatchedBefore,
    /// Nothing was written for as long as was asked.
    Idle,
    /// The command has ended.
    Ended,
    /// The longest wait is over.
    OutOfTime,
}

/// What a command wrote since the last look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct News {
    /// The command.
    pub background: Background,
    /// What it wrote, up to the end of a character; up to the end of a line where whole lines were asked.
    pub bytes: Vec<u8>,
    /// How many bytes before that are not kept in memory any more.
    pub n_lost: u64,
    /// Why the wait ended.
    pub waited: Waited,
}

/// The size of a terminal, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Lines.
    pub rows: u16,
    /// Characters of a line.
    pub cols: u16,
}

/// What stands on the screen of a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Screen {
    /// The command.
    pub background: Background,
    /// Its size.
    pub size: Size,
    /// The lines, without blanks at their ends.
    pub rows: Vec<String>,
    /// Which of them are not as they were at the last look.
    pub changed: Vec<bool>,
    /// Line and character of the cursor, both from 0.
    pub cursor: (u16, u16),
    /// How many bytes were written too fast to be drawn since the last look.
    pub n_skipped: u64,
    /// Whether the program shows nothing of what is typed, as when it asks for a password.
    pub hides_input: bool,
    /// Why the wait ended.
    pub waited: Waited,
}

/// A key that no text has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// Enter.
    Enter,
    /// Tab.
    Tab,
    /// Tab backwards.
    BackTab,
    /// Escape.
    Escape,
    /// Backspace.
    Backspace,
    /// Delete.
    Delete,
    /// Insert.
    Insert,
    /// An arrow: `A` up, `B` down, `C` right, `D` left; `H` is home and `F` end.
    Cursor(char),
    /// The same with others held down: 1 and 1 for shift, 2 for alt, 4 for control.
    CursorWith(char, u8),
    /// Page up.
    PageUp,
    /// Page down.
    PageDown,
    /// A function key, from 1 to 12.
    Function(u8),
    /// Control with a letter or one of `@ [ \ ] ^ _`.
    Control(char),
    /// Alt with a character.
    Alt(char),
}

/// What is typed into a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Typed {
    /// Characters; the end of a line is the key Enter.
    Text(String),
    /// A key.
    Key(Key),
}
