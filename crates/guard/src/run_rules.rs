//! Rules for commands: each has a pattern of words, and a verdict for what fits it.
//!
//! Rules that deny or ask look at every command of a line, [programs that run another one looked
//! through](crate::shell::Commands). A word that is only known when it runs may be any word, and then
//! such a rule asks. Rules that allow look at the line as it is: each of its commands must fit one of them, word
//! by word, or be plain, and nothing else may stand in it.

use std::fmt;

use sinew_tool::{Analysis, CommandLine, Ruling, Verdict};

use crate::judge::name_matches;
use crate::shell::{self, Piece};

/// The name of the rule in a ruling that one of these rules made.
pub(crate) const RULE: &str = "run.rules";

/// A pattern of words.
///
/// Words stand as they are; `*` in one stands for any run of characters, `|` parts words of which one
/// must fit, and a last word `*` stands for any further words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandPattern {
    written: String,
    /// Each with its alternatives.
    words: Vec<Vec<String>>,
    /// Whether further words may follow.
    is_open: bool,
}

impl CommandPattern {
    /// Reads a pattern; one that names nothing is refused with the reason.
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

    /// Returns whether known words fit as they are.
    pub fn covers(&self, words: &[String]) -> bool {
        let enough = match self.is_open {
            true => self.words.len() <= words.len(),
            false => self.words.len() == words.len(),
        };
        !words.is_empty()
            && enough
            && self.words.iter().zip(words).all(|(pattern, word)| fits(pattern, word))
    }

    /// Returns whether a command fits. Options that stand before a later word of the pattern, with a value
    /// each, are passed over.
    fn find(&self, command: &[Piece]) -> Fit {
        let n = self.words.len();
        // How many words of the pattern may have been found after each word.
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
            // A shell may take it for the path of a program.
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

/// Where in a pattern the words so far may lead.
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

/// Whether a rule is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    No,
    May,
    Yes,
}

/// A rule for commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRule {
    /// What becomes of a command that fits.
    pub verdict: Verdict,
    /// The words that fit.
    pub command: CommandPattern,
    /// Why, in words for people; may be empty.
    pub why: String,
    /// Where the rule stands.
    pub origin: String,
}

impl RunRule {
    /// Returns whether the rule is meant by a line, by itself.
    pub fn matches(&self, line: &CommandLine, analysis: &Analysis) -> bool {
        match self.verdict {
            Verdict::Allow => {
                let covers = |words: &Vec<String>| self.command.covers(words);
                match (&analysis.plain, &analysis.rest) {
                    (Err(_), Some(rest)) => !rest.is_empty() && rest.iter().all(covers),
                    (Err(_), None) => false,
                    // Nothing must cover what is plain.
                    (Ok(_), _) => analysis.segments.iter().all(|part| covers(&part.words)),
                }
            }
            Verdict::Ask | Verdict::Deny => self.fit(&shell::Commands::of(line)) == Fit::Yes,
        }
    }

    /// Returns whether the rule may be meant by a line, for all that is known before it runs.
    pub fn may_match(&self, line: &CommandLine, analysis: &Analysis) -> bool {
        match self.verdict {
            Verdict::Allow => self.matches(line, analysis),
            Verdict::Ask | Verdict::Deny => {
                let commands = shell::Commands::of(line);
                commands.unclear.is_some() || self.fit(&commands) != Fit::No
            }
        }
    }

    fn fit(&self, commands: &shell::Commands) -> Fit {
        let fits = commands.all.iter().map(|command| self.command.find(command));
        fits.max().unwrap_or(Fit::No)
    }

    fn ruling(&self, fit: Fit, unclear: Option<&str>) -> Ruling {
        let Self { command, origin, .. } = self;
        let why = match self.why.is_empty() {
            true => String::new(),
            false => format!(": {}", self.why),
        };
        let does = match self.verdict {
            Verdict::Allow => "allows it",
            Verdict::Ask => "asks",
            Verdict::Deny => "denies it",
        };
        let (verdict, why) = match (fit, unclear) {
            (Fit::Yes, _) => {
                (self.verdict, format!("the rule `{command}` of {origin} {does}{why}"))
            }
            (_, Some(unclear)) => (
                Verdict::Ask,
                format!("{unclear}, and the rule `{command}` of {origin} may mean it{why}"),
            ),
            (_, None) => (
                Verdict::Ask,
                format!(
                    "a word of it is only known when it runs, and the rule `{command}` of {origin} \
                     may mean it{why}"
                ),
            ),
        };
        Ruling { verdict, rule: RULE, why: why.into() }
    }
}

/// Returns what the rules that deny and ask say of a line.
pub(crate) fn held(rules: &[RunRule], line: &CommandLine) -> Option<Ruling> {
    let mut rules = rules.iter().filter(|rule| rule.verdict != Verdict::Allow).peekable();
    rules.peek()?;
    let commands = shell::Commands::of(line);
    let found = rules.filter_map(|rule| {
        let fit = rule.fit(&commands);
        match (fit, commands.unclear) {
            (Fit::No, None) => None,
            (fit, unclear) => Some((fit, rule.ruling(fit, unclear))),
        }
    });
    // The first of the strongest: where verdicts are the same, what surely fits tells more.
    let strength = |found: &(Fit, Ruling)| (found.1.verdict, found.0);
    found
        .reduce(|one, other| if strength(&one) < strength(&other) { other } else { one })
        .map(|(_, ruling)| ruling)
}

/// Returns what the rules that allow say of a line that is no plain read.
pub(crate) fn allowed(rules: &[RunRule], analysis: &Analysis) -> Option<Ruling> {
    if !rules.iter().any(|rule| rule.verdict == Verdict::Allow) {
        return None;
    }
    let covering = |words: &Vec<String>| {
        rules.iter().find(|rule| rule.verdict == Verdict::Allow && rule.command.covers(words))
    };
    let rest = rest(analysis)?;
    let covered: Option<Vec<&RunRule>> = rest.iter().map(covering).collect();
    covered?.first().map(|rule| rule.ruling(Fit::Yes, None))
}

/// Returns the commands of a line that something must cover for the line to run unasked.
pub(crate) fn rest(analysis: &Analysis) -> Option<&[Vec<String>]> {
    let unclear = analysis.plain.as_ref().err()?;
    // Where nothing contains commands, each of them asks.
    let rest = analysis.rest.as_deref().filter(|_| unclear.rule != UNCONTAINED)?;
    (!rest.is_empty()).then_some(rest)
}

/// The rule that asks for every command where nothing contains commands.
const UNCONTAINED: &str = "shell.rung";
