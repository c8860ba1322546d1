//! Puts arguments into the instructions of a skill, and parts them from the commands in them.
//!
//! No argument becomes a part of a command's text: commands get arguments as parameters and variables of their shell.

use sinew_guard::shell_quoted;

use super::SkillFile;

/// A piece of instructions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Text, with arguments in their places.
    Text(String),
    /// A command, in whose place its output belongs.
    Command(String),
}

/// The values that replace placeholders in instructions.
#[derive(Debug, Clone, Copy)]
pub struct TemplateValues<'a> {
    /// The text for `$ARGUMENTS`.
    pub arguments: &'a str,
    /// Values of variables.
    pub variables: &'a [(String, String)],
}

/// The most commands of one skill.
const MAX_COMMANDS: usize = 20;
/// The names of the directory of the skill.
const DIRECTORY: [&str; 3] = ["SKILL_DIR", "CLAUDE_SKILL_DIR", "AIONRS_SKILL_DIR"];

impl SkillFile {
    /// Returns the instructions with these values, or why they cannot be made, with the argument that is wrong.
    pub fn pieces(&self, values: TemplateValues<'_>) -> Result<Vec<Piece>, (&'static str, String)> {
        let named = self.values(values)?;
        let words: Vec<&str> = values.arguments.split_whitespace().collect();
        let filler = Filler { arguments: values.arguments, words: &words, named: &named };
        let wordless = Filler { words: &[], ..filler };
        let mut pieces = Vec::new();
        let mut n_commands = 0;
        let mut has_arguments = false;
        for (at, part) in commands_parted(&self.body).into_iter().enumerate() {
            pieces.push(match at % 2 {
                0 => {
                    let filled = filler.filled(part);
                    has_arguments |= part.contains(ARGUMENTS) || filled != wordless.filled(part);
                    Piece::Text(filled)
                }
                _ => {
                    n_commands += 1;
                    has_arguments |= names_arguments(part);
                    Piece::Command(filler.command(part))
                }
            });
        }
        if MAX_COMMANDS < n_commands {
            return Err(("skill", format!("has {n_commands} commands, {MAX_COMMANDS} may be")));
        }
        if !has_arguments && !values.arguments.trim().is_empty() {
            pieces.push(Piece::Text(format!("\n\nArguments: {}\n", values.arguments.trim())));
        }
        Ok(pieces)
    }

    /// Returns the values of all variables.
    fn values(
        &self,
        values: TemplateValues<'_>,
    ) -> Result<Vec<(String, String)>, (&'static str, String)> {
        let known = &self.head.variables;
        let given = |name: &str| values.variables.iter().find(|(given, _)| given == name);
        let unknown =
            values.variables.iter().find(|(name, _)| known.iter().all(|one| one.name != *name));
        if let Some((unknown, _)) = unknown {
            let names: Vec<&str> = known.iter().map(|one| one.name.as_str()).collect();
            let names = if names.is_empty() { String::from("none") } else { names.join(", ") };
            let unknown = sinew_tool::shown_line(unknown);
            return Err((
                "variables",
                format!("has `{unknown}`, but the skill's variables are: {names}"),
            ));
        }
        let mut all = Vec::new();
        for variable in known {
            let value = given(&variable.name).map(|(_, value)| value.clone());
            match value.or_else(|| variable.default.clone()) {
                Some(value) => all.push((variable.name.clone(), value)),
                None => return Err(("variables", format!("lacks `{}`", variable.name))),
            }
        }
        let dir = self.dir.to_string_lossy();
        all.extend(DIRECTORY.map(|name| (name.to_owned(), dir.clone().into_owned())));
        Ok(all)
    }
}

/// Parts a text at its commands, `` !`command` ``: every second part is a command.
fn commands_parted(body: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut rest, mut from) = (body, 0);
    while let Some(at) = rest.get(from..).and_then(|tail| tail.find("!`")).map(|at| from + at) {
        let begins = rest.get(..at).is_some_and(|before| {
            before.is_empty()
                || before.ends_with(char::is_whitespace)
                || before.ends_with(['(', '*'])
        });
        let behind = rest.get(at + 2..).unwrap_or_default();
        let end = behind
            .find('`')
            .filter(|end| !behind.get(..*end).is_some_and(|one| one.contains('\n')));
        match end.filter(|end| begins && 0 < *end) {
            Some(end) => {
                parts.push(rest.get(..at).unwrap_or_default());
                parts.push(behind.get(..end).unwrap_or_default());
                rest = behind.get(end + 1..).unwrap_or_default();
                from = 0;
            }
            None => from = at + 2,
        }
    }
    parts.push(rest);
    parts
}

