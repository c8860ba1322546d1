//! Tells whether a command can load files that its words do not name: modules, includes, hooks, interpreters.
//!
//! An approval covers the files that are named. Of most programs nobody knows what else they load, so a short list
//! holds those that load nothing; every other program counts as one that may.

use sinew_tool::CommandLine;

use super::commands::{Commands, Piece};

/// Programs and commands of the shell that run no other program and load no file that they are not given.
const LOADING_NOTHING: &[&str] = &[
    ":",
    "basename",
    "cat",
    "cd",
    "chgrp",
    "chmod",
    "chown",
    "cmp",
    "comm",
    "cp",
    "cut",
    "date",
    "dirname",
    "du",
    "echo",
    "egrep",
    "expr",
    "false",
    "fgrep",
    "grep",
    "head",
    "id",
    "kill",
    "ln",
    "ls",
    "md5sum",
    "mkdir",
    "mkfifo",
    "mktemp",
    "mv",
    "nl",
    "paste",
    "printf",
    "pwd",
    "readlink",
    "realpath",
    "rev",
    "rm",
    "rmdir",
    "seq",
    "sha1sum",
    "sha256sum",
    "sha512sum",
    "sleep",
    "stat",
    "tac",
    "tail",
    "tee",
    "test",
    "touch",
    "tr",
    "true",
    "truncate",
    "uname",
    "uniq",
    "unlink",
    "wc",
    "whoami",
];

/// Returns whether a command may load files that its words do not name. `is_written` says of the name of a program
/// whether it lies where calls can write.
pub(crate) fn loads_unnamed(line: &CommandLine, is_written: impl Fn(&str) -> bool) -> bool {
    if let CommandLine::Shell(_, text) = line
        && (is_computed(text) || sets_variable(text))
    {
        return true;
    }
    let commands = Commands::of(line);
    let loads = |words: &Vec<Piece>| match words.first() {
        Some(Piece::Known(program)) => {
            let name = program.rsplit('/').next().unwrap_or_default();
            !LOADING_NOTHING.contains(&name) || is_written(program)
        }
        Some(Piece::Open { .. }) => true,
        None => false,
    };
    commands.unclear.is_some() || commands.all.iter().any(loads)
}

/// Returns whether words of a text are only known when it runs.
fn is_computed(text: &str) -> bool {
    text.contains(['$', '`', '*', '?', '[', '{', '~'])
}

/// Returns whether a text may set a variable: loaders and interpreters take code from some.
fn sets_variable(text: &str) -> bool {
    let ends = |c: char| c.is_whitespace() || ";|&()".contains(c);
    text.split(ends).any(|word| {
        let name = word.split_once('=').map(|(name, _)| name.trim_end_matches('+'));
        let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
        name.is_some_and(|name| !name.is_empty() && name.chars().all(is_letter))
    })
}

#[cfg(test)]
mod tests {
    use sinew_tool::Shell;

    use super::*;

    #[test]
    fn programs_of_the_list_load_nothing() {
        for (text, loads) in [
            ("rm a.txt", false),
            ("cd sub && mkdir -p x && cp a.txt x/ && ls -l > out", false),
            ("/usr/bin/touch a; echo a=b:c d", true),
            ("/usr/bin/touch a; echo a", false),
            ("./rm a", true),
            ("node .", true),
            ("node lib", true),
            ("python3 -m mod", true),
            ("make", true),
            ("./run.sh", true),
            ("git commit -m x", true),
            ("rm a; git commit -m x", true),
            ("sh -c 'rm a'", true),
            ("env rm a", true),
            ("LD_PRELOAD=./x.so rm a", true),
            ("rm() { ./x; }; rm a", true),
            ("rm $A", true),
            ("rm *.txt", true),
            ("find . -exec ./x {} +", true),
            ("sort --compress-program=./x a", true),
            ("rm 'a", true),
        ] {
            let line = CommandLine::Shell(Shell::User, text.to_owned());
            let found = loads_unnamed(&line, |name| name.starts_with("./"));
            assert_eq!(found, loads, "{text}");
        }
        let argv =
            |words: &[&str]| CommandLine::Argv(words.iter().map(ToString::to_string).collect());
        assert!(!loads_unnamed(&argv(&["rm", "$A", "*"]), |_| false));
        assert!(loads_unnamed(&argv(&["node", "."]), |_| false));
        assert!(loads_unnamed(&argv(&["rm", "a"]), |_| true));
    }
}
