//! The commands of a client that registers servers itself.

use super::clients::{ClientRow, NAME};
use super::error::SetupError;
use super::host::Host;
use super::item::Item;
use crate::config::env_vars;
use crate::wiring;

/// Returns the command that registers the server. The plain form cannot say that its tools are always loaded.
pub(super) fn add(
    host: &Host,
    client: &ClientRow,
    server: &Item,
    beside: bool,
) -> Result<Vec<String>, SetupError> {
    let Some(program) = program_of(client) else {
        let file = host.shown(&host.file(client));
        let entry = format!("{} = {}", server.shown(), server.value);
        let program = client.programs.first().copied().unwrap_or_default();
        return Err(SetupError::NoProgram { title: client.title, program, file, entry });
    };
    let json = server.value.to_string();
    let words: Vec<&str> = match beside {
        true => vec![program, "mcp", "add", "-s", "user", NAME, "--", &host.program, "mcp"],
        false => vec![program, "mcp", "add-json", "-s", "user", NAME, &json],
    };
    Ok(words.into_iter().map(String::from).collect())
}

/// Returns the command that removes the server.
pub(super) fn remove(host: &Host, client: &ClientRow) -> Result<Vec<String>, SetupError> {
    let Some(program) = program_of(client) else {
        let file = host.shown(&host.file(client));
        let key = client.server(&host.program, false).shown();
        let program = client.programs.first().copied().unwrap_or_default();
        return Err(SetupError::NoRemoval { title: client.title, program, file, key });
    };
    Ok([program, "mcp", "remove", "-s", "user", NAME].map(String::from).to_vec())
}

fn program_of(client: &ClientRow) -> Option<&'static str> {
    client.programs.first().copied().filter(|program| env_vars::has_program(program))
}

/// Returns a command as a shell takes it.
pub(super) fn shown(words: &[impl AsRef<str>]) -> String {
    let words: Vec<String> = words.iter().map(|word| wiring::quoted(word.as_ref())).collect();
    words.join(" ")
}
