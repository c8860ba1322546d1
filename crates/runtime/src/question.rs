//! Formats approval questions as text and JSON, identically for every approver.
//!
//! Nothing is cut but the body of a request, a message and an argument beyond 20,000 bytes, and the question says so. Invisible characters are
//! escaped, so that an approver sees all that an answer covers.

mod unkept;

use std::fmt::Write;
use std::path::Path;

use serde_json::{Value, json};
use sinew_tool::{
    Access, Answer, CommandLine, CommandTarget, ExtraAccess, FileState, FileTarget, Form, Host,
    Position, Question, Scope, Targets, UndoCover, shown,
};

/// How much of an argument is shown, in bytes.
const MAX_VALUE: usize = 20_000;

/// Returns a form in words: who asks, and its message, each line marked as the server's.
pub fn form_words(form: &Form) -> String {
    let mut text = format!(
        "The MCP server {} asks you for something. sinew does not ask this, and what you send approves nothing.",
        one_line(&form.server)
    );
    for line in form.message.lines() {
        let _ = write!(text, "\n  | {}", one_line(line));
    }
    text
}

/// The longest text of a command that is shown in the second line of a question, in bytes.
pub const MAX_SHOWN_COMMAND: usize = 200;
/// The longest reason of the model that is shown there, in bytes.
const MAX_WHY: usize = 160;
/// The longest object of a question that is shown in its first lines, in bytes.
const MAX_OBJECT: usize = 300;

/// Returns the first three lines of a question: what it asks, the command or path, and the circumstances.
pub fn head(question: &Question) -> [String; 3] {
    let mut asked = headline(question);
    asked.push('?');
    if loses_something(question) {
        asked.push_str(" Cannot be undone");
    }
    [one_line(&asked), object(question).0, circumstances(question)]
}

/// Returns whether a person must read more than the first three lines: what is cut there, a message, or a protected name.
pub fn must_be_read(question: &Question) -> bool {
    let Targets { command, files, message, .. } = &question.targets;
    !object(question).1
        || message.is_some()
        || command.as_ref().is_some_and(|command| !command.named.is_empty())
        || files.iter().any(|file| file.protected.is_some())
}

/// Returns whether the answer is no unless a person chooses otherwise: what must be read, what cannot be undone, and what
/// leaves this machine.
pub fn is_denied_by_default(question: &Question) -> bool {
    must_be_read(question) || loses_something(question) || !question.targets.hosts.is_empty()
}

/// The sentence in place of a warning.
pub const NO_WARNING: &str = "Whether this may run.";

/// Returns the strongest warning about a yes, in a sentence.
pub fn warning(question: &Question) -> String {
    let Targets { command, files, .. } = &question.targets;
    let names = command.iter().flat_map(|command| command.named.iter().copied());
    let named = names.chain(files.iter().filter_map(|file| file.protected)).next();
    if command.as_ref().is_some_and(|command| command.extra.ssh_agent) {
        String::from("It can sign and log in as you, and that cannot be undone.")
    } else if loses_something(question) {
        String::from("What this does cannot be undone.")
    } else if let Some(what) = named.and_then(sinew_guard::what_happens) {
        format!("After a change, {what}.")
    } else if question.effects.contains(&"network") && command.is_some() {
        String::from("What it sends cannot be undone; it can send project files anywhere.")
    } else if question.is_open {
        String::from("It may load files that sinew does not know; they can change before it runs.")
    } else {
        String::from(NO_WARNING)
    }
}

/// Returns whether what the call does is lost for good.
fn loses_something(question: &Question) -> bool {
    let only_looks = question.effects.iter().all(|effect| ["observe", "session"].contains(effect));
    let only_reads = question.effects == ["observe", "network"];
    question.undo == UndoCover::None && !only_looks && !only_reads || publishes(question).is_some()
}

