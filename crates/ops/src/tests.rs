use serde_json::json;

use super::*;

#[test]
fn catalog_is_short() {
    let tools = native();
    let names: Vec<&str> = tools.iter().map(|tool| tool.name()).collect();
    let expected = [
        "Read",
        "Write",
        "Edit",
        "MultiEdit",
        "ApplyPatch",
        "Glob",
        "Grep",
        "List",
        "Bash",
        "BashOutput",
        "KillShell",
        "Terminal",
        "WebFetch",
        "WebSearch",
        "MemoryRead",
        "MemoryWrite",
        "AgentSend",
        "AgentInbox",
        "Message",
        "Spawn",
        "TodoWrite",
        "Undo",
        "CheckpointList",
        "CheckpointRestore",
        "Skill",
        "ToolSearch",
        "ToolCall",
    ];
    assert_eq!(names, expected);
    let sizes: Vec<usize> = tools
        .iter()
        .map(|tool| {
            let shown = json!({
                "name": tool.name(),
                "description": tool.description(),
                "inputSchema": tool.parameters(),
            });
            shown.to_string().len()
        })
        .collect();
    println!("{sizes:?}");
    let total: usize = sizes.iter().sum();
    // 120 tokens each; o200k_base, the vocabulary of current models, has 4.2 bytes of these in a token.
    assert!(total <= 504 * tools.len(), "{total} bytes: {sizes:?}");
}
