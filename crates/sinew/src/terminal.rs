//! Asking the person at the terminal.

use std::io::{self, BufRead, Write};

use sinew_tool::{Answer, Approver, BoxFuture, CommandLine, CommandTarget, Question};

/// Asks on standard error and reads the answer from standard input.
#[derive(Debug)]
pub(crate) struct Terminal;

impl Approver for Terminal {
    fn name(&self) -> &'static str {
        "terminal"
    }

    fn ask(&self, question: Question) -> BoxFuture<'_, Answer> {
        Box::pin(async move {
            // A thread of its own: the time-out of the question must go on while this one waits.
            // Standard error is not locked, so that others can speak meanwhile.
            let ask = move || ask(&question, &mut io::stdin().lock(), &mut io::stderr());
            tokio::task::spawn_blocking(ask).await.unwrap_or(Answer::No(None))
        })
    }
}

fn ask(question: &Question, input: &mut impl BufRead, out: &mut impl Write) -> Answer {
    let shown = write!(out, "{}Run it? [y/N] ", text(question)).and_then(|()| out.flush());
    let mut line = String::new();
    match shown.and_then(|()| input.read_line(&mut line)) {
        Ok(_) if matches!(line.trim(), "y" | "Y" | "yes") => Answer::Yes,
        Ok(_) | Err(_) => Answer::No(None),
    }
}

/// Returns the question in words: what, where, the change itself, and why it is asked.
fn text(question: &Question) -> String {
    let mut text = format!("{} wants to {}", visible(&question.tool), question.effects.join(", "));
    if let Some(command) = &question.targets.command {
        for line in words(command).lines() {
            text.push_str(&format!("\n  {}", visible(line)));
        }
        text.push_str("\n  in");
    }
    for target in &question.targets.files {
        text.push_str(&format!("\n  {}", visible(&target.path.to_string_lossy())));
    }
    text.push('\n');
    if let Some(diff) = &question.diff {
        for line in diff.lines() {
            text.push_str(&visible(line));
            text.push('\n');
        }
    }
    let why = visible(&question.why);
    text.push_str(&format!("Asked because {why} (rule {}).\n", question.rule));
    text
}

/// Returns a command as it will run: the text for the shell, or each argument in quotes.
fn words(command: &CommandTarget) -> String {
    match &command.command.line {
        CommandLine::Shell(_, text) => format!("{}: {text}", command.program.display()),
        CommandLine::Argv(argv) => {
            let quoted = argv.iter().skip(1).map(|arg| format!(" {arg:?}"));
            format!("{}{}", command.program.display(), quoted.collect::<String>())
        }
    }
}

/// Returns a text in which nothing can hide: control, bidirectional and invisible characters are
/// written as escapes. Tabs stay.
fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        let hides = (c.is_control() && c != '\t')
            || matches!(
                c,
                '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                    | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
                    | '\u{e0000}'..='\u{e0fff}'
            );
        if hides {
            shown.push_str(&format!("\\u{{{:x}}}", u32::from(c)));
        } else {
            shown.push(c);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question() -> Question {
        Question {
            call_id: String::from("c"),
            session: String::from("s"),
            tool: String::from("Write"),
            effects: vec!["change"],
            targets: sinew_tool::Targets::default(),
            diff: Some(String::from("+a\u{202e}b\u{1b}[2J\tc")),
            rule: "change",
            why: String::from("changing files asks"),
            always: None,
        }
    }

    #[test]
    fn nothing_hides_in_a_question() {
        assert_eq!(
            text(&question()),
            "Write wants to change\n+a\\u{202e}b\\u{1b}[2J\tc\n\
             Asked because changing files asks (rule change).\n"
        );
    }

    #[test]
    fn only_a_clear_yes_is_a_yes() {
        for (typed, answer) in [
            ("y\n", Answer::Yes),
            ("yes\n", Answer::Yes),
            ("\n", Answer::No(None)),
            ("yep\n", Answer::No(None)),
            ("", Answer::No(None)),
        ] {
            let mut shown = Vec::new();
            assert_eq!(ask(&question(), &mut typed.as_bytes(), &mut shown), answer, "{typed:?}");
            assert!(shown.ends_with(b"Run it? [y/N] "));
        }
    }
}
