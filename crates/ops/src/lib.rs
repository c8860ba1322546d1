//! The operations of the engine: one per file, with its arguments, outcome, native row and tests.
//!
//! Nothing here names the operating system. Files, time and memory between calls come from the
//! [`Context`](sinew_tool::Context) of a call; patterns, matching, rendering and limits are decided here.
//! Dialects build their own rows over the same operations, so outcomes carry all that any of them needs.

pub mod agent_inbox;
pub mod agent_send;
pub mod apply_patch;
pub mod bash;
pub mod bash_output;
pub mod checkpoint_diff;
pub mod checkpoint_list;
pub mod checkpoint_restore;
pub mod edit;
pub mod find;
mod gather;
pub mod glob;
pub mod grep;
pub mod info;
pub mod kill_shell;
pub mod list;
pub mod make_directory;
pub mod memory_read;
pub mod memory_write;
pub mod message;
pub mod move_path;
pub mod multi_edit;
pub mod patch;
pub mod read;
pub mod read_many;
pub mod roots;
pub mod skill;
pub mod spawn;
pub mod terminal;
pub mod todo_write;
pub mod tool_call;
pub mod tool_search;
pub mod undo;
pub mod web_fetch;
pub mod web_search;
pub mod write;

mod batch;
mod best;
mod charset;
mod diff;
mod encoding;
mod kept;
mod line_diff;
mod line_index;
mod lines;
mod loose;
mod media;
mod memory;
mod names;
mod nearest;
mod omission;
mod pattern;
mod replace;
mod scan;
mod screen;
mod search;
mod source;
mod states;
mod time;
mod waits;
mod watch;

use std::sync::Arc;

use sinew_tool::Tool;

pub use diff::unified_diff;
pub use line_diff::line_ops;
pub use lines::{Ending, LineWindow, WindowLine};
pub use names::row_name;
pub use nearest::{Difference, Region};
pub use replace::{ContentChange, Stage};
pub use screen::cleaned;
pub use states::{Side, call_difference};
pub use time::{iso_millis, long_time};

/// Returns the native tools, in the order of the catalog.
pub fn native() -> Vec<Arc<dyn Tool>> {
    vec![
        read::NATIVE.tool(),
        write::NATIVE.tool(),
        edit::NATIVE.tool(),
        multi_edit::NATIVE.tool(),
        apply_patch::NATIVE.tool(),
        glob::NATIVE.tool(),
        grep::NATIVE.tool(),
        list::NATIVE.tool(),
        bash::NATIVE.tool(),
        bash_output::NATIVE.tool(),
        kill_shell::NATIVE.tool(),
        terminal::NATIVE.tool(),
        web_fetch::NATIVE.tool(),
        web_search::NATIVE.tool(),
        memory_read::NATIVE.tool(),
        memory_write::NATIVE.tool(),
        agent_send::NATIVE.tool(),
        agent_inbox::NATIVE.tool(),
        message::NATIVE.tool(),
        spawn::NATIVE.tool(),
        todo_write::NATIVE.tool(),
        undo::NATIVE.tool(),
        checkpoint_list::NATIVE.tool(),
        checkpoint_restore::NATIVE.tool(),
        skill::NATIVE.tool(),
        tool_search::NATIVE.tool(),
        Arc::new(tool_call::ToolCall),
    ]
}

#[cfg(test)]
mod tests;
