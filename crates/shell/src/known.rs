//! Checks a program of the [tables](super::programs): its options are known, its files may be read.

use sinew_tool::Unclear;

use super::options::{Operands, Parsed};
use super::plain::Writer;
use super::programs::{Check, Program};
use super::{files, scripts};

impl Writer<'_> {
    /// Returns the arguments of a known program. With `more`, files follow that are only known later.
    pub(super) fn known(
        &self,
        known: &Program,
        name: &str,
        args: &[String],
        more: bool,
    ) -> Result<Vec<String>, Unclear> {
        let parsed = known.options.parse(name, args)?;
        check_odd(name, args)?;
        self.check_files(known, name, &parsed, more)?;
        let is_walk =
            |value: Option<&str>| matches!(value, None | Some("read" | "skip" | "recurse"));
        if !["-d", "--directories"]
            .iter()
            .all(|option| known.check != Check::Grep || is_walk(parsed.value(option)))
        {
            return Err(Unclear::new(
                "shell.option",
                "what grep does with directories is shortened",
            ));
        }
        let (options, rest) =
            args.split_at_checked(parsed.end.unwrap_or(args.len())).unwrap_or_default();
        let mut run: Vec<String> = known.added.iter().map(|word| (*word).to_owned()).collect();
        run.extend(options.iter().cloned());
        // The last option about a file wins.
        run.extend(without_secrets(known, &parsed));
        run.extend(rest.iter().cloned());
        if more && parsed.end.is_none() && !known.options.is_posix {
            run.push(String::from("--"));
        }
        Ok(run)
    }

    /// Rejects directories that a program would walk past paths that rules hide.
    fn check_walk(
        &self,
        known: &Program,
        name: &str,
        parsed: &Parsed,
        is_here: bool,
    ) -> Result<(), Unclear> {
        if !walks(known, name, parsed) {
            return Ok(());
        }
        let here = String::from(".");
        let mut named = parsed.operands.iter().chain(is_here.then_some(&here));
        named.try_for_each(|dir| files::check_walk(self.scene, &self.cwd, dir))
    }

    fn check_files(
        &self,
        known: &Program,
        name: &str,
        parsed: &Parsed,
        more: bool,
    ) -> Result<(), Unclear> {
        let mut operands = parsed.operands.as_slice();
        check_values(known, name, parsed)?;
        // Of two directories, diff compares the files, through symlinks too.
        let takes_files = matches!(known.operands, Operands::Files | Operands::TextThenFiles(_));
        if more && (!takes_files || known.check == Check::Diff) {
            return Err(Unclear::new("shell.operand", format!("{name} takes no files")));
        }
        match known.operands {
            Operands::Texts => operands = &[],
            Operands::None => {
                if let Some(word) = operands.first() {
                    let why = format!("`{word}` is more than {name} takes to only read");
                    return Err(Unclear::new("shell.operand", why));
                }
            }
            Operands::UpTo(n) => {
                if n < operands.len() {
                    let why =
                        format!("{name} writes to the file that it is given behind the first");
                    return Err(Unclear::new("shell.write", why));
                }
            }
            Operands::Files => {}
            Operands::TextThenFiles(given) => {
                if !given.iter().any(|option| parsed.has(option)) {
                    let Some((text, rest)) = operands.split_first() else {
                        return Err(Unclear::new(
                            "shell.operand",
                            format!("{name} is given nothing"),
                        ));
                    };
                    match known.check {
                        Check::Awk => scripts::check_awk(text)?,
                        Check::Sed => scripts::check_sed(text)?,
                        Check::Jq => scripts::check_jq(text)?,
                        _ => {}
                    }
                    operands = rest;
                }
            }
        }
        if known.check == Check::Sed {
            let scripts = parsed
                .options
                .iter()
                .filter(|(option, _)| option == "-e" || option == "--expression");
            for (_, script) in scripts {
                scripts::check_sed(script.as_deref().unwrap_or_default())?;
            }
        }
        if known.check == Check::Date
            && let Some(word) = parsed.operands.iter().find(|word| !word.starts_with('+'))
        {
            let why = format!("`{word}` may set the clock");
            return Err(Unclear::new("shell.operand", why));
        }
        let values = parsed.options.iter().filter_map(|(_, value)| value.as_ref());
        if known.check == Check::NoAt
            && let Some(word) = operands.iter().chain(values).find(|word| word.starts_with('@'))
        {
            let why = format!("`{word}` names a file with more words");
            return Err(Unclear::new("shell.operand", why));
        }
        // awk takes a word such as `name=value` for a variable, not a file.
        let is_variable = |word: &str| known.check == Check::Awk && is_assignment(word);
        let operands = operands.iter().filter(|word| !is_variable(word));
        let mut n_named = 0;
        for file in operands.chain(&parsed.files) {
            files::check_operand(self.scene, &self.cwd, file)?;
            n_named += 1;
        }
        self.check_walk(known, name, parsed, n_named == 0)?;
        if known.check == Check::Diff { self.check_diff(parsed) } else { Ok(()) }
    }

    /// Refuses a comparison of a file with a directory.
    fn check_diff(&self, parsed: &Parsed) -> Result<(), Unclear> {
        let is_directory =
            |name: &&String| files::is_directory(self.scene.files, &self.cwd.join(name));
        let n_directories = parsed.operands.iter().filter(is_directory).count();
        let is_walk = parsed.has("-r") || parsed.has("--recursive");
        if n_directories != 0 && !(n_directories == parsed.operands.len() && is_walk) {
            let why = "diff looks for the other file in the directory";
            return Err(Unclear::new("shell.operand", why));
        }
        Ok(())
    }
}

