//! Resolves a command call to program, arguments and working directory, so that the analysed command runs.

use std::path::{Path, PathBuf};

use sinew_tool::{
    Access, Command, CommandLine, CommandTarget, ExtraAccess, ExtraPath, FileError, FileState,
    FileTarget, Kind, Need, Plain, Position, ToolError, Unclear,
};

use crate::guard::Guard;
use crate::own_files::may_run_own_files;
use sinew_fs::resolve::Place;
use sinew_policy::rule::Beneath;
use sinew_sandbox::{Commands, no_helper};

/// The longest argument that exec takes (`MAX_ARG_STRLEN`), in bytes with its NUL.
const MAX_ARGUMENT: usize = 128 * 1024;

const NOT_GIVEN: &str = "repeat the call without that entry, or ask the user to run the command in a terminal of their own";

/// Resolves a command with the paths of its call: the first is where it starts, the others are what it needs. A plain
/// command must not read `kept_out`.
pub(crate) fn contain(
    guard: &Guard,
    command: Command,
    (files, places): (&[FileTarget], &[Place]),
    cwd: &Path,
    kept_out: Option<&Beneath>,
) -> Result<CommandTarget, ToolError> {
    let place = files.first().zip(places.first());
    let cwd = match place {
        Some((target, place)) if place.is_directory() => target.path.clone(),
        Some((target, _)) => {
            let error = match target.state {
                FileState::Missing => FileError::Missing,
                FileState::Found(_) => FileError::NotDirectory,
            };
            let shown = target.claim.path.clone().unwrap_or_default();
            return Err(about(target.claim.argument, error.about(&shown)));
        }
        None => cwd.to_owned(),
    };
    let commands = guard.shared.commands.as_ref().ok_or_else(no_helper)?;
    let (program, argv) = match &command.line {
        CommandLine::Shell(shell, text) => {
            check_text(&command, text)?;
            let path = commands.shell(*shell);
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            (path, vec![name, String::from("-c"), prepared(text)])
        }
        CommandLine::Argv(argv) => {
            argv.iter().try_for_each(|arg| check_text(&command, arg))?;
            let name = argv
                .first()
                .filter(|name| !name.is_empty())
                .ok_or_else(|| ToolError::argument(command.argument, "is empty; name a program"))?;
            let program = match command.programs.as_slice() {
                [] => commands.program(name, &cwd, command.argument),
                listed => commands.listed(name, &cwd, command.argument, listed),
            };
            (program?, argv.clone())
        }
    };
    let mut analysis = guard.analysed_without(&command.line, &cwd, kept_out);
    if commands.wants_no_containment() {
        let why = "commands run without a sandbox here, so each of them asks";
        analysis.plain = Err(Unclear::new("shell.sandbox_level", why));
    }
    if command.has_terminal {
        let why = "it runs in a terminal, where later input runs unasked";
        analysis.plain = Err(Unclear::new("shell.terminal", why));
        // No rule and no answer for the same command without a terminal covers it.
        (analysis.rest, analysis.repeats) = (None, None);
    }
    // The analysed command is the one that runs.
    let (program, argv) = match &analysis.plain {
        // Shells differ in the arguments of `printf`; these two are known.
        Ok(Plain::Script(script)) => {
            let bash = commands.find("bash").map(|path| (path, "bash"));
            let (program, name) = bash.unwrap_or_else(|| (PathBuf::from("/bin/sh"), "sh"));
            (program, vec![name.to_owned(), String::from("-c"), prepared(script)])
        }
        Ok(Plain::Argv(plain)) => {
            let path = plain.first().map_or(program, PathBuf::from);
            let rest = plain.iter().skip(1).cloned();
            (path, argv.into_iter().take(1).chain(rest).collect())
        }
        Err(_) => (program, argv),
    };
    let (program, argv) = match commands.direnv(&cwd)? {
        None => (program, argv),
        Some(direnv) => (direnv, through_direnv(&cwd, &program, argv)),
    };
    let named = match &analysis.plain {
        Ok(_) => Vec::new(),
        Err(_) => guard.named_in(&command.line, &analysis.commands, &cwd, commands.unprotected()),
    };
    let extra = extra_access(guard, commands, &command, files)?;
    let is_out = extra.unsandboxed;
    let may_run_own_files = false;
    let target =
        CommandTarget { command, program, argv, cwd, analysis, named, extra, may_run_own_files };
    let find = |name: &str| guard.program(name, &target.cwd);
    let may_run_own_files = is_out && self::may_run_own_files(&target, &guard.shared.roots, find);
    Ok(CommandTarget { may_run_own_files, ..target })
}

