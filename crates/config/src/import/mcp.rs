//! Imports the servers of an MCP client's file as `[tools.mcp_servers]`.

use std::path::Path;

use super::Imported;
use crate::server_entries::ServerEntries;

/// Reads a client's file.
pub(super) fn read(file: &Path, text: &str) -> Result<Imported, String> {
    let mut imported = Imported::default();
    let servers = ServerEntries::read(file, text)?;
    add(&servers, &mut imported)?;
    Ok(imported)
}

/// Adds servers, with notes on the settings that mean something else here.
pub(super) fn add(servers: &ServerEntries, imported: &mut Imported) -> Result<(), String> {
    let options = ServerEntries::options(&servers.entries)?;
    for key in &servers.unknown {
        imported.note(format!("`{key}` is left out: sinew has no such key"));
    }
    for (name, server) in &options {
        if server.command.is_some() && server.network.is_none() {
            imported.note(format!(
                "the server `{name}` has no network here; `network = true` opens it, for one that downloads (`npx`, \
                 `uvx`) or reaches other hosts"
            ));
        }
    }
    if !options.is_empty() {
        imported.options.tools.get_or_insert_default().mcp_servers = Some(options);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_become_entries() {
        let text = r#"{"mcpServers": {
            "a": {"command": "x", "args": ["y"], "timeout": 1},
            "s": {"command": "sinew", "args": ["mcp"]}
        }}"#;
        let imported = read(Path::new(".mcp.json"), text).expect("servers");
        let servers = imported.options.tools.and_then(|tools| tools.mcp_servers).expect("servers");
        let names: Vec<&String> = servers.keys().collect();
        assert_eq!(names, ["a"]);
        assert_eq!(servers["a"].args.as_deref(), Some(&[String::from("y")][..]));
        assert_eq!(servers["a"].internal_only, Some(false));
        let notes: Vec<bool> =
            imported.notes.iter().map(|note| note.contains("`a") && !note.contains("`s")).collect();
        assert_eq!(notes, [true, true], "{:?}", imported.notes);
        let wrong = read(Path::new("a.json"), r#"{"servers": {"a": {"args": 1, "command": "x"}}}"#);
        assert!(wrong.expect_err("no list").contains("the server `a`"));
    }
}
