//! Finds the files that the words of a command name, as far as possible without running it. A word is read
//! both as an argument and as a shell script, since one check too many costs nothing.
//!
//! This finds files that a user names without regard to who can write them. It is no defence against the
//! author of the configuration.

use std::path::PathBuf;

/// What separates the words of a script, besides quotes.
const BETWEEN: &str = ";&|()<>=";
const QUOTES: &[char] = &['\'', '"', '`'];

/// Returns the paths that an argument may name, or a word with an unknown start. `value` looks up variables.
pub(super) fn named(
    argument: &str,
    value: &dyn Fn(&str) -> Option<String>,
) -> Result<Vec<PathBuf>, String> {
    let between = |c: char| c.is_whitespace() || BETWEEN.contains(c);
    let bare: String = argument.chars().filter(|c| !matches!(c, '\'' | '"' | '\\')).collect();
    let goes_on = |from: &str| {
        let mut parts = bare.split(from);
        parts.next();
        parts.any(|rest| rest.starts_with('/'))
    };
    if (bare.contains("$(") && goes_on(")")) || goes_on("`") {
        return Err(argument.to_owned());
    }
    let mut paths = Vec::new();
    for word in bare.split(between).chain(argument.split(|c| between(c) || QUOTES.contains(&c))) {
        let word = word.trim_matches(QUOTES);
        // An option may have its value in the same word.
        let word = match word.strip_prefix('-') {
            Some(option) => option.find('/').and_then(|at| option.get(at..)).unwrap_or_default(),
            None => word,
        };
        paths.push(expanded(word, value).ok_or_else(|| word.to_owned())?);
    }
    let whole = argument.split(QUOTES).chain([argument]);
    paths.extend(whole.filter_map(|text| expanded(text, value)));
    paths.retain(|path| !path.is_empty());
    Ok(paths.into_iter().map(PathBuf::from).collect())
}

/// Expands a word as a shell does; `None` if the start of its path is unknown.
fn expanded(word: &str, value: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let mut rest = word;
    let mut made = String::new();
    if let Some(after) = word.strip_prefix('~') {
        match after.split('/').next() {
            Some("") => made.push_str(&value("HOME").unwrap_or_default()),
            _ => return (!after.contains('/')).then(|| word.to_owned()),
        }
        rest = after;
    }
    while let Some((before, after)) = rest.split_once('$') {
        made.push_str(before);
        let (name, after) = variable(after);
        rest = after;
        match value(name) {
            Some(value) => made.push_str(&value),
            // A literal `$`, or a positional parameter, whose word is checked by itself.
            None if name.chars().all(|c| c.is_ascii_digit()) => made.push('$'),
            None if made.is_empty() && rest.starts_with('/') => return None,
            None => {}
        }
    }
    made.push_str(rest);
    Some(made)
}

/// Splits what follows a `$` into a variable name and the rest. An expansion like `${d:-x}` has no valid
/// name.
fn variable(text: &str) -> (&str, &str) {
    if let Some((name, rest)) = text.strip_prefix('{').and_then(|text| text.split_once('}')) {
        return (name, rest);
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.split_at(text.find(|c| !is_name(c)).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(argument: &str, expected: Result<&str, &str>) {
        let value = |name: &str| match name {
            "HOME" => Some(String::from("/home/ada")),
            "P" => Some(String::from("proj")),
            _ => None,
        };
        match (named(argument, &value), expected) {
            (Ok(paths), Ok(path)) => {
                assert!(paths.contains(&PathBuf::from(path)), "{argument}: {paths:?}");
            }
            (Err(word), Err(expected)) => assert_eq!(word, expected, "{argument}"),
            (named, _) => panic!("{argument}: {named:?}"),
        }
    }

    #[test]
    fn a_word_names_what_a_shell_makes_of_it() {
        for (argument, path) in [
            ("chk", "chk"),
            ("./a b", "./a b"),
            ("exec '/r/a b' c", "/r/a b"),
            ("cd ~/proj&&./x", "~/proj"),
            ("--config=/r/x", "/r/x"),
            ("-I/r/lib", "/r/lib"),
            ("sh $HOME/$P/x.sh", "/home/ada/proj/x.sh"),
            ("sh \"${HOME}\"/proj/x.sh", "/home/ada/proj/x.sh"),
            ("sh /home/a\\da/pr'oj'/x.sh", "/home/ada/proj/x.sh"),
            ("d=$HOME; sh x", "/home/ada"),
            ("f /tmp/$SINEW_SESSION/log", "/tmp//log"),
            ("awk '{print $1/2}' x", "x"),
            ("sed 's/x$/y/' x", "x"),
            ("prettier --write \"$TOOL_INPUT_FILE_PATH\"", "prettier"),
            ("echo \"$(date)\" x", "x"),
        ] {
            check(argument, Ok(path.replacen('~', "/home/ada", 1).as_str()));
        }
        for (argument, word) in [
            ("d=1; sh $d/x.sh", "$d/x.sh"),
            ("sh ${d:-x}/x.sh", "${d:-x}/x.sh"),
            ("sh ~bob/x.sh", "~bob/x.sh"),
            ("sh $(pwd)/x.sh", "sh $(pwd)/x.sh"),
            ("sh \"$(pwd)\"/x.sh", "sh \"$(pwd)\"/x.sh"),
            ("sh `pwd`/x.sh", "sh `pwd`/x.sh"),
        ] {
            check(argument, Err(word));
        }
    }
}