/// Returns what a command with the network sends to others for good, by its text.
fn publishes(question: &Question) -> Option<&'static str> {
    let command = question.targets.command.as_ref()?;
    let has_network = question.effects.contains(&"network");
    has_network.then(|| sinew_guard::publishes(&command.analysis.commands)).flatten()
}

/// Returns whether a command is one program with the network and nothing else.
fn does_one_thing(command: &CommandTarget) -> bool {
    let extra = &command.extra;
    command.analysis.segments.len() == 1 && extra.paths.is_empty() && !extra.ssh_agent
}

/// Returns what a question asks for, without its question mark.
fn headline(question: &Question) -> String {
    let Targets { command, files, urls, hosts, message, .. } = &question.targets;
    let tool = &question.tool;
    if let Some(change) = &question.unkept {
        return unkept::headline(change);
    }
    if let Some(origin) = &question.tool_origin {
        return format!("Call {} of the MCP server {}", origin.tool, origin.server);
    }
    if let Some(message) = message {
        let (channel, receiver) = message.receiver.names();
        return format!("Send a message to {receiver} of {channel}");
    }
    if let Some(command) = command {
        let opens = command.command.has_terminal;
        let is_contained = question.sandbox.as_ref().is_none_or(|one| !one.starts_with("none"));
        return match command.named.as_slice() {
            _ if !is_contained => String::from("Run WITHOUT a sandbox"),
            _ if opens => String::from("Open a terminal, where later input runs unasked"),
            [] if let Some(what) = publishes(question).filter(|_| does_one_thing(command)) => {
                String::from(what)
            }
            [] if !command.extra.is_empty() => with_extra(&command.extra),
            [] if question.effects.contains(&"network") => {
                String::from("Run with the network open")
            }
            [] => String::from("Run this command"),
            named if command.extra.is_empty() => format!("Change {}", named.join(" and ")),
            named => format!("Change {}; {}", named.join(" and "), with_extra(&command.extra)),
        };
    }
    let named = urls.iter().map(|url| &url.host).chain(hosts).map(Host::to_string).next();
    if let Some(host) = named {
        return format!("Connect to {host}");
    }
    let changed: Vec<_> = files.iter().filter(|file| file.claim.access.changes()).collect();
    let name = |file: &FileTarget| named_file(&file.path);
    let leaves = files.iter().any(|file| file.position == Position::Outside);
    let place = if leaves { " outside the project" } else { "" };
    let does = match changed.as_slice() {
        [] if leaves && files.len() == 1 => {
            let verb = |file: &FileTarget| match file.claim.access {
                Access::Search => "Search",
                _ => "Read",
            };
            files.first().map_or_else(String::new, |file| format!("{} {}", verb(file), name(file)))
        }
        [] => format!("Run {tool}"),
        [one] => {
            let is_new = one.state == FileState::Missing;
            let verb = match one.claim.access {
                Access::Remove => "Delete",
                Access::Make => "Make the directory",
                _ if is_new => "Create",
                _ => "Change",
            };
            format!("{verb} {}", name(one))
        }
        [from, to] if from.claim.access == Access::Move => {
            format!("Move {} to {}", name(from), name(to))
        }
        many if leaves => {
            let is_outside = |file: &&&FileTarget| file.position == Position::Outside;
            let n_outside = many.iter().filter(is_outside).count();
            return format!("Change {} paths, {n_outside} outside the project", many.len());
        }
        many => format!("Change {} paths", many.len()),
    };
    format!("{does}{place}")
}

/// Returns the headline of a command with extra access.
fn with_extra(extra: &ExtraAccess) -> String {
    let names = |is_writable: bool| {
        let of = extra.paths.iter().filter(|path| path.is_writable == is_writable);
        let names: Vec<_> = of.map(|extra| extra.path.file_name().unwrap_or_default()).collect();
        match names.as_slice() {
            [] => None,
            [one] => Some(one.to_string_lossy().into_owned()),
            many => Some(format!("{} paths", many.len())),
        }
    };
    let with = match (extra.network, extra.ssh_agent) {
        (true, true) => " with the network open and your SSH agent",
        (true, false) => " with the network open",
        (false, true) => " with your SSH agent",
        (false, false) => "",
    };
    let does: Vec<String> = [("change", names(true)), ("read", names(false))]
        .into_iter()
        .filter_map(|(does, names)| Some(format!("{does} {}", names?)))
        .collect();
    match does.as_slice() {
        [] => format!("Run{with}"),
        does => format!("Let a command{with} {} outside the project", does.join(" and ")),
    }
}

