//! Finds the instructions for the system prompt, as far as the rules let the agent read them.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sinew_agent::Instructions;
use sinew_runtime::Runtime;
use sinew_tool::{Request, Verdict};

use crate::config;
use crate::screen::say;
use crate::wiring::Loaded;

/// The names under which dialects take the path of a file.
const PATH_ARGUMENTS: [&str; 2] = ["file_path", "path"];

/// Returns AGENTS.md and the like, the most general first; prints which files are left out.
pub(super) fn found(loaded: &Loaded, runtime: &Runtime, root: &Path) -> Vec<Instructions> {
    if !loaded.settings.agent.instructions {
        return Vec::new();
    }
    let user_dir = loaded.said.places.config();
    let found = config::instructions(user_dir.as_deref(), root, &|path| may_read(runtime, path));
    found.problems.iter().for_each(|problem| say(problem));
    let of =
        |(path, text): (PathBuf, String)| Instructions { path: path.display().to_string(), text };
    found.files.into_iter().map(of).collect()
}

/// Returns whether the agent may read a file unasked. Rules are for the files in the roots.
pub(crate) fn may_read(runtime: &Runtime, path: &Path) -> bool {
    if !runtime.roots().iter().any(|root| path.starts_with(root)) {
        return true;
    }
    let catalogs = runtime.catalogs();
    let Some(read) = catalogs.first().and_then(|catalog| catalog.does("Read")) else { return true };
    PATH_ARGUMENTS.iter().any(|argument| {
        let Value::Object(arguments) = json!({ *argument: path }) else { return false };
        let request = Request::new("read", read, arguments);
        let judged = runtime.judge_call(request, |_| {});
        judged.is_ok_and(|(_, ruling)| ruling.verdict == Verdict::Allow)
    })
}
