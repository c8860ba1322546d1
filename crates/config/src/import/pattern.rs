//! Converts globs whose `*` matches `/` to sinew's globs, whose `*` does not.
//!
//! A restriction's pattern may only widen; an allow rule's pattern may only narrow, or is dropped.

use std::path::Path;

/// Characters with a meaning in some glob syntax.
const SPECIAL: &str = "*?[]{}()!|\\+@";
/// Shell metacharacters.
const SHELL: &str = "\"'`$&;<>#~\n";

/// The limit of expanded stars: each doubles the list.
const MAX_STARS: usize = 4;

/// Returns globs for exactly the same paths, or `None`.
pub(super) fn paths(pattern: &str, home: Option<&Path>) -> Option<Vec<String>> {
    let pattern = at_home(pattern, home)?;
    let pattern = pattern.strip_prefix("./").unwrap_or(&pattern);
    let is_odd = pattern.chars().any(|sign| sign != '*' && SPECIAL.contains(sign));
    if is_odd || pattern.is_empty() || pattern.split('/').any(|part| part == "..") {
        return None;
    }
    crossing(pattern)
}

/// Returns globs for at least the same paths.
pub(super) fn wide_paths(pattern: &str, home: Option<&Path>) -> Vec<String> {
    if let Some(globs) = paths(pattern, home) {
        return globs;
    }
    let pattern = at_home(pattern, home).unwrap_or_default();
    let pattern = pattern.strip_prefix("./").unwrap_or(&pattern);
    let head = pattern.split(|sign| SPECIAL.contains(sign)).next().unwrap_or_default();
    let is_plain = !head.is_empty() && !head.split('/').any(|part| part == "..");
    let wide = is_plain.then(|| crossing(&format!("{head}*"))).flatten();
    wide.unwrap_or_else(|| vec![String::from("**")])
}

/// Expands `~` or `$HOME` at the start.
fn at_home(pattern: &str, home: Option<&Path>) -> Option<String> {
    let rest = ["~", "$HOME"].into_iter().find_map(|sign| {
        pattern.strip_prefix(sign).filter(|rest| rest.is_empty() || rest.starts_with('/'))
    });
    match rest {
        None => Some(pattern.to_owned()),
        Some(rest) => Some(format!("{}{rest}", home?.to_str()?)),
    }
}

/// Expands each star that may cross directories. A star at the end needs none, since a rule includes
/// everything beneath a path.
fn crossing(pattern: &str) -> Option<Vec<String>> {
    let mut parts = pattern.split('*').peekable();
    let first = parts.next()?;
    let mut globs = match first {
        "" => vec![String::from("**/")],
        first => vec![first.to_owned()],
    };
    let mut is_start = first.is_empty();
    let mut n_stars = 0;
    while let Some(part) = parts.next() {
        let is_end = part.is_empty() && parts.peek().is_none();
        if part.is_empty() && !is_end {
            continue;
        }
        n_stars += 1;
        if MAX_STARS < n_stars {
            return None;
        }
        let stars: &[&str] = if is_start || is_end { &["*"] } else { &["*", "*/**/*"] };
        let longer = |glob: &String| {
            stars.iter().map(|star| format!("{glob}{star}{part}")).collect::<Vec<_>>()
        };
        globs = globs.iter().flat_map(longer).collect();
        is_start = false;
    }
    Some(globs)
}

/// Returns a word pattern for no more commands, or `None`.
pub(super) fn command(pattern: &str) -> Option<String> {
    let is_odd = |sign: char| (sign != '*' && SPECIAL.contains(sign)) || SHELL.contains(sign);
    let mut words: Vec<&str> = pattern.split(' ').collect();
    if pattern.chars().any(is_odd) || pattern.is_empty() || words.contains(&"") {
        return None;
    }
    // A lone star at the end matches one word or more there, and zero or more here.
    if 1 < words.len() && words.last() == Some(&"*") {
        words.push("*");
    }
    Some(words.join(" "))
}

/// Returns a word pattern for at least the same commands.
pub(super) fn wide_command(pattern: &str) -> String {
    let mut words = Vec::new();
    for word in pattern.split_whitespace() {
        let odd = |sign: char| SPECIAL.contains(sign) || SHELL.contains(sign) || sign.is_control();
        match word.find(odd) {
            None => words.push(word.to_owned()),
            Some(at) => {
                let head = word.get(..at).unwrap_or_default();
                if !head.is_empty() {
                    words.push(format!("{head}*"));
                }
                words.push(String::from("*"));
                break;
            }
        }
    }
    if words.is_empty() {
        words.push(String::from("*"));
    }
    words.join(" ")
}

/// Returns what a command's exception must not let through: the same program by another path, and options
/// before its words, which exceptions skip.
pub(super) fn besides(command: &str) -> Vec<String> {
    let words: Vec<&str> = command.split(' ').collect();
    let mut besides = Vec::new();
    if let Some((program, rest)) = words.split_first().filter(|(program, _)| **program != "*") {
        besides.push([&[&*format!("*/{program}")], rest].concat().join(" "));
    }
    let n_words = words.iter().filter(|word| **word != "*").count();
    for n in 1..n_words {
        let head = words.get(..n).unwrap_or_default().join(" ");
        besides.push(format!("{head} -*|+* *"));
    }
    besides
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_that_cross_are_written_out() {
        for (pattern, globs) in [
            ("*", Some(&["**/*"][..])),
            ("*.env", Some(&["**/*.env"])),
            ("src/*", Some(&["src/*"])),
            ("./a*b", Some(&["a*b", "a*/**/*b"])),
            ("a**b", Some(&["a*b", "a*/**/*b"])),
            ("/x/*.rs", Some(&["/x/*.rs", "/x/*/**/*.rs"])),
            ("~/x", Some(&["/home/me/x"])),
            ("$HOME/*", Some(&["/home/me/*"])),
            ("*credentials*", Some(&["**/*credentials*"])),
            ("a/../b", None),
            ("a?b", None),
            ("{a,b}", None),
            ("a*b*c*d*e*f", None),
            ("", None),
        ] {
            let expected = globs.map(|globs| globs.iter().map(ToString::to_string).collect());
            assert_eq!(paths(pattern, Some(Path::new("/home/me"))), expected, "{pattern}");
        }
        for (pattern, globs) in
            [("a?b", "a*"), ("a/../b", "**"), ("{a,b}", "**"), ("!x", "**"), ("~/x", "**")]
        {
            assert_eq!(wide_paths(pattern, None), [globs], "{pattern}");
        }
    }

    #[test]
    fn commands_are_narrow_where_they_allow_and_wide_where_they_do_not() {
        for (pattern, narrow, wide) in [
            ("git *", Some("git * *"), "git *"),
            ("git status", Some("git status"), "git status"),
            ("git*", Some("git*"), "git* *"),
            ("npm run *:x", Some("npm run *:x"), "npm run *"),
            ("*", Some("*"), "*"),
            ("* --force", Some("* --force"), "*"),
            ("echo \"a b\"", None, "echo *"),
            ("a?c d", None, "a* *"),
            ("a  b", None, "a b"),
            ("", None, "*"),
        ] {
            assert_eq!(command(pattern).as_deref(), narrow, "{pattern}");
            assert_eq!(wide_command(pattern), wide, "{pattern}");
        }
        assert_eq!(besides("ls"), ["*/ls"]);
        assert_eq!(besides("git status"), ["*/git status", "git -*|+* *"]);
        assert_eq!(besides("*"), [""; 0]);
    }
}
