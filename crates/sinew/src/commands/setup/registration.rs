//! How sinew is registered at a client: the row for the installed version, the entry in its file, and the commands that
//! change an entry which the client writes itself.

use std::path::Path;

use serde_json::Value;

use super::clients::{CLIENTS, ClientRow};
use super::config_file::ConfigFile;
use super::edit;
use super::error::{EditError, SetupError};
use super::host::Host;
use super::item::Item;
use super::record::Record;
use super::verb;

/// Returns the row of a client, by its name and its installed version.
pub(super) fn client(host: &Host, name: &str) -> Option<&'static ClientRow> {
    let client = CLIENTS.iter().copied().find(|client| client.name == name)?;
    let Some(later) = client.later else { return Some(client) };
    if host.major(client).is_none_or(|major| major < later.major) {
        return Some(client);
    }
    // A later version reads the old form too, so a file in it keeps it.
    let text = ConfigFile::read(&host.file(client)).ok().and_then(|file| file.text);
    let tree = text.and_then(|text| edit::parse(client.format, &text).ok());
    let has_old = tree.is_some_and(|tree| {
        let table = tree.get("mcp").and_then(Value::as_object);
        tree.get("permission").is_some()
            || table.is_some_and(|table| !table.contains_key("servers"))
    });
    Some(if has_old { client } else { later.client })
}

/// How sinew is registered at a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Absent,
    /// This program.
    Present,
    /// Another program or other arguments.
    Other,
}

/// Returns how sinew is registered.
pub(super) fn status(host: &Host, client: &ClientRow) -> Result<Status, SetupError> {
    let server = client.server(&host.program, false);
    Ok(match entry(&host.file(client), client, &server.path)? {
        None => Status::Absent,
        Some(found) if edit::starts_same(&found, &server.value) => Status::Present,
        Some(_) => Status::Other,
    })
}

/// Returns the entry of sinew in a file of the client.
pub(super) fn entry(
    path: &Path,
    client: &ClientRow,
    keys: &[String],
) -> Result<Option<Value>, SetupError> {
    let Some(text) = ConfigFile::read(path)?.text else { return Ok(None) };
    let tree = edit::parse(client.format, text.strip_prefix('\u{feff}').unwrap_or(&text));
    let tree = tree.map_err(|problem| SetupError::File { path: path.to_owned(), problem })?;
    Ok(keys.iter().try_fold(&tree, |at, key| at.get(key)).cloned())
}

/// Returns the commands of the client that register the server.
pub(super) fn commands(
    host: &Host,
    client: &ClientRow,
    server: &Item,
    beside: bool,
    before: Option<&Record>,
) -> Result<Vec<Vec<String>>, SetupError> {
    let file = host.file(client);
    let found = entry(&file, client, &server.path)?;
    let ours = before.and_then(|before| Some((before.registered.as_ref()?, before.beside)));
    let add = || verb::add(host, client, server, beside);
    match (found, ours) {
        (None, _) => Ok(vec![add()]),
        (Some(found), Some((ours, was_beside))) if found == ours.value => {
            match edit::starts_same(&found, &server.value) && was_beside == beside {
                true => Ok(Vec::new()),
                false => Ok(vec![verb::remove(client), add()]),
            }
        }
        (Some(found), _) if edit::starts_same(&found, &server.value) => Ok(Vec::new()),
        // The user gave the recorded entry other arguments.
        (Some(found), Some((ours, _))) if edit::starts_program(&found, &ours.value) => {
            match edit::starts_program(&found, &server.value) {
                true => Ok(Vec::new()),
                false => {
                    let problem = EditError::changed(server, &host.program);
                    Err(SetupError::File { path: file, problem })
                }
            }
        }
        (Some(found), _) => {
            let problem = EditError::taken(server, &found);
            Err(SetupError::File { path: file, problem })
        }
    }
}
