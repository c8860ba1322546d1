//! Runs commands in the sandbox.
#![expect(clippy::disallowed_methods, reason = "an embedding program reads its own environment")]

use std::error::Error;
use std::sync::Arc;

use serde_json::json;
use sinew::checkpoint::{CheckpointSettings, Checkpoints};
use sinew::command::CommandSettings;
use sinew::{CallOptions, Helper, Request, Runtime, dialects};

fn main() -> Result<(), Box<dyn Error>> {
    // First of all, before a thread starts: sinew executes this program again to start commands.
    let helper = sinew::helper_main();
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(run(helper))
}

async fn run(helper: Helper) -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let (project, state) = (dir.path().join("project"), dir.path().join("state"));
    std::fs::create_dir(&project)?;
    let commands = CommandSettings::standard(helper, [&project], &state, std::env::vars_os());
    let runtime = Runtime::builder(dialects::NATIVE)
        .root(&project)
        .deny(&state)
        .commands(commands)
        // Their changes can be undone, so commands that stay in the sandbox run unasked.
        .checkpoints(Arc::new(Checkpoints::at(&state, CheckpointSettings::default())))
        .build()?;

    let (level, missing) = runtime.probe_commands("default").ok_or("no commands")??;
    println!("sandbox level: {level}");
    for shortfall in missing {
        println!("missing: {} ({})", shortfall.what, shortfall.why);
    }

    for command in ["printf 'b\\na\\n' > list", "sort list", "cat ~/.ssh/id_ed25519"] {
        let request =
            Request::new("call-1", "Bash", serde_json::from_value(json!({"command": command}))?);
        let reply = runtime.call(request, CallOptions::default()).await;
        println!("$ {command}");
        match reply.into_text() {
            Ok(text) => println!("{text}"),
            Err(error) => println!("{}: {error}", error.kind.as_str()),
        }
    }
    assert_eq!(std::fs::read_to_string(project.join("list"))?, "b\na\n");
    Ok(())
}
