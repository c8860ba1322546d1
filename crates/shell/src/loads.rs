//! Tells whether a command can load files that its words do not name: modules, includes, hooks, interpreters.
//!
//! An approval covers named files only. Programs that load nothing else are listed; any other may load some.

use sinew_tool::{CommandLine, CommandList, Piece};

use super::tree;

/// Programs and builtins that load only given files, and run only programs that [`CommandList`] has too.
const LOADING_NOTHING: &[&str] = &[
    ":",
    "[",
    "basename",
    "cat",
    "cd",
    "chgrp",
    "chmod",
    "chown",
    "cmp",
    "comm",
    "command",
    "cp",
    "cut",
    "date",
    "dd",
    "diff",
    "dirname",
    "du",
    "echo",
    "egrep",
    "exit",
    "export",
    "expr",
    "false",
    "fgrep",
    "grep",
    "head",
    "id",
    "jq",
    "kill",
    "ln",
    "ls",
    "md5sum",
    "mkdir",
    "mkfifo",
    "mktemp",
    "mv",
    "nl",
    "nohup",
    "paste",
    "popd",
    "printf",
    "pushd",
    "pwd",
    "read",
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
    "time",
    "touch",
    "tr",
    "true",
    "truncate",
    "uname",
    "uniq",
    "unset",
    "unlink",
    "wc",
    "whoami",
];

/// Directories of system programs; elsewhere, a program of a listed name may be another one.
const SYSTEM_DIRS: &[&str] = &["/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin"];

/// Returns whether a command may load unnamed files. `is_written`: whether calls can write a program.
pub fn loads_unnamed(
    line: &CommandLine,
    commands: &CommandList,
    is_written: impl Fn(&str) -> bool,
) -> bool {
    if let CommandLine::Shell(_, text) = line
        && sets_variable(text)
    {
        return true;
    }
    let loads = |words: &Vec<Piece>| match words.split_first() {
        Some((Piece::Known(program), arguments)) => {
            let name = match program.rsplit_once('/') {
                None => program,
                Some((dir, name)) if SYSTEM_DIRS.contains(&dir) => name,
                Some(_) => return true,
            };
            let is_listed = LOADING_NOTHING.contains(&name);
            !is_listed || is_written(program) || arguments_load(name, arguments)
        }
        Some((Piece::Open { .. }, _)) => true,
        None => false,
    };
    commands.unclear.is_some() || commands.all.iter().any(loads)
}

/// Returns whether arguments of a listed program load a file, set a loader's variable or run an array index.
fn arguments_load(name: &str, arguments: &[Piece]) -> bool {
    let is_any =
        |holds: &dyn Fn(&str) -> bool| arguments.iter().any(|word| word.known().is_none_or(holds));
    match name {
        "read" | "export" | "unset" => {
            is_any(&|word| !is_harmless(word.split('=').next().unwrap_or_default()))
        }
        "printf" => {
            let first = arguments.first();
            first.is_some_and(|word| word.known().is_none_or(|word| word.starts_with("-v")))
        }
        "test" | "[" => arguments.iter().any(|word| match word {
            Piece::Known(word) => word == "-v" || word.contains("$("),
            Piece::Open { raw, .. } => raw.contains("$("),
        }),
        // jq has modules, and programs in files.
        "jq" => is_any(&|word| {
            let short = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
            short.is_some_and(|letters| letters.contains(['L', 'f']))
                || word.starts_with("--lib")
                || word.starts_with("--from")
                || ["import", "include"].iter().any(|load| word.contains(load))
        }),
        _ => false,
    }
}

/// Returns whether no loader or interpreter reads a variable: the names of those are in capitals.
fn is_harmless(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c))
}

/// Returns whether a text itself, not a command in it, may set a variable that loaders take code from.
fn sets_variable(text: &str) -> bool {
    const KINDS: [&str; 4] =
        ["variable_assignment", "for_statement", "c_style_for_statement", "expansion"];
    // Arithmetic sets variables and evaluates their values.
    if text.contains("((") || text.contains("$[") {
        return true;
    }
    let Ok(parsed) = tree::parse(text) else { return true };
    tree::nodes(&parsed, &KINDS).into_iter().any(|(node, _)| {
        let raw = text.get(node.byte_range()).unwrap_or_default();
        let name = match node.kind() {
            "variable_assignment" => raw.split('=').next().map(|name| name.trim_end_matches('+')),
            "for_statement" => node
                .child_by_field_name("variable")
                .and_then(|variable| text.get(variable.byte_range())),
            // A default may be assigned, and an index is evaluated.
            "expansion" => (!raw.contains(['=', '[', '@', '!'])).then_some(""),
            _ => None,
        };
        name.is_none_or(|name| !is_harmless(name))
    })
}

#[cfg(test)]
mod tests {
    use sinew_tool::Shell;

    use super::super::commands;
    use super::*;

    #[test]
    fn programs_of_the_list_load_nothing() {
        for (text, loads) in [
            ("rm a.txt", false),
            ("cd sub && mkdir -p x && cp a.txt x/ && ls -l > out", false),
            ("/usr/bin/touch a; echo a=b:c d", false),
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
            ("rm $A *.txt ~/x", false),
            ("mkdir $HOME/x", false),
            ("echo '{\"a\":1}' > x.json", false),
            ("rm \"a[1].txt\" {a,b}.o", false),
            ("rm a; exit 3", false),
            ("[ -f a ] && rm a", false),
            ("diff a b > o; dd if=a of=b; jq .a x", false),
            ("command rm a; time rm a; nohup rm a", false),
            ("pushd a; popd; read x; export x; unset x", false),
            ("a=b; rm $a; for f in *; do rm \"$f\"; done", false),
            ("rm \"$(cat a)\"", false),
            ("$A rm a", true),
            ("./r* a", true),
            ("/tmp/rm a", true),
            ("command ./x; nohup rm a", true),
            ("nohup node .", true),
            ("time ./x", true),
            ("rm \"$(./x)\"", true),
            ("read PATH < f; rm a", true),
            ("export LD_PRELOAD=./x.so; rm a", true),
            ("for PATH in ./x; do rm a; done", true),
            (": ${PATH:=./x}; rm a", true),
            (": $((PATH=1)); rm a", true),
            ("printf -v PATH ./x; rm a", true),
            ("test -v 'a[$(./x)]'", true),
            ("jq -L lib .a x", true),
            ("jq 'import \"m\" as m; .' x", true),
            ("find . -exec ./x {} +", true),
            ("sort --compress-program=./x a", true),
            ("rm 'a", true),
        ] {
            let line = CommandLine::Shell(Shell::User, text.to_owned());
            let listed = commands::of(&line);
            let found = loads_unnamed(&line, &listed, |name| name.starts_with("./"));
            assert_eq!(found, loads, "{text}");
        }
        for (words, is_written, loads) in [
            (&["rm", "$A", "*"][..], false, false),
            (&["node", "."], false, true),
            (&["rm", "a"], true, true),
        ] {
            let line = CommandLine::Argv(words.iter().map(ToString::to_string).collect());
            let found = loads_unnamed(&line, &commands::of(&line), |_| is_written);
            assert_eq!(found, loads, "{words:?}");
        }
    }
}