/// Returns the second line of a question, and whether it shows all of its object.
fn object(question: &Question) -> (String, bool) {
    let Targets { command, files, urls, message, .. } = &question.targets;
    let cut = |text: &str, most: usize| {
        let shown = text.get(..text.floor_char_boundary(most)).unwrap_or_default();
        let shown = shown.lines().next().unwrap_or_default();
        let is_whole = shown.len() == text.len();
        (format!("{}{}", one_line(shown), if is_whole { "" } else { " …" }), is_whole)
    };
    if let Some(command) = command {
        let (shown, is_whole) = cut(&command_words(command), MAX_SHOWN_COMMAND);
        return (format!("$ {shown}"), is_whole);
    }
    if let Some(url) = urls.first() {
        return cut(&url.url, MAX_OBJECT);
    }
    if let Some(message) = message {
        return cut(&message.content, MAX_OBJECT);
    }
    if let [from, to] = files.as_slice()
        && from.claim.access == Access::Move
    {
        let (moved, is_whole) = cut(&named(&from.path), MAX_OBJECT);
        let (to, is_whole_too) = cut(&named(&to.path), MAX_OBJECT);
        return (format!("{moved} → {to}"), is_whole && is_whole_too);
    }
    let outside = files.iter().find(|file| file.position == Position::Outside);
    let changed = files.iter().find(|file| file.claim.access.changes());
    let changed = outside.or(changed).or(files.first());
    if let Some(file) = changed {
        let (shown, is_whole) = cut(&named(&file.path), MAX_OBJECT);
        return (shown, is_whole && files.len() == 1);
    }
    let arguments = Value::Object(question.arguments.clone()).to_string();
    match question.arguments.is_empty() {
        true => (question.tool.clone(), true),
        false => (cut(&arguments, MAX_OBJECT).0, false),
    }
}

/// Returns the third line of a question: where it runs, how it is contained, which effects it may have, and which agent
/// asks.
fn circumstances(question: &Question) -> String {
    let Targets { command, files, .. } = &question.targets;
    let mut all = Vec::new();
    all.extend(question.unkept.iter().flat_map(unkept::circumstances));
    if question.is_running && question.unkept.is_none() {
        all.push(question.why.clone());
    }
    if let Some(command) = command {
        all.extend(question.sandbox.as_ref().map(|sandbox| format!("sandbox: {sandbox}")));
        let extra = &command.extra;
        match question.effects.contains(&"network") {
            _ if extra.unsandboxed => all.push(String::from("it can change anything you can")),
            true => all.push(String::from("it can send project files anywhere")),
            false => all.push(String::from("no network")),
        }
        if extra.ssh_agent {
            all.push(String::from("it can sign and log in as you"));
        }
    }
    let shows =
        |file: &FileTarget| file.position == Position::Outside && !file.claim.access.changes();
    let is_missing = |file: &FileTarget| file.state == FileState::Missing;
    if files.iter().any(|file| shows(file) && !is_missing(file)) {
        all.push(String::from("the model sees what is in it"));
    } else if files.iter().any(shows) {
        all.push(String::from("nothing is there now"));
    }
    if let Some((added, removed)) = question.diff.as_deref().map(n_lines) {
        all.push(format!("+{added} −{removed} lines"));
    }
    let names = command.iter().flat_map(|command| command.named.iter().copied());
    for name in names.chain(files.iter().filter_map(|file| file.protected)) {
        let what = sinew_guard::what_happens(name).unwrap_or("other programs act on it");
        let told = format!("{name}: {what}");
        if !all.contains(&told) {
            all.push(told);
        }
    }
    match question.undo {
        UndoCover::All => all.push(String::from("undo covers it")),
        UndoCover::Most if question.effects.contains(&"network") => {
            all.push(String::from("undo covers files, not what it sends"));
        }
        UndoCover::Most => all.push(String::from("undo covers it, up to its limits")),
        UndoCover::None => {}
    }
    // Names that a caller can choose come last.
    if let Some(command) = command {
        for extra in &command.extra.paths {
            let does = if extra.is_writable { "it may change" } else { "it may read" };
            all.push(format!("{does} {}", named(&extra.path)));
        }
        all.push(format!("in {}", named(&command.cwd)));
        let why = command.needs().map_or("", |needs| needs.why.trim());
        if !why.is_empty() {
            let shown = why.get(..why.floor_char_boundary(MAX_WHY)).unwrap_or_default();
            let more = if shown.len() < why.len() { " …" } else { "" };
            all.push(format!("the model says: {shown:?}{more}"));
        }
    }
    all.extend(question.agent.as_ref().map(|agent| format!("for the agent {agent}")));
    if all.is_empty() {
        all.push(format!("effects: {}", question.effects.join(", ")));
    }
    one_line(&all.join(" · "))
}

