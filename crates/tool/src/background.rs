//! Background commands, which outlive the call that started them, and their terminals.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::{Cancel, Exit, SandboxFindings};

/// A background command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Background {
    /// Its name within the session.
    pub id: String,
    /// The command as the call named it.
    pub command: String,
    /// Whether it has a terminal.
    pub is_terminal: bool,
    /// How long it runs or ran.
    pub duration: Duration,
    /// Its stored output, by path relative to the first root.
    pub stored: Option<String>,
    /// The number of stored bytes.
    pub n_stored: u64,
    /// The number of bytes written, including `n_unread`.
    pub n_written: u64,
    /// The number of bytes written since the last look.
    pub n_unread: u64,
    /// Its exit, if it ended.
    pub exit: Option<Exit>,
    /// What its sandbox found, known at its end.
    pub findings: SandboxFindings,
}

impl Background {
    /// Returns in words whether it runs or how it ended, and its duration.
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

    /// Returns the path of its stored output, with the stored size if incomplete.
    pub fn stored_words(&self) -> Option<String> {
        let path = self.stored.as_ref()?;
        Some(match self.n_stored < self.n_written {
            true => format!("its first {} bytes are in {path}", self.n_stored),
            false => format!("the whole output is in {path}"),
        })
    }

    /// Returns the command in one line, cut if long.
    pub fn short_command(&self) -> String {
        let mut chars = self.command.chars().map(|c| if c.is_control() { ' ' } else { c });
        let mut command: String = chars.by_ref().take(SHOWN_COMMAND).collect();
        if chars.next().is_some() {
            command.push('…');
        }
        command
    }
}

/// The most characters of a command in one line.
const SHOWN_COMMAND: usize = 60;

/// Tests whether output contains the awaited text.
pub type Matcher = Arc<dyn Fn(&[u8]) -> bool + Send + Sync>;

/// The conditions of a wait; the end of the command ends every wait.
#[derive(Clone)]
pub struct Wait {
    /// Matches the output since the last look, or the screen of a full-screen program.
    pub until: Option<Matcher>,
    /// Ends the wait after this long without output.
    pub idle: Option<Duration>,
    /// The longest wait.
    pub at_most: Duration,
    /// Cancels the wait.
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
    /// The awaited text was written.
    Matched,
    /// The awaited text is in the last lines of the previous look.
    MatchedBefore,
    /// No output came for the requested time.
    Idle,
    /// The command has ended.
    Ended,
    /// The longest wait is over.
    OutOfTime,
}

/// The output of a command since the last look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct News {
    /// The command.
    pub background: Background,
    /// The output, up to a character or, on request, line end.
    pub bytes: Vec<u8>,
    /// The number of earlier bytes no longer in memory.
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

/// The screen of a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Screen {
    /// The command.
    pub background: Background,
    /// Its size.
    pub size: Size,
    /// The lines without trailing blanks.
    pub rows: Vec<String>,
    /// The lines that changed since the last look.
    pub changed: Vec<bool>,
    /// Line and character of the cursor, both from 0.
    pub cursor: (u16, u16),
    /// The number of bytes since the last look that were too fast to draw.
    pub n_skipped: u64,
    /// Whether the program disabled echo, as for a password.
    pub hides_input: bool,
    /// Why the wait ended.
    pub waited: Waited,
}

/// A key without a character.
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
    /// The same with modifiers: 1 plus 1 for shift, 2 for alt, 4 for control.
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

/// Input for a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Typed {
    /// Characters; a line feed is the key Enter.
    Text(String),
    /// A key.
    Key(Key),
}
