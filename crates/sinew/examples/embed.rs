//! Embeds sinew: writes, reads and changes a file, and takes the change back.
#![expect(clippy::disallowed_methods, reason = "an embedding program reads its own files")]

use std::error::Error;
use std::sync::Arc;

use serde_json::{Value, json};
use sinew::checkpoint::{CheckpointSettings, Checkpoints};
use sinew::ledger::MemoryLedger;
use sinew::{CallOptions, Request, Runtime, dialects};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let (project, state) = (dir.path().join("project"), dir.path().join("state"));
    std::fs::create_dir(&project)?;
    let checkpoints = Checkpoints::at(&state, CheckpointSettings::default());
    let ledger = Arc::new(MemoryLedger::default());
    // With checkpoints a change can be undone, so it runs without a question.
    let runtime = Runtime::builder(dialects::NATIVE)
        .root(&project)
        .deny(&state)
        .checkpoints(Arc::new(checkpoints))
        .ledger(ledger.clone())
        .build()?;

    for (name, arguments) in [
        ("Write", json!({"file_path": "notes.md", "content": "one\ntwo\n"})),
        ("Edit", json!({"file_path": "notes.md", "old_string": "two", "new_string": "three"})),
        ("Read", json!({"file_path": "notes.md"})),
        ("Undo", json!({})),
    ] {
        println!("> {name} {arguments}");
        println!("{}\n", call(&runtime, name, arguments).await?);
    }

    assert_eq!(std::fs::read_to_string(project.join("notes.md"))?, "one\ntwo\n");
    for (_, closing) in ledger.take() {
        println!("recorded: {} in {:.1} ms", closing.opening.tool, closing.duration_ms);
    }
    Ok(())
}

/// Makes a call and returns its text; a failed call is an error with a kind, a message and a hint.
async fn call(runtime: &Arc<Runtime>, name: &str, args: Value) -> Result<String, Box<dyn Error>> {
    let request = Request::new("call-1", name, serde_json::from_value(args)?);
    Ok(runtime.call(request, CallOptions::default()).await.into_text()?)
}