/// Returns a path, in quotes if it could pass for other parts of the line.
fn named(path: &Path) -> String {
    let path = path.to_string_lossy();
    match path.contains('·') || path.contains("  ") {
        true => format!("{path:?}"),
        false => path.into_owned(),
    }
}

/// Returns the last name of a path, in quotes if it could pass for other parts of a headline.
fn named_file(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    match name.contains(['?', '(', '"', '·', ',']) || name.contains("  ") {
        true => format!("{name:?}"),
        false => name.into_owned(),
    }
}

/// Returns how many lines a diff adds and removes, by the lines of its hunks.
fn n_lines(diff: &str) -> (usize, usize) {
    let (mut n_old, mut n_new) = (0, 0);
    let (mut added, mut removed) = (0, 0);
    for line in diff.lines() {
        if n_old == 0 && n_new == 0 {
            let hunk = line.strip_prefix("@@ -").and_then(|rest| rest.split_once(" @@"));
            let ranges = hunk.and_then(|(ranges, _)| ranges.split_once(" +"));
            let n = |range: &str| {
                range.split_once(',').map_or(Some(1), |(_, n)| n.parse::<usize>().ok()).unwrap_or(0)
            };
            (n_old, n_new) = ranges.map_or((0, 0), |(old, new)| (n(old), n(new)));
            continue;
        }
        match line.as_bytes().first() {
            Some(b'+') => (n_new, added) = (n_new.saturating_sub(1), added + 1),
            Some(b'-') => (n_old, removed) = (n_old.saturating_sub(1), removed + 1),
            Some(b'\\') => {}
            _ => (n_old, n_new) = (n_old.saturating_sub(1), n_new.saturating_sub(1)),
        }
    }
    (added, removed)
}

/// Returns a question in words: its first three lines, then everything that an answer covers.
pub fn words(question: &Question) -> String {
    let mut text = head(question).join("\n");
    text.push('\n');
    text.push_str(&details(question));
    write_diff(&mut text, question);
    write_reason(&mut text, question);
    text
}

