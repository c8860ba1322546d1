//! Answers questions before calls run: a person at the terminal, or a policy where there is none.
#![expect(clippy::disallowed_methods, reason = "an embedding program reads its own files")]

use std::error::Error;
use std::io::IsTerminal;
use std::sync::Arc;

use serde_json::json;
use sinew::approval::{Answer, Approvals, Approver, Asking, Question, Scope};
use sinew::dialects::NATIVE;
use sinew::{BoxFuture, CallOptions, Request, Runtime};

struct Desk;

impl Approver for Desk {
    fn name(&self) -> &'static str {
        "desk"
    }

    fn ask(&self, question: Question) -> BoxFuture<'_, Answer> {
        println!("{} asks: {}", question.tool, question.why);
        println!("{}", question.diff.as_deref().unwrap_or_default());
        // Reading blocks, so it leaves the async threads.
        let answer = tokio::task::spawn_blocking(move || answer(&question));
        Box::pin(async move { answer.await.unwrap_or(Answer::Gone) })
    }
}

fn answer(question: &Question) -> Answer {
    if std::io::stdin().is_terminal() {
        println!("`y` allows this call:");
        return match std::io::stdin().lines().next() {
            Some(Ok(line)) if line == "y" => Answer::Yes(Scope::Call),
            Some(Ok(_)) => Answer::No(None),
            _ => Answer::Gone,
        };
    }
    let mut files = question.targets.files.iter();
    match files.all(|file| file.path.extension() == Some("md".as_ref())) {
        true => Answer::Yes(Scope::Call),
        false => Answer::No(Some(String::from("only Markdown may be written here"))),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let (approvals, approvers) = (Approvals::Ask, vec![Arc::new(Desk) as Arc<dyn Approver>]);
    let asking = Asking { approvals, approvers, ..Asking::default() };
    let runtime = Runtime::builder(NATIVE).root(dir.path()).asking(asking).build()?;
    for path in ["notes.md", "run.sh"] {
        let arguments = serde_json::from_value(json!({"file_path": path, "content": "hello\n"}))?;
        let request = Request::new("call-1", "Write", arguments);
        let result = runtime.call(request, CallOptions::default()).await.into_text();
        println!("{path}: {result:?}");
        assert_eq!(result.is_ok(), dir.path().join(path).exists());
    }
    Ok(())
}
