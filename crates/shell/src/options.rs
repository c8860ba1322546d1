//! Option tables of programs, from their manuals: which options only affect reading.
//!
//! A table has each harmless option with its argument, and other long ones, to resolve abbreviations alike.

use sinew_tool::Unclear;

/// The argument of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OptionArgument {
    Nothing,
    /// A text, in the same word or in the next one.
    Text,
    /// A text in the same word, or nothing.
    Maybe,
    /// The name of a file that is read.
    File,
    /// Not plain.
    Refused,
}

/// Arguments after the options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operands {
    /// Files that are read.
    Files,
    /// At most this many files that are read.
    UpTo(usize),
    Texts,
    None,
    /// A text, unless one of these options gave it, and then files.
    TextThenFiles(&'static [&'static str]),
}

/// The options of a program.
#[derive(Debug)]
pub(super) struct Options<'t> {
    /// Words such as `-abc`, `-n=`, `-f@`, `--all`, `--lines=`, `--color?`, `!--output`; `-9` is any number.
    pub(super) table: &'t str,
    /// Whether options end at the first operand.
    pub(super) is_posix: bool,
}

/// The parsed arguments of a command.
#[derive(Debug, Default)]
pub(super) struct Parsed {
    /// Options by their full names, with their values.
    pub(super) options: Vec<(String, Option<String>)>,
    pub(super) operands: Vec<String>,
    /// Files that options read.
    pub(super) files: Vec<String>,
    /// The number of words before the first operand.
    pub(super) n_before: usize,
    /// Index of the word that ends the options, if any.
    pub(super) end: Option<usize>,
}

impl Parsed {
    fn add(&mut self, name: String, takes: OptionArgument, value: Option<String>) {
        if let (OptionArgument::File, Some(file)) = (takes, &value) {
            self.files.push(file.clone());
        }
        self.options.push((name, value));
    }

    pub(super) fn value(&self, name: &str) -> Option<&str> {
        let given = self.options.iter().rev().find(|(option, _)| option == name)?;
        given.1.as_deref()
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.options.iter().any(|(option, _)| option == name)
    }
}

impl<'t> Options<'t> {
    fn short(&self, wanted: char) -> OptionArgument {
        for entry in self.table.split_ascii_whitespace() {
            let Some(letters) = entry.strip_prefix('-').filter(|rest| !rest.starts_with('-'))
            else {
                continue;
            };
            let takes = match letters.chars().next_back() {
                Some('=') => OptionArgument::Text,
                Some('@') => OptionArgument::File,
                Some('?') => OptionArgument::Maybe,
                _ => OptionArgument::Nothing,
            };
            let letters = letters.trim_end_matches(['=', '@', '?']);
            if letters != "9" && letters.contains(wanted) {
                return takes;
            }
        }
        OptionArgument::Refused
    }

    /// Resolves a long option to its full name and its argument.
    fn long(&self, wanted: &str) -> Option<(&'t str, OptionArgument)> {
        let mut found: Option<(&'t str, OptionArgument)> = None;
        for entry in self.table.split_ascii_whitespace() {
            let (entry, is_refused) = match entry.strip_prefix('!') {
                Some(entry) => (entry, true),
                None => (entry, false),
            };
            let Some(name) = entry.strip_prefix("--") else { continue };
            let takes = match name.chars().next_back() {
                _ if is_refused => OptionArgument::Refused,
                Some('=') => OptionArgument::Text,
                Some('@') => OptionArgument::File,
                Some('?') => OptionArgument::Maybe,
                _ => OptionArgument::Nothing,
            };
            let name = name.trim_end_matches(['=', '@', '?']);
            if name == wanted {
                return Some((name, takes));
            }
            if name.starts_with(wanted) {
                // A program rejects an ambiguous abbreviation, or takes either option.
                let takes = found.map_or(takes, |_| OptionArgument::Refused);
                found = Some((name, takes));
            }
        }
        found
    }

    fn has_numbers(&self) -> bool {
        self.table.split_ascii_whitespace().any(|entry| entry == "-9")
    }

    /// Parses the arguments of a program, as GNU `getopt_long` does.
    pub(super) fn parse(&self, program: &str, words: &[String]) -> Result<Parsed, Unclear> {
        let refused = |word: &str| {
            Unclear::new("shell.option", format!("`{word}` of {program} is not known to only read"))
        };
        let mut parsed = Parsed::default();
        let mut left = words.iter();
        let mut n_seen = 0;
        while let Some(word) = left.next() {
            n_seen += 1;
            if word == "--" {
                parsed.end = Some(n_seen - 1);
                if parsed.operands.is_empty() {
                    parsed.n_before = n_seen;
                }
                parsed.operands.extend(left.cloned());
                return Ok(parsed);
            }
            if let Some(long) = word.strip_prefix("--") {
                let (name, value) = match long.split_once('=') {
                    Some((name, value)) => (name, Some(value.to_owned())),
                    None => (long, None),
                };
                let (name, takes) = self.long(name).ok_or_else(|| refused(word))?;
                let value = match (takes, value) {
                    (OptionArgument::Refused, _) | (OptionArgument::Nothing, Some(_)) => {
                        return Err(refused(word));
                    }
                    (OptionArgument::Text | OptionArgument::File, None) => {
                        n_seen += 1;
                        Some(left.next().ok_or_else(|| refused(word))?.clone())
                    }
                    (_, value) => value,
                };
                parsed.add(format!("--{name}"), takes, value);
                continue;
            }
            let letters = match word.strip_prefix('-') {
                Some(letters) if !letters.is_empty() => letters,
                _ => {
                    if parsed.operands.is_empty() {
                        parsed.n_before = n_seen - 1;
                    }
                    parsed.operands.push(word.clone());
                    if self.is_posix {
                        parsed.operands.extend(left.cloned());
                        return Ok(parsed);
                    }
                    continue;
                }
            };
            if self.has_numbers() && letters.bytes().all(|byte| byte.is_ascii_digit()) {
                parsed.options.push((String::from("-9"), Some(letters.to_owned())));
                continue;
            }
            n_seen += self.letters(letters, &mut left, &mut parsed).ok_or_else(|| refused(word))?;
        }
        if parsed.operands.is_empty() {
            parsed.n_before = n_seen;
        }
        Ok(parsed)
    }

    /// Parses the letters of one word; returns how many more words they take, `None` if one is refused.
    fn letters<'w>(
        &self,
        letters: &str,
        left: &mut impl Iterator<Item = &'w String>,
        parsed: &mut Parsed,
    ) -> Option<usize> {
        let mut rest = letters.chars();
        while let Some(letter) = rest.next() {
            let takes = self.short(letter);
            let joined = Some(rest.as_str().to_owned()).filter(|value| !value.is_empty());
            let (value, n_more) = match (takes, joined) {
                (OptionArgument::Refused, _) => return None,
                (OptionArgument::Nothing, _) => (None, 0),
                (OptionArgument::Text | OptionArgument::File, None) => {
                    (Some(left.next()?.clone()), 1)
                }
                (OptionArgument::Text | OptionArgument::File | OptionArgument::Maybe, joined) => {
                    (joined, 0)
                }
            };
            parsed.add(format!("-{letter}"), takes, value);
            if takes != OptionArgument::Nothing {
                return Some(n_more);
            }
        }
        Some(0)
    }
}