/// Returns what follows the first three lines of a question, without its diff and its reason.
pub fn details(question: &Question) -> String {
    let mut text = format!("{}: {}", one_line(&question.tool), question.effects.join(", "));
    if let Some(agent) = &question.agent {
        let _ = write!(text, " for the agent {}", one_line(agent));
    }
    if let Some(origin) = &question.tool_origin {
        let (tool, server) = (one_line(&origin.tool), one_line(&origin.server));
        let _ = write!(text, "\n  the tool {tool} of the MCP server {server}");
    }
    let is_whole = object(question).1;
    let command = question.targets.command.as_ref();
    if let Some(command) = command {
        if !is_whole {
            for (at, line) in command_words(command).split('\n').enumerate() {
                let sign = if at == 0 { "$ " } else { "  " };
                let _ = write!(text, "\n  {sign}{}", one_line(line));
            }
        }
        if 1 < command.analysis.segments.len() {
            for segment in &command.analysis.segments {
                let _ = write!(text, "\n  - {}", one_line(&segment.text));
            }
        }
        if !is_usual_shell(&command.program) {
            let program = command.program.to_string_lossy();
            let _ = write!(text, "\n  program: {}", one_line(&program));
        }
        if !command.named.is_empty() {
            let _ = write!(text, "\n  a yes lets it change {}", command.named.join(" and "));
        }
    }
    for target in &question.targets.files {
        let is_shown = match command {
            Some(command) => command.cwd == target.path,
            None => is_whole,
        };
        if !is_shown {
            let _ = write!(text, "\n  {}", one_line(&target.path.to_string_lossy()));
        }
    }
    let urls = &question.targets.urls;
    for url in urls {
        let _ = write!(text, "\n  {}", one_line(&url.url));
        for line in &url.claim.sent {
            let _ = write!(text, "\n    {}", one_line(line));
        }
    }
    let named = |host: &&Host| urls.iter().all(|url| url.host != **host);
    for host in question.targets.hosts.iter().filter(named) {
        let _ = write!(text, "\n  {}", one_line(&host.to_string()));
    }
    write_message(&mut text, question);
    for (name, value) in &question.arguments {
        let value = value.to_string();
        let shown = value.get(..value.floor_char_boundary(MAX_VALUE)).unwrap_or_default();
        let _ = write!(text, "\n  with {} = {}", one_line(name), one_line(shown));
        if shown.len() < value.len() {
            let _ = write!(text, " (and {} bytes more)", value.len() - shown.len());
        }
    }
    if question.is_open {
        text.push_str(
            "\n  it may load files that sinew does not know, such as modules, includes and hooks; they can \
             change before it runs",
        );
    }
    text.push('\n');
    text
}

/// Adds the diff of a question.
pub fn write_diff(text: &mut String, question: &Question) {
    let Some(diff) = &question.diff else { return };
    for line in diff.strip_suffix('\n').unwrap_or(diff).split('\n') {
        text.push_str(&one_line(line));
        text.push('\n');
    }
}

/// Adds why a question is asked.
pub fn write_reason(text: &mut String, question: &Question) {
    let why = one_line(&question.why);
    let _ = write!(text, "Asked because {why} (rule {}", question.rule);
    if let Some(origin) = &question.origin {
        let _ = write!(text, " of {}", one_line(origin));
    }
    text.push_str(").\n");
    if 1 < question.n_asked {
        let _ = writeln!(text, "It is question {} of this session.", question.n_asked);
    }
}

/// Adds the message that a call sends: its receiver and its content.
fn write_message(text: &mut String, question: &Question) {
    let Some(message) = &question.targets.message else { return };
    let (channel, receiver) = message.receiver.names();
    let _ = write!(text, "\n  message to {} of {}:", one_line(receiver), one_line(channel));
    let content = &message.content;
    let shown = content.get(..content.floor_char_boundary(MAX_VALUE)).unwrap_or_default();
    for line in shown.split('\n') {
        let _ = write!(text, "\n    {}", one_line(line));
    }
    if shown.len() < content.len() {
        let _ = write!(text, "\n    (and {} bytes more)", content.len() - shown.len());
    }
}