/// Rejects option values that mean more than they seem to.
fn check_values(known: &Program, name: &str, parsed: &Parsed) -> Result<(), Unclear> {
    let is_odd = |option: &str, value: &str| match known.check {
        // The old form of an option may end with `f`, to follow.
        Check::Count => option != "-9" && !is_count(value),
        // A time zone may be a file.
        Check::Date => value.contains("TZ="),
        Check::Awk => scripts::FORMATS_OF_AWK.iter().any(|format| value.contains(format)),
        _ => false,
    };
    let odd = parsed
        .options
        .iter()
        .find_map(|(option, value)| value.as_deref().filter(|value| is_odd(option, value)));
    let is_format = |word: &&String| scripts::FORMATS_OF_AWK.iter().any(|one| word.contains(one));
    let operand = || parsed.operands.iter().find(is_format).filter(|_| known.check == Check::Awk);
    match odd.or_else(|| operand().map(String::as_str)) {
        None => Ok(()),
        Some(value) => {
            let why = format!("`{value}` is nothing that is known of {name} to only read");
            Err(Unclear::new("shell.option", why))
        }
    }
}

/// Returns whether a text is a number of lines or bytes, with a unit or without.
fn is_count(text: &str) -> bool {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let unit = digits.trim_start_matches(|c: char| c.is_ascii_digit());
    let prefix = unit.strip_suffix("iB").or_else(|| unit.strip_suffix('B')).unwrap_or(unit);
    let is_unit = matches!(prefix, "" | "k" | "K" | "m" | "M" | "G" | "T" | "P" | "E");
    unit.len() < digits.len()
        && ((is_unit && (unit.is_empty() || !prefix.is_empty())) || unit == "b")
}

/// Returns whether a program walks its directories, or the one it starts in.
fn walks(known: &Program, name: &str, parsed: &Parsed) -> bool {
    match (known.check, name) {
        (Check::Rg, _) | (_, "du" | "tree") => true,
        (Check::Grep | Check::Diff, _) => is_recursive(parsed),
        (_, "ls" | "dir" | "vdir") => parsed.has("-R") || parsed.has("--recursive"),
        _ => false,
    }
}

fn is_recursive(parsed: &Parsed) -> bool {
    ["-r", "--recursive"].iter().any(|option| parsed.has(option))
        || ["-d", "--directories"].iter().any(|option| parsed.value(option) == Some("recurse"))
}

/// Returns options with which a walking program leaves out secrets, and symlinks, which may lead anywhere.
fn without_secrets(known: &Program, parsed: &Parsed) -> Vec<String> {
    let is_recursive = is_recursive(parsed);
    let each = |word: fn(&str) -> String| files::SECRETS.iter().map(|name| word(name)).collect();
    match known.check {
        Check::Grep if is_recursive => each(|name| format!("--exclude={}", in_any_case(name))),
        Check::Rg => each(|name| format!("--iglob=!{name}")),
        Check::Diff if is_recursive => {
            let mut words: Vec<String> = each(|name| format!("--exclude={}", in_any_case(name)));
            words.push(String::from("--no-dereference"));
            words
        }
        _ => Vec::new(),
    }
}

/// Rejects words that a program parses unlike the options of others.
fn check_odd(name: &str, args: &[String]) -> Result<(), Unclear> {
    let is_odd = |(at, word): &(usize, &String)| match name {
        // The old form of `-n`, with `f` to follow, and that of `-k`.
        "tail" | "head" => *at == 0 && word.starts_with('+'),
        "sort" => word.starts_with('+'),
        // These letters always take the next word.
        "tree" => {
            let letters = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
            letters.is_some_and(|letters| 1 < letters.len() && letters.contains(['P', 'I', 'L']))
        }
        _ => false,
    };
    match args.iter().enumerate().find(is_odd).map(|(_, word)| word) {
        None => Ok(()),
        Some(word) => {
            let why = format!("`{word}` of {name} is not known to only read");
            Err(Unclear::new("shell.option", why))
        }
    }
}

/// Returns whether awk takes a word for an assignment.
fn is_assignment(word: &str) -> bool {
    let is_name = |name: &str| {
        !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    word.split_once('=').is_some_and(|(name, _)| is_name(name))
}

/// Returns a pattern that matches in any case.
fn in_any_case(pattern: &str) -> String {
    let both = |c: char| match c.is_ascii_lowercase() {
        true => format!("[{c}{}]", c.to_ascii_uppercase()),
        false => c.to_string(),
    };
    pattern.chars().map(both).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_told_from_other_values() {
        for count in ["1", "+3", "-20", "5b", "1k", "1K", "2kB", "2KiB", "10M", "1MB"] {
            assert!(is_count(count), "{count}");
        }
        for other in ["", "f", "5f", "+", "b", "+f", "5bf", "1B", "1iB", "5 ", "1x", "--1", "k"] {
            assert!(!is_count(other), "{other}");
        }
    }
}
