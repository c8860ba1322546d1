//! Reads an MCP client's server file. sinew proxies no foreign server, so it imports none.

use std::path::Path;

use super::Imported;
use crate::clients;

/// Reads a client's file.
pub(super) fn read(file: &Path, text: &str) -> Result<Imported, String> {
    let mut imported = Imported::default();
    for server in clients::servers(file, text)? {
        imported.note(format!(
            "the server `{}` stays with its client: tools of other servers are not served here",
            server.name
        ));
    }
    Ok(imported)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_is_noted() {
        let text = r#"{"mcpServers": {"a": {"command": "x"}, "b": {"url": "http://y"}}}"#;
        let imported = read(Path::new(".mcp.json"), text).expect("servers");
        assert_eq!(imported.options, crate::Options::default());
        let names: Vec<bool> = imported
            .notes
            .iter()
            .zip(["`a`", "`b`"])
            .map(|(note, name)| note.contains(name))
            .collect();
        assert_eq!(names, [true, true]);
    }
}
