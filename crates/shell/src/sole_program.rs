//! Finds the program of a text that is one command, so that a missing one is reported before a person is asked.

use sinew_tool::{Analysis, CommandLine};

use super::plain::CHANGES_SHELL;

/// Builtins and keywords of shells beside those that change the shell.
const OTHERS: &[&str] = &[
    "!", ":", "[", "[[", "bindkey", "caller", "case", "compgen", "do", "done", "echo", "elif",
    "else", "esac", "false", "fc", "fi", "for", "help", "if", "in", "jobs", "kill", "print",
    "printf", "pwd", "repeat", "select", "test", "then", "time", "times", "true", "type", "until",
    "wait", "whence", "where", "which", "while", "{",
];

/// Returns the bare name of the program that a text runs, if it runs one and does nothing else.
pub fn sole_program<'a>(line: &CommandLine, analysis: &'a Analysis) -> Option<&'a str> {
    let CommandLine::Shell(_, text) = line else { return None };
    let [only] = analysis.segments.as_slice() else { return None };
    let name = only.words.first()?.as_str();
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._+-".contains(&byte);
    let is_bare = name.bytes().all(is_name) && text.trim_start().starts_with(name);
    let is_of_shell = CHANGES_SHELL.contains(&name) || OTHERS.contains(&name);
    (is_bare && !is_of_shell).then_some(name)
}