/// Returns in words what a scope of a question covers.
pub fn covers(question: &Question, scope: Scope) -> Option<String> {
    if scope == Scope::Call {
        return Some(String::from("this call"));
    }
    let cover = question.covers.iter().find(|cover| cover.scope == scope)?;
    let what: Vec<String> = cover.what.iter().map(|what| one_line(what)).collect();
    let until = match scope {
        Scope::Call | Scope::Exact | Scope::Session => "for this session",
        Scope::Forever => "always in this project",
    };
    // A pattern matches words, which can mean different files next time.
    let anywhere = match (&question.targets.command, scope) {
        (Some(command), Scope::Session | Scope::Forever) if command.extra.unsandboxed => {
            ", even if the files it runs change"
        }
        (Some(_), Scope::Session | Scope::Forever) => {
            ", in any directory, even if the files it runs change"
        }
        _ => "",
    };
    Some(format!("{until}: {}{anywhere}", what.join(", ")))
}

/// Returns a question as a JSON object that includes its words.
pub fn to_json(question: &Question) -> Value {
    let targets = &question.targets;
    let paths: Vec<_> = targets.files.iter().map(|file| file.path.to_string_lossy()).collect();
    let covers = Scope::ALL.into_iter().filter_map(|scope| {
        let what = match scope {
            Scope::Call => Vec::new(),
            scope => question.covers.iter().find(|cover| cover.scope == scope)?.what.clone(),
        };
        Some(
            json!({ "scope": scope.as_str(), "what": what, "text": self::covers(question, scope) }),
        )
    });
    json!({
        "question": question.id,
        "id": question.call_id,
        "session": question.session,
        "agent": question.agent,
        "tool": question.tool,
        "server": question.tool_origin.as_ref().map(|origin| &*origin.server),
        "effects": question.effects,
        "paths": paths,
        "urls": targets.urls.iter().map(|url| url.url.as_str()).collect::<Vec<_>>(),
        "sent": targets.urls.iter().flat_map(|url| &url.claim.sent).collect::<Vec<_>>(),
        "hosts": targets.hosts.iter().map(Host::to_string).collect::<Vec<_>>(),
        "message": targets.message.as_ref().map(|message| {
            let (channel, receiver) = message.receiver.names();
            json!({ "channel": channel, "receiver": receiver, "content": message.content })
        }),
        "command": targets.command.as_ref().map(|command| match &command.command.line {
            CommandLine::Shell(_, text) => json!(text),
            CommandLine::Argv(argv) => json!(argv),
        }),
        "segments": targets.command.as_ref().map(|command| &command.analysis.segments),
        "program": targets.command.as_ref().map(|command| command.program.to_string_lossy()),
        "cwd": targets.command.as_ref().map(|command| command.cwd.to_string_lossy()),
        "needs": targets.command.as_ref().map(|command| {
            command.extra.needs().iter().map(ToString::to_string).collect::<Vec<_>>()
        }),
        "needed_for": targets.command.as_ref().and_then(|command| Some(&command.needs()?.why)),
        "protected": targets.command.as_ref().map(|command| &command.named),
        "arguments": question.arguments,
        "is_open": question.is_open,
        "undo": question.undo.as_str(),
        "unkept": question.unkept.as_ref().map(|change| {
            json!({ "path": change.path.to_string_lossy(), "size": change.size, "removes": change.removes })
        }),
        "is_running": question.is_running,
        "head": head(question),
        "sandbox": question.sandbox,
        "diff": question.diff,
        "rule": question.rule,
        "origin": question.origin,
        "why": question.why,
        "covers": covers.collect::<Vec<_>>(),
        "n_asked": question.n_asked,
        "timeout_s": question.timeout.as_secs(),
        "text": words(question),
    })
}

/// Parses an answer word: `yes`, `no` or an allowed scope, or what MCP forms call them. The error lists the words.
pub fn answer(word: &str, reason: Option<String>) -> Result<Answer, String> {
    match (word, Scope::from_word(word)) {
        ("yes" | "once", _) => Ok(Answer::Yes(Scope::Call)),
        ("always", _) => Ok(Answer::Yes(Scope::Forever)),
        ("no" | "deny", _) => Ok(Answer::No(reason.filter(|reason| !reason.trim().is_empty()))),
        (_, Some(scope)) => Ok(Answer::Yes(scope)),
        (_, None) => Err(format!("no such answer: {word}; use yes, no, exact, session or forever")),
    }
}