/// The place of all arguments.
const ARGUMENTS: &str = "$ARGUMENTS";

/// Returns whether a command has parameters.
fn names_arguments(text: &str) -> bool {
    text.contains(ARGUMENTS)
        || text.match_indices('$').any(|(at, _)| {
            let behind = text.get(at + 1..).unwrap_or_default().trim_start_matches('{');
            behind.starts_with(|next: char| {
                next.is_ascii_digit() && next != '0' || "@*".contains(next)
            })
        })
}

/// Puts values into texts.
#[derive(Clone, Copy)]
struct Filler<'a> {
    arguments: &'a str,
    words: &'a [&'a str],
    named: &'a [(String, String)],
}

impl Filler<'_> {
    /// Returns a text with values in their places. What names no value stays as it is written.
    fn filled(&self, text: &str) -> String {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(['$', '{']) {
            let (before, tail) = rest.split_at(at);
            filled.push_str(before);
            match self.value(tail) {
                Some((value, n)) => {
                    filled.push_str(&value);
                    rest = tail.get(n..).unwrap_or_default();
                }
                None => {
                    let n = tail.chars().next().map_or(1, char::len_utf8);
                    filled.push_str(tail.get(..n).unwrap_or_default());
                    rest = tail.get(n..).unwrap_or_default();
                }
            }
        }
        filled.push_str(rest);
        filled
    }

    /// Returns the value that a text begins with, and how many bytes name it: `$ARGUMENTS`, `$0` (the first word),
    /// `${1}` (the first word too), `${NAME}` or `{{NAME}}`.
    fn value(&self, text: &str) -> Option<(String, usize)> {
        let within = |open: &str, close: &str| {
            let inner = text.strip_prefix(open)?;
            let end = inner.find(close)?;
            Some((inner.get(..end)?, open.len() + end + close.len()))
        };
        if let Some(behind) = text.strip_prefix(ARGUMENTS) {
            let goes_on = behind.starts_with(|next: char| {
                next.is_ascii_alphanumeric() || next == '_' || next == '['
            });
            return (!goes_on).then(|| (self.arguments.to_owned(), ARGUMENTS.len()));
        }
        if let Some((name, n)) = within("${", "}") {
            let word = name.parse::<usize>().ok().and_then(|at| self.words.get(at.checked_sub(1)?));
            return Some((word.map(ToString::to_string).or_else(|| self.named(name))?, n));
        }
        if let Some((name, n)) = within("{{", "}}") {
            return Some((self.named(name.trim())?, n));
        }
        let mut behind = text.strip_prefix('$')?.chars();
        let digit = behind.next()?.to_digit(10)?;
        if behind.next().is_some_and(|next| next.is_ascii_alphanumeric()) {
            return None;
        }
        let word = self.words.get(usize::try_from(digit).ok()?)?;
        Some(((*word).to_owned(), 2))
    }

    fn named(&self, name: &str) -> Option<String> {
        let found = self.named.iter().find(|(known, _)| known == name)?;
        Some(found.1.clone())
    }

    /// Returns a command with its parameters and variables before it, where it names any.
    fn command(&self, command: &str) -> String {
        let mut lines = String::new();
        if command.contains('$') {
            lines.push_str(&format!("ARGUMENTS={}\n", shell_quoted(self.arguments)));
            for (name, value) in
                self.named.iter().filter(|(name, _)| command.contains(name.as_str()))
            {
                lines.push_str(&format!("{name}={}\n", shell_quoted(value)));
            }
            let words: Vec<String> = self.words.iter().map(|word| shell_quoted(word)).collect();
            lines.push_str(&format!("set -- {}\n", words.join(" ")));
        }
        lines + command.trim()
    }
}
