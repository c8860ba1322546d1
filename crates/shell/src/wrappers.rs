//! Wrappers, which are programs that run another one: which words belong to which program.

use sinew_tool::Piece;

use super::find;
use super::word::quoted;

/// A command or text that a command runs.
#[derive(Debug)]
pub(super) enum Inside {
    /// Another command.
    Words(Vec<Piece>),
    /// A text for the shell.
    Text(String),
    /// Something only known at run time.
    Unknown,
}

/// The options of a wrapper, which runs the words after them.
struct Wrapper {
    name: &'static str,
    /// Options without a value: letters, then long names.
    flags: (&'static str, &'static [&'static str]),
    /// Options with a value: letters, then long names.
    values: (&'static str, &'static [&'static str]),
    /// How many operands of its own follow the options.
    n_operands: usize,
}

const fn wrapper(
    name: &'static str,
    flags: (&'static str, &'static [&'static str]),
    values: (&'static str, &'static [&'static str]),
    n_operands: usize,
) -> Wrapper {
    Wrapper { name, flags, values, n_operands }
}

const WRAPPERS: &[Wrapper] = &[
    wrapper(
        "env",
        ("i0v", &["ignore-environment", "null", "debug"]),
        ("uCSaP", &["unset", "chdir", "split-string", "argv0"]),
        0,
    ),
    wrapper(
        "sudo",
        (
            "AbEHnPSkKsilv",
            &["askpass", "background", "preserve-env", "set-home", "non-interactive", "login"],
        ),
        (
            "ugpCchrtTUDR",
            &["user", "group", "prompt", "close-from", "host", "role", "type", "chdir", "chroot"],
        ),
        0,
    ),
    wrapper("doas", ("nsL", &[]), ("uCa", &[]), 0),
    wrapper(
        "time",
        ("pvqalV", &["portability", "verbose", "quiet", "append"]),
        ("fo", &["format", "output"]),
        0,
    ),
    wrapper("nice", ("0123456789", &[]), ("n", &["adjustment"]), 0),
    wrapper("ionice", ("t", &["ignore"]), ("cnpPu", &["class", "classdata", "pid"]), 0),
    wrapper("nohup", ("", &[]), ("", &[]), 0),
    wrapper("setsid", ("cfw", &["ctty", "fork", "wait"]), ("", &[]), 0),
    wrapper(
        "timeout",
        ("vfp", &["preserve-status", "foreground", "verbose"]),
        ("ks", &["kill-after", "signal"]),
        1,
    ),
    wrapper("stdbuf", ("", &[]), ("ioe", &["input", "output", "error"]), 0),
    wrapper("command", ("p", &[]), ("", &[]), 0),
    wrapper("builtin", ("", &[]), ("", &[]), 0),
    wrapper("exec", ("cl", &[]), ("a", &[]), 0),
    wrapper("coproc", ("", &[]), ("", &[]), 0),
    wrapper("noglob", ("", &[]), ("", &[]), 0),
    wrapper("nocorrect", ("", &[]), ("", &[]), 0),
    wrapper("!", ("", &[]), ("", &[]), 0),
    wrapper("repeat", ("", &[]), ("", &[]), 1),
    wrapper("-", ("", &[]), ("", &[]), 0),
    wrapper("busybox", ("", &[]), ("", &[]), 0),
    wrapper("toybox", ("", &[]), ("", &[]), 0),
    wrapper(
        "xargs",
        ("0rtpoxeil", &["null", "no-run-if-empty", "verbose", "interactive", "exit", "open-tty"]),
        (
            "aEILnPsd",
            &["arg-file", "delimiter", "max-args", "max-procs", "max-chars", "process-slot-var"],
        ),
        0,
    ),
];

/// Programs that run another one, which begins at any of their words.
const LOOSE: &[&str] = &[
    "chroot",
    "chrt",
    "taskset",
    "setarch",
    "linux32",
    "linux64",
    "prlimit",
    "flock",
    "watch",
    "parallel",
    "strace",
    "ltrace",
    "unshare",
    "nsenter",
    "setpriv",
    "capsh",
    "runuser",
    "su",
    "pkexec",
    "gosu",
    "su-exec",
    "run0",
    "systemd-run",
    "script",
    "fakeroot",
    "firejail",
    "bwrap",
    "proot",
    "valgrind",
    "perf",
    "gdb",
    "rlwrap",
    "unbuffer",
    "expect",
    "entr",
    "fd",
    "fdfind",
    "xvfb-run",
    "dbus-run-session",
    "direnv",
    "setuidgid",
    "chpst",
    "softlimit",
    "uid",
    "nq",
    "start-stop-daemon",
    "daemonize",
    "catchsegv",
    "numactl",
    "cgexec",
    "chronic",
    "ts",
    "ifne",
    "arch",
    "catatonit",
    "choom",
    "cpulimit",
    "dbus-launch",
    "dotenv",
    "dtach",
    "dumb-init",
    "eatmydata",
    "faketime",
    "i386",
    "pee",
    "proxychains",
    "proxychains4",
    "sg",
    "ssh-agent",
    "tini",
    "torsocks",
    "x86_64",
];

/// Programs with actions of their own, and subcommands that run another program.
const RUNNERS: &[&str] = &["bundle", "hyperfine", "npx", "poetry", "uv"];

/// Shells, which run a text.
const SHELLS: &[&str] = &[
    "sh", "bash", "dash", "zsh", "ksh", "ksh93", "mksh", "ash", "yash", "rbash", "fish", "csh",
    "tcsh",
];

/// The most words that are tried as the start of a command, if the options are not understood.
const MAX_BEGINS: usize = 32;

/// Returns what a command runs.
pub(super) fn inside(words: &[Piece], input: Option<&str>) -> Vec<Inside> {
    let Some((Piece::Known(program), args)) = words.split_first() else { return Vec::new() };
    let name = program.rsplit('/').next().unwrap_or(program);
    // A shell may expand `=name` to the path of a program.
    let name = name.strip_prefix('=').unwrap_or(name);
    match name {
        "eval" => match args.split_first() {
            Some((Piece::Known(first), rest)) if first == "--" => text_of(rest),
            _ => text_of(args),
        },
        "." | "source" => vec![Inside::Unknown],
        "hash" | "mapfile" | "readarray" | "enable" | "complete" | "compgen" | "bind"
            if args.iter().any(|arg| arg.known().is_none_or(|arg| arg.starts_with('-'))) =>
        {
            vec![Inside::Unknown]
        }
        "trap" | "alias" => texts_of(name, args),
        "find" => executed(args),
        "pwsh" | "powershell" | "nu" => {
            // These have another syntax than a shell, so it is unknown.
            shell(args, input).into_iter().chain([Inside::Unknown]).collect()
        }
        "socat" => args.iter().flat_map(address).collect(),
        _ if SHELLS.contains(&name) => shell(args, input),
        _ if runs_by_a_word(name, args) || is_loader(name) => anywhere(args),
        _ if LOOSE.contains(&name) || RUNNERS.contains(&name) => anywhere(args),
        _ => match WRAPPERS.iter().find(|wrapper| wrapper.name == name) {
            Some(wrapper) => wrapped(wrapper, args),
            None => Vec::new(),
        },
    }
}

/// Returns whether an argument makes a program run another one.
fn runs_by_a_word(name: &str, args: &[Piece]) -> bool {
    let words: &[&str] = match name {
        "npm" | "pnpm" | "yarn" | "bun" => &["exec", "x", "dlx"],
        "mise" | "rtx" => &["exec", "x"],
        "ip" => &["exec"],
        _ => return false,
    };
    args.iter().any(|arg| arg.known().is_none_or(|arg| words.contains(&arg)))
}

/// Returns whether a name is that of the dynamic loader, which runs its argument.
fn is_loader(name: &str) -> bool {
    name.starts_with("ld-linux") || name.starts_with("ld-musl") || name == "ld.so"
}

/// Returns what a socat address runs.
fn address(arg: &Piece) -> Vec<Inside> {
    let Some(arg) = arg.known() else { return vec![Inside::Unknown] };
    let (kind, rest) = arg.split_once(':').unwrap_or((arg, ""));
    let runs = ["exec", "system", "shell"].iter().any(|known| kind.eq_ignore_ascii_case(known));
    let text = rest.split(',').next().unwrap_or(rest);
    if runs { vec![Inside::Text(text.to_owned())] } else { Vec::new() }
}

/// Returns whether a program runs another one, or a text.
pub(super) fn runs_another(program: &str) -> bool {
    let name = program.rsplit('/').next().unwrap_or(program);
    SHELLS.contains(&name)
        || LOOSE.contains(&name)
        || WRAPPERS.iter().any(|wrapper| wrapper.name == name)
}

/// Removes one level of shell escapes from a text.
pub(super) fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('\\', Some('\\' | '$' | '`')) => out.extend(chars.next()),
            // A joined line.
            ('\\', Some('\n')) => drop(chars.next()),
            _ => out.push(c),
        }
    }
    out
}

/// Returns a text in double quotes as a shell reads it.
pub(super) fn unquoted(raw: &str) -> String {
    let inner = raw.strip_prefix('"').and_then(|raw| raw.strip_suffix('"')).unwrap_or(raw);
    ["\"", "\\", "$", "`"]
        .iter()
        .fold(inner.to_owned(), |text, sign| text.replace(&format!("\\{sign}"), sign))
}

/// Joins words to a text for the shell; returns whether all are known.
fn joined(words: &[Piece]) -> (String, bool) {
    let texts: Vec<String> = words
        .iter()
        .map(|word| match word {
            Piece::Known(word) => word.clone(),
            Piece::Open { raw, .. } => unquoted(raw),
        })
        .collect();
    (texts.join(" "), words.iter().all(|word| word.known().is_some()))
}

fn text_of(words: &[Piece]) -> Vec<Inside> {
    match joined(words) {
        (text, true) => vec![Inside::Text(text)],
        (text, false) => vec![Inside::Text(text), Inside::Unknown],
    }
}

/// Returns the texts that `trap` or `alias` stores for later.
fn texts_of(name: &str, args: &[Piece]) -> Vec<Inside> {
    match name {
        "trap" => {
            let is_text = |word: &&Piece| word.known().is_none_or(|word| !word.starts_with('-'));
            args.iter().find(is_text).map_or(Vec::new(), |text| text_of(std::slice::from_ref(text)))
        }
        _ => {
            // An alias may be the beginning of a command.
            let value = |word: &Piece| match word {
                Piece::Known(word) => match word.split_once('=') {
                    Some((_, text)) => vec![Inside::Text(text.to_owned()), Inside::Unknown],
                    None => Vec::new(),
                },
                Piece::Open { .. } => vec![Inside::Unknown],
            };
            args.iter().flat_map(value).collect()
        }
    }
}

/// Returns the commands that `find` executes.
fn executed(args: &[Piece]) -> Vec<Inside> {
    let mut found = Vec::new();
    let mut rest = args;
    let mut is_value = false;
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        let was_value = std::mem::take(&mut is_value);
        match first {
            Piece::Known(word)
                if matches!(word.as_str(), "-exec" | "-execdir" | "-ok" | "-okdir") =>
            {
                let is_end = |at: usize| match behind.get(at).and_then(Piece::known) {
                    Some(";") => true,
                    // Elsewhere `+` is a word like others.
                    Some("+") => {
                        at.checked_sub(1).and_then(|at| behind.get(at)?.known()) == Some("{}")
                    }
                    _ => false,
                };
                let end = (0..behind.len()).find(|at| is_end(*at)).unwrap_or(behind.len());
                let words = behind.get(..end).unwrap_or_default();
                found.push(Inside::Words(opened(words, "{}")));
                rest = behind.get(end..).unwrap_or_default();
            }
            Piece::Known(word) => is_value = find::takes_value(word),
            // The value of a test, or the beginning of a path, is no action.
            Piece::Open { raw, .. } if was_value || is_path(raw) => {}
            Piece::Open { .. } => found.push(Inside::Unknown),
        }
    }
    found
}

/// Returns whether an unknown word begins like a path.
fn is_path(raw: &str) -> bool {
    let first = raw.trim_start_matches(['"', '{', '*', '?', '[']).chars().next();
    first.is_none_or(|c| c.is_alphanumeric() || matches!(c, '.' | '/' | '~' | '_' | ']' | ','))
}

/// Marks words that hold a placeholder as unknown.
fn opened(words: &[Piece], mark: &str) -> Vec<Piece> {
    let open = |word: &Piece| match word {
        Piece::Known(raw) if raw.contains(mark) => Piece::Open { raw: raw.clone(), is_one: true },
        word => word.clone(),
    };
    words.iter().map(open).collect()
}

/// Returns the text that a shell runs.
fn shell(args: &[Piece], input: Option<&str>) -> Vec<Inside> {
    let mut has_text = false;
    let mut reads_input = false;
    let mut rest = args;
    while let Some((first, behind)) = rest.split_first() {
        let Some(word) = first.known() else {
            // It may be an option or a text.
            let mut found = text_of(std::slice::from_ref(first));
            found.push(Inside::Unknown);
            found.extend(behind.iter().flat_map(|word| text_of(std::slice::from_ref(word))));
            return found;
        };
        let n_values = match word {
            "--" | "-" => {
                rest = behind;
                break;
            }
            "--rcfile" | "--init-file" => 1,
            "--command" | "--init-command" => {
                has_text = true;
                0
            }
            _ if word.starts_with("--") => match word.split_once('=') {
                Some((_, text)) => return vec![Inside::Text(text.to_owned()), Inside::Unknown],
                None => 0,
            },
            _ if word.len() > 1 && word.starts_with(['-', '+']) => {
                has_text |= word.contains(['c', 'C']);
                reads_input |= word.starts_with('-') && word.contains('s');
                usize::from(word.contains(['o', 'O']))
            }
            _ => break,
        };
        rest = behind.get(n_values..).unwrap_or_default();
    }
    match rest.first() {
        Some(text) if has_text => text_of(std::slice::from_ref(text)),
        Some(script) if !reads_input => {
            let reads = |place: &str| place.starts_with("/dev/") || place.starts_with("/proc/");
            match (script.known().is_none_or(reads), input) {
                (false, _) => Vec::new(),
                (true, Some(text)) => vec![Inside::Text(text.to_owned()), Inside::Unknown],
                (true, None) => vec![Inside::Unknown],
            }
        }
        _ => match input {
            Some(text) => vec![Inside::Text(text.to_owned())],
            None => vec![Inside::Unknown],
        },
    }
}

/// Returns a command for each word at which one may begin.
fn anywhere(args: &[Piece]) -> Vec<Inside> {
    let mut found = Vec::new();
    for at in 0..args.len().min(MAX_BEGINS) {
        let words = args.get(at..).unwrap_or_default();
        // Some take a text.
        let text = words.first().and_then(Piece::known).map(|word| match word.strip_prefix("-c") {
            Some(text) => text,
            None if word.starts_with("--") => word.split_once('=').map_or(word, |(_, text)| text),
            None => word,
        });
        if let Some(text) = text.filter(|text| text.contains(char::is_whitespace)) {
            found.push(Inside::Text(text.to_owned()));
        }
        found.push(Inside::Words(words.to_vec()));
    }
    if MAX_BEGINS < args.len() {
        found.push(Inside::Unknown);
    }
    found
}

fn wrapped(wrapper: &Wrapper, args: &[Piece]) -> Vec<Inside> {
    // With these options, `command` only locates a program.
    if wrapper.name == "command" && matches!(args.first().and_then(Piece::known), Some("-v" | "-V"))
    {
        return Vec::new();
    }
    let Some(own) = own_words(wrapper, args) else {
        let mut found = anywhere(args);
        // Where it inserts words is unknown.
        found.push(Inside::Unknown);
        return found;
    };
    let words = args.get(own.n..).unwrap_or_default();
    if let Some(text) = own.split {
        // The split text may begin with options and variables again.
        let rest = words.iter().map(|word| match word {
            Piece::Known(word) => quoted(word),
            Piece::Open { raw, .. } => raw.clone(),
        });
        let all: Vec<String> = ["env".to_owned(), text].into_iter().chain(rest).collect();
        return vec![Inside::Text(all.join(" "))];
    }
    let mut words = words.to_vec();
    if own.is_text {
        let mut found = text_of(&words);
        found.push(Inside::Words(words));
        return found;
    }
    if wrapper.name == "xargs" && !words.is_empty() {
        words = opened(&words, own.mark.as_deref().unwrap_or("{}"));
        words.push(Piece::unknown());
    }
    vec![Inside::Words(words)]
}

/// The words that are a wrapper's own.
#[derive(Default)]
struct Own {
    n: usize,
    /// A text that is split into further words.
    split: Option<String>,
    /// Whether the words behind are a text for a shell.
    is_text: bool,
    /// The placeholder of inserted words.
    mark: Option<String>,
}

/// Returns the words that are a wrapper's own, if they are understood.
fn own_words(wrapper: &Wrapper, args: &[Piece]) -> Option<Own> {
    let mut own = Own::default();
    while let Some(first) = args.get(own.n) {
        // It may be an option or its value.
        let word = first.known()?;
        let takes_variables = matches!(wrapper.name, "env" | "sudo" | "doas");
        if word == "--" {
            own.n += 1;
            break;
        }
        if word == "-" && wrapper.name == "env" {
            own.n += 1;
            continue;
        }
        if let Some(long) = word.strip_prefix("--") {
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (long, None),
            };
            own.n += 1;
            if wrapper.values.1.contains(&name) {
                take(wrapper, name, value, args, &mut own)?;
            } else if !wrapper.flags.1.contains(&name) {
                return None;
            }
        } else if let Some(letters) = word.strip_prefix('-').filter(|rest| !rest.is_empty()) {
            own.n += 1;
            let found = letters.char_indices().find(|(_, c)| wrapper.values.0.contains(*c));
            let end = found.map_or(letters.len(), |(at, _)| at);
            let flags = letters.get(..end).unwrap_or_default();
            own.is_text |= wrapper.name == "sudo" && flags.contains(['s', 'i']);
            // These letters may have a value attached.
            if wrapper.name == "xargs" && flags.contains(['e', 'i', 'l']) {
                return None;
            }
            if !flags.chars().all(|c| wrapper.flags.0.contains(c)) {
                return None;
            }
            if let Some((at, c)) = found {
                let value = letters.get(at + c.len_utf8()..).filter(|value| !value.is_empty());
                let name = c.to_string();
                take(wrapper, &name, value.map(str::to_owned), args, &mut own)?;
            }
        } else if takes_variables && is_assignment(word) {
            own.n += 1;
        } else {
            break;
        }
    }
    // Variables may follow the end of the options too.
    while matches!(wrapper.name, "env" | "sudo" | "doas")
        && args.get(own.n).and_then(Piece::known).is_some_and(is_assignment)
    {
        own.n += 1;
    }
    own.n += wrapper.n_operands;
    Some(own)
}

/// Takes the value of an option.
fn take(
    wrapper: &Wrapper,
    name: &str,
    inline: Option<String>,
    args: &[Piece],
    own: &mut Own,
) -> Option<()> {
    let value = match inline {
        Some(value) => value,
        None => {
            let value = args.get(own.n)?;
            own.n += 1;
            match value {
                Piece::Known(value) => value.clone(),
                Piece::Open { raw, is_one: true } => unquoted(raw),
                Piece::Open { is_one: false, .. } => return None,
            }
        }
    };
    match (wrapper.name, name) {
        // Escapes in the text are not analysed.
        ("env", "S" | "split-string") if value.contains('\\') => return None,
        ("env", "S" | "split-string") => own.split = Some(value),
        ("xargs", "I") => own.mark = Some(value),
        _ => {}
    }
    Some(())
}

fn is_assignment(word: &str) -> bool {
    // `env`, `sudo` and `doas` look only for the `=`.
    word.contains('=')
}
