//! A question in words and as JSON: whoever is asked anywhere sees the same.
//!
//! Nothing is cut from it, and nothing hides in it: signs that are not seen are written as escapes.

use std::fmt::Write;

use serde_json::{Value, json};
use sinew_guard::shown;
use sinew_tool::{CommandLine, CommandTarget, Question, Scope};

/// Returns a question in words: what, where, the change itself, why it is asked, and what an answer can
/// cover.
pub fn words(question: &Question) -> String {
    let mut text = format!("{} wants to {}", one_line(&question.tool), question.effects.join(", "));
    if let Some(agent) = &question.agent {
        let _ = write!(text, " for the agent {}", one_line(agent));
    }
    if let Some(command) = &question.targets.command {
        for line in command_words(command).lines() {
            let _ = write!(text, "\n  {}", one_line(line));
        }
        text.push_str("\n  in");
    }
    for target in &question.targets.files {
        let _ = write!(text, "\n  {}", one_line(&target.path.to_string_lossy()));
    }
    for host in &question.targets.hosts {
        let _ = write!(text, "\n  {}", one_line(host));
    }
    if let Some(sandbox) = &question.sandbox {
        let _ = write!(text, "\n  contained by {}", one_line(sandbox));
    }
    text.push('\n');
    for line in question.diff.iter().flat_map(|diff| diff.lines()) {
        text.push_str(&one_line(line));
        text.push('\n');
    }
    let why = one_line(&question.why);
    let _ = write!(text, "Asked because {why} (rule {}", question.rule);
    if let Some(origin) = &question.origin {
        let _ = write!(text, " of {}", one_line(origin));
    }
    text.push_str(").\n");
    if 1 < question.n_asked {
        let _ = writeln!(text, "It is question {} of this session.", question.n_asked);
    }
    text
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
        Scope::Forever => "for ever in these roots",
    };
    Some(format!("{until}: {}", what.join(", ")))
}

/// Returns a question as one JSON object, its words beside its parts.
pub fn to_json(question: &Question) -> Value {
    let targets = &question.targets;
    let paths: Vec<_> = targets.files.iter().map(|file| file.path.to_string_lossy()).collect();
    let covers = Scope::ALL.into_iter().filter_map(|scope| {
        let what = match scope {
            Scope::Call => Vec::new(),
            scope => question.covers.iter().find(|cover| cover.scope == scope)?.what.clone(),
        };
        Some(json!({ "scope": scope.as_str(), "what": what }))
    });
    json!({
        "question": question.id,
        "id": question.call_id,
        "session": question.session,
        "agent": question.agent,
        "tool": question.tool,
        "effects": question.effects,
        "paths": paths,
        "hosts": targets.hosts,
        "command": targets.command.as_ref().map(|command| match &command.command.line {
            CommandLine::Shell(_, text) => json!(text),
            CommandLine::Argv(argv) => json!(argv),
        }),
        "segments": targets.command.as_ref().map(|command| &command.analysis.segments),
        "program": targets.command.as_ref().map(|command| command.program.to_string_lossy()),
        "cwd": targets.command.as_ref().map(|command| command.cwd.to_string_lossy()),
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

/// Returns a command as it will run: the text for the shell, or each argument in quotes.
fn command_words(command: &CommandTarget) -> String {
    match &command.command.line {
        CommandLine::Shell(_, text) => format!("{}: {text}", command.program.display()),
        CommandLine::Argv(argv) => {
            let quoted = argv.iter().skip(1).map(|arg| format!(" {arg:?}"));
            format!("{}{}", command.program.display(), quoted.collect::<String>())
        }
    }
}

/// Returns a text of one line in which nothing hides. Tabs stay.
fn one_line(text: &str) -> String {
    let parts: Vec<String> = text.split('\t').map(shown).collect();
    parts.join("\t").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sinew_tool::{Cover, Targets};

    use super::*;

    fn question() -> Question {
        Question {
            id: String::from("q1"),
            call_id: String::from("c"),
            session: String::from("s"),
            agent: None,
            tool: String::from("Write"),
            effects: vec!["change"],
            targets: Targets::default(),
            diff: Some(String::from("+a\u{202e}b\u{1b}[2J\tc")),
            sandbox: None,
            rule: "change",
            origin: None,
            why: String::from("changing files asks"),
            covers: vec![Cover {
                scope: Scope::Session,
                what: vec![String::from("Write a\u{200b}")],
            }],
            n_asked: 1,
            timeout: Duration::from_secs(300),
        }
    }

    #[test]
    fn nothing_hides_in_a_question() {
        assert_eq!(
            words(&question()),
            "Write wants to change\n+a\\u{202e}b\\u{1b}[2J\tc\n\
             Asked because changing files asks (rule change).\n"
        );
        let asked = Question {
            agent: Some(String::from("a\nb")),
            origin: Some(String::from("user, c.toml:1")),
            sandbox: Some(String::from("landlock")),
            diff: None,
            n_asked: 3,
            ..question()
        };
        assert_eq!(
            words(&asked),
            "Write wants to change for the agent a\\nb\n  contained by landlock\n\
             Asked because changing files asks (rule change of user, c.toml:1).\n\
             It is question 3 of this session.\n"
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
                { "scope": "call", "what": [] },
                { "scope": "session", "what": ["Write a\u{200b}"] },
            ])
        );
    }
}
