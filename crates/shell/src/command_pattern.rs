//! Word patterns that commands fit, for command rules.
//!
//! Rules that deny or ask take a word only known at run time for any word; rules that allow need known words.

use std::fmt;

use sinew_tool::{Analysis, Piece, name_matches};

/// A pattern of words. Words are literal, except that `*` matches any run of characters and `|` separates
/// alternatives. A last word `*` matches any further words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandPattern {
    written: String,
    /// The alternatives of each word.
    words: Vec<Vec<String>>,
    /// Whether further words may follow.
    is_open: bool,
}

impl CommandPattern {
    /// Parses a pattern; the error says why it names nothing.
    pub fn parse(written: &str) -> Result<Self, &'static str> {
        let mut words: Vec<&str> = written.split_whitespace().collect();
        if words.is_empty() {
            return Err("it is empty; name a program");
        }
        if written.chars().any(char::is_control) {
            return Err("it holds a control character");
        }
        let is_open = words.pop_if(|word| *word == "*").is_some();
        let alternatives = |word: &str| -> Vec<String> {
            word.split('|').map(str::to_owned).filter(|word| !word.is_empty()).collect()
        };
        let words: Vec<Vec<String>> = words.into_iter().map(alternatives).collect();
        match words.iter().any(Vec::is_empty) {
            true => Err("a word of it is only `|`"),
            false => Ok(Self { written: written.trim().to_owned(), words, is_open }),
        }
    }

    /// Returns whether every command fits.
    pub fn means_all(&self) -> bool {
        self.words.is_empty()
    }

    /// Returns whether further words may follow.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Returns whether known words fit.
    pub fn covers(&self, words: &[String]) -> bool {
        let enough = match self.is_open {
            true => self.words.len() <= words.len(),
            false => self.words.len() == words.len(),
        };
        !words.is_empty()
            && enough
            && self.words.iter().zip(words).all(|(pattern, word)| fits(pattern, word))
    }

    /// Returns whether a command fits. Options before a later word, each with a value, are skipped.
    pub fn find(&self, command: &[Piece]) -> Fit {
        let n = self.words.len();
        // How many words of the pattern may have matched after each word.
        let mut at = At { sure: vec![false; n + 1], may: vec![false; n + 1], ..At::default() };
        at.sure.first_mut().into_iter().chain(at.may.first_mut()).for_each(|begin| *begin = true);
        for piece in command {
            at = match piece {
                Piece::Known(word) => self.after_known(&at, word),
                Piece::Open { is_one, .. } => self.after_open(&at, *is_one),
            };
        }
        let ends = |found: &[bool]| found.last().copied().unwrap_or_default();
        match (ends(&at.sure), ends(&at.may)) {
            (true, _) => Fit::Yes,
            (false, true) => Fit::May,
            (false, false) => Fit::No,
        }
    }

    fn after_known(&self, at: &At, word: &str) -> At {
        let n = self.words.len();
        let fits = |index: usize| {
            let Some(pattern) = self.words.get(index) else { return false };
            let name = word.rsplit('/').next().unwrap_or(word);
            // A shell may expand `=name` to the path of a program.
            let name = name.strip_prefix('=').unwrap_or(name);
            fits(pattern, word) || (index == 0 && fits(pattern, name))
        };
        let is_option = word.len() > 1 && word.starts_with(['-', '+']);
        let step = |old: &[bool], was_option: bool| -> Vec<bool> {
            let stays = |index: usize| {
                let is_here = old.get(index).copied().unwrap_or_default();
                let is_passed = 0 < index && index < n && (is_option || was_option);
                is_here && ((index == n && self.is_open) || is_passed)
            };
            let comes = |index: usize| {
                let before = index.checked_sub(1);
                before.is_some_and(|before| {
                    old.get(before).copied().unwrap_or_default() && fits(before)
                })
            };
            (0..=n).map(|index| stays(index) || comes(index)).collect()
        };
        At {
            sure: step(&at.sure, at.was_option),
            may: step(&at.may, at.was_option),
            was_option: is_option && !word.contains('='),
        }
    }

    fn after_open(&self, at: &At, is_one: bool) -> At {
        let n = self.words.len();
        let absorbs = |old: &[bool]| self.is_open && old.get(n).copied().unwrap_or_default();
        let mut sure = vec![false; n + 1];
        if let Some(last) = sure.last_mut() {
            *last = absorbs(&at.sure);
        }
        let begins = |index: usize| at.may.iter().take(index + 1).any(|begins| *begins);
        let may = (0..=n).map(|index| match is_one {
            true => {
                let before = index.checked_sub(1).and_then(|before| at.may.get(before));
                let is_here = at.may.get(index).copied().unwrap_or_default();
                let is_passed = 0 < index && index < n && is_here;
                before.copied().unwrap_or_default() || is_passed || (index == n && absorbs(&at.may))
            }
            false => begins(index),
        });
        At { may: may.collect(), sure, was_option: true }
    }
}

/// Positions in a pattern that the words so far may reach.
#[derive(Default)]
struct At {
    sure: Vec<bool>,
    may: Vec<bool>,
    /// Whether the last word was an option, which may have a value.
    was_option: bool,
}

impl fmt::Display for CommandPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

fn fits(pattern: &[String], word: &str) -> bool {
    pattern.iter().any(|one| name_matches(one, word))
}

/// Whether a pattern fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fit {
    No,
    May,
    Yes,
}

/// Returns the commands of a line that rules must cover for the line to run unasked.
pub fn rest(analysis: &Analysis) -> Option<&[Vec<String>]> {
    let unclear = analysis.plain.as_ref().err()?;
    // Without a sandbox, each command asks.
    let rest = analysis.rest.as_deref().filter(|_| unclear.rule != UNCONTAINED)?;
    (!rest.is_empty()).then_some(rest)
}

/// Returns all commands of a line, if rules could cover it: plain ones too.
pub fn all(analysis: &Analysis) -> Option<impl Iterator<Item = &Vec<String>>> {
    let is_known = analysis.plain.is_ok() || rest(analysis).is_some();
    is_known.then(|| analysis.segments.iter().map(|segment| &segment.words))
}

/// The rule that asks for every command if there is no sandbox.
pub const UNCONTAINED: &str = "shell.sandbox_level";