/// Returns whether a prompt would not name the program that gets the text.
fn is_usual_shell(program: &Path) -> bool {
    ["/bin/sh", "/bin/bash", "/usr/bin/sh", "/usr/bin/bash"]
        .iter()
        .any(|sh| Path::new(sh) == program)
}

/// Returns a command as it will run: shell text, or quoted arguments.
fn command_words(command: &CommandTarget) -> String {
    match &command.command.line {
        CommandLine::Shell(_, text) => text.clone(),
        CommandLine::Argv(argv) => {
            let quoted = argv.iter().skip(1).map(|arg| format!(" {arg:?}"));
            format!("{}{}", command.program.display(), quoted.collect::<String>())
        }
    }
}

/// Escapes invisible characters of one line except tabs.
fn one_line(text: &str) -> String {
    let parts: Vec<String> = text.split('\t').map(shown).collect();
    parts.join("\t").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sinew_tool::{
        Analysis, Arguments, Command, CommandList, Cover, LazyCommandList, MessageTarget, Receiver,
        Segment, Shell, Targets, Unclear,
    };

    use super::*;

    fn question() -> Question {
        Question {
            id: String::from("q1"),
            call_id: String::from("c"),
            session: String::from("s"),
            agent: None,
            asked_for: String::from("c"),
            tool: String::from("Write"),
            tool_origin: None,
            effects: vec!["change"],
            targets: Targets::default(),
            arguments: Arguments::new(),
            is_open: false,
            undo: UndoCover::All,
            unkept: None,
            is_running: false,
            diff: Some(String::from("@@ -0,0 +1,2 @@\n+a\u{202e}b\u{1b}[2J\tc\n+d\r\n")),
            sandbox: None,
            rule: "change",
            origin: None,
            why: String::from("changing files asks"),
            covers: vec![Cover {
                scope: Scope::Session,
                what: vec![String::from("Write a\u{200b}")],
                only_at_terminal: false,
            }],
            n_asked: 1,
            timeout: Duration::from_secs(300),
        }
    }

    #[test]
    fn nothing_hides_in_a_question() {
        assert_eq!(
            words(&question()),
            "Run Write?\nWrite\n+2 −0 lines · undo covers it\nWrite: change\n@@ -0,0 +1,2 @@\n\
             +a\\u{202e}b\\u{1b}[2J\tc\n+d\\u{d}\n\
             Asked because changing files asks (rule change).\n"
        );
        let asked = Question {
            agent: Some(String::from("a\nb")),
            origin: Some(String::from("user, c.toml:1")),
            sandbox: Some(String::from("landlock")),
            arguments: json!({ "timeout": 5, "x\u{7}": "\u{202e}" })
                .as_object()
                .cloned()
                .unwrap_or_default(),
            is_open: true,
            diff: None,
            n_asked: 3,
            ..question()
        };
        assert_eq!(
            words(&asked),
            "Run Write?\n{\"timeout\":5,\"x\\u0007\":\"\\u{202e}\"}\n\
             undo covers it · for the agent a\\nb\nWrite: change for the agent a\\nb\n  with timeout = 5\n  \
             with x\\u{7} = \"\\u{202e}\"\n  \
             it may load files that sinew does not know, such as modules, includes and hooks; they can \
             change before it runs\n\
             Asked because changing files asks (rule change of user, c.toml:1).\n\
             It is question 3 of this session.\n"
        );
    }

    #[test]
    fn changed_lines_are_those_of_hunks() {
        for (diff, expected) in [
            ("--- a\n+++ b\n@@ -1,2 +1,2 @@\n-x\n+y\n z\n", (1, 1)),
            ("--- /dev/null\n+++ q\n@@ -0,0 +1,2 @@\n+++ a\n+++ b\n", (2, 0)),
            ("--- q\n+++ q\n@@ -1,2 +1 @@\n--- x\n-y\n\\ No newline\n+z\n", (1, 2)),
            ("--- a\n+++ a\n@@ -1 +1 @@\n-x\n+y\n--- b\n+++ b\n@@ -0,0 +1 @@\n+z\n", (2, 1)),
        ] {
            assert_eq!(n_lines(diff), expected, "{diff}");
        }
    }

    #[test]
    fn names_do_not_pass_for_circumstances() {
        for (path, expected) in [
            ("/w/a b", "/w/a b"),
            ("/w/x · undo covers it", "\"/w/x · undo covers it\""),
            ("/w/x    y", "\"/w/x    y\""),
        ] {
            assert_eq!(named(Path::new(path)), expected);
        }
    }

    #[test]
    fn message_shows_receiver_and_content() {
        let message = MessageTarget {
            receiver: Receiver::Agent { id: String::from("s\n2"), is_same_root: false },
            content: format!("one\ntwo\u{1b}{}", "x".repeat(MAX_VALUE)),
        };
        let targets = Targets { message: Some(message), ..Targets::default() };
        let shown = words(&Question { diff: None, targets, ..question() });
        let head = "Send a message to s\\n2 of agent?\none …\nundo covers it\n";
        assert!(shown.starts_with(head), "{shown}");
        let expected = "\n  message to s\\n2 of agent:\n    one\n    two\\u{1b}xxx";
        assert!(shown.contains(expected), "{shown}");
        assert!(shown.contains("xxx\n    (and 8 bytes more)\nAsked because"), "{shown}");
    }

    #[test]
    fn command_is_shown_as_a_prompt_would() {
        let command = Command {
            argument: "command",
            line: CommandLine::Shell(Shell::User, String::from("npm test\nls \u{1b}")),
            keeps_cwd: false,
            has_terminal: false,
            programs: Vec::new(),
            needs: None,
        };
        let segment = |text: &str| Segment { text: text.to_owned(), words: Vec::new() };
        let analysis = Analysis {
            segments: vec![segment("npm test"), segment("ls \u{1b}")],
            plain: Err(Unclear::new("shell.program", "`npm` is not known to be read-only")),
            rest: None,
            repeats: None,
            commands: LazyCommandList::new(CommandList::default),
        };
        let target = CommandTarget {
            command,
            program: "/bin/bash".into(),
            argv: Vec::new(),
            cwd: "/w".into(),
            analysis,
            named: Vec::new(),
            extra: ExtraAccess::default(),
            may_run_own_files: false,
        };
        let asked = |target: CommandTarget| Question {
            effects: vec!["execute"],
            tool: String::from("Bash"),
            targets: Targets { command: Some(target), ..Targets::default() },
            sandbox: Some(String::from("landlock")),
            diff: None,
            ..question()
        };
        let through = CommandTarget { program: "/usr/bin/direnv".into(), ..target.clone() };
        let shown = words(&asked(through));
        assert!(shown.contains("\n  program: /usr/bin/direnv\n"), "{shown}");
        assert_eq!(
            words(&asked(target)),
            "Run this command?\n$ npm test …\nsandbox: landlock · no network · undo covers it · in /w\n\
             Bash: execute\n  $ npm test\n    ls \\u{1b}\n  - npm test\n  - ls \\u{1b}\n\
             Asked because changing files asks (rule change).\n"
        );
    }

    #[test]
    fn each_scope_says_what_it_covers() {
        for (scope, expected) in [
            (Scope::Call, Some("this call")),
            (Scope::Exact, None),
            (Scope::Session, Some("for this session: Write a\\u{200b}")),
            (Scope::Forever, None),
        ] {
            assert_eq!(covers(&question(), scope).as_deref(), expected);
        }
        let scopes = to_json(&question())["covers"].clone();
        assert_eq!(
            scopes,
            json!([
                { "scope": "call", "what": [], "text": "this call" },
                {
                    "scope": "session",
                    "what": ["Write a\u{200b}"],
                    "text": "for this session: Write a\\u{200b}",
                },
            ])
        );
    }
}