/// Returns what a command needs that not every command has. Fails if no answer could give it.
fn extra_access(
    guard: &Guard,
    commands: &Commands,
    command: &Command,
    files: &[FileTarget],
) -> Result<ExtraAccess, ToolError> {
    let mut extra = ExtraAccess::default();
    let needs = command.needs.iter().flat_map(|needs| &needs.list);
    for need in needs.filter(|need| !commands.is_given(need)) {
        if let Some(why) = commands.never_given(need, guard.path_globs()) {
            let message = format!("argument `needs`: no answer gives a command `{need}`: {why}");
            return Err(ToolError::new(Kind::PolicyDenied, message).hint(NOT_GIVEN));
        }
        match need {
            Need::Network => extra.network = true,
            Need::SshAgent => extra.ssh_agent = true,
            Need::Unsandboxed => extra.unsandboxed = true,
            // They are claims of the call.
            Need::Read(_) | Need::Write(_) => {}
        }
    }
    for file in files {
        let Access::Lend { is_writable } = file.claim.access else { continue };
        let is_given = match file.position {
            Position::Inside | Position::Programs => true,
            Position::Outside => !is_writable && commands.shows(&file.path),
        };
        if is_given {
            continue;
        }
        if let Some(why) = commands.never_given_at(&file.path) {
            return Err(about("needs", ToolError::new(Kind::PathDenied, why)));
        }
        let FileState::Found(meta) = &file.state else {
            let shown = file.claim.path.clone().unwrap_or_default();
            let error = about("needs", FileError::Missing.about(&shown));
            return Err(error.hint(
                "a command gets what is there; for a new file, name the directory in which it is made",
            ));
        };
        let identity = meta.identity.of_file();
        extra.paths.push(ExtraPath { path: file.path.clone(), is_writable, identity });
    }
    Ok(without_covered(extra))
}

/// Leaves out paths that another one covers.
fn without_covered(mut extra: ExtraAccess) -> ExtraAccess {
    // The widest come first, and of equal ones those to change.
    extra.paths.sort_by(|one, other| {
        one.path.cmp(&other.path).then(other.is_writable.cmp(&one.is_writable))
    });
    let mut kept: Vec<ExtraPath> = Vec::new();
    for path in extra.paths {
        let covers = |wider: &ExtraPath| {
            path.path.starts_with(&wider.path) && (wider.is_writable || !path.is_writable)
        };
        if !kept.iter().any(covers) {
            kept.push(path);
        }
    }
    ExtraAccess { paths: kept, ..extra }
}

/// Returns the arguments with which `direnv exec` replaces itself by a program.
fn through_direnv(cwd: &Path, program: &Path, argv: Vec<String>) -> Vec<String> {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let own = [String::from("direnv"), String::from("exec"), text(cwd), text(program)];
    own.into_iter().chain(argv.into_iter().skip(1)).collect()
}

fn about(argument: &str, error: ToolError) -> ToolError {
    let message = format!("argument `{argument}`: {}", error.message);
    ToolError { message: message.into(), ..error }
}

/// Rejects a text that exec cannot pass as an argument.
fn check_text(command: &Command, text: &str) -> Result<(), ToolError> {
    if text.contains('\0') {
        return Err(ToolError::argument(
            command.argument,
            "holds a NUL byte, which no program takes",
        ));
    }
    let longest = match command.line {
        CommandLine::Shell(..) => MAX_ARGUMENT - prepared("").len(),
        CommandLine::Argv(_) => MAX_ARGUMENT,
    };
    if longest <= text.len() {
        return Err(ToolError::argument(
            command.argument,
            format!("has {} bytes, and the system takes {} at once", text.len(), longest - 1),
        )
        .hint("write it to a file and run that"));
    }
    if matches!(command.line, CommandLine::Shell(..)) && text.trim().is_empty() {
        return Err(ToolError::argument(command.argument, "is empty; name a command"));
    }
    Ok(())
}

/// Keeps the shell from replacing itself by its last program: it would end in that program's directory.
fn prepared(text: &str) -> String {
    format!("trap : 0; {text}")
}
