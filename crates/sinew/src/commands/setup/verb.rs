//! The commands of a client that registers servers itself.

use super::clients::{ClientRow, NAME};
use super::error::SetupError;
use super::host::Host;
use super::item::Item;
use crate::config::env_vars;
use crate::wiring;

/// Returns the command that registers the server. The plain form cannot say that its tools are always loaded.
pub(super) fn add(host: &Host, client: &ClientRow, server: &Item, beside: bool) -> Vec<String> {
    let program = program_of(client);
    let json = server.value.to_string();
    let words: Vec<&str> = match beside {
        true => vec![program, "mcp", "add", "-s", "user", NAME, "--", &host.program, "mcp"],
        false => vec![program, "mcp", "add-json", "-s", "user", NAME, &json],
    };
    words.into_iter().map(String::from).collect()
}

/// Returns the command that removes the server.
pub(super) fn remove(client: &ClientRow) -> Vec<String> {
    [program_of(client), "mcp", "remove", "-s", "user", NAME].map(String::from).to_vec()
}

/// Returns why no command can register the server, if `PATH` has no program of the client.
pub(super) fn no_program(host: &Host, client: &ClientRow, server: &Item) -> Option<SetupError> {
    let program = absent_program(client)?;
    let file = host.shown(&host.file(client));
    let entry = format!("{} = {}", server.shown(), server.value);
    Some(SetupError::NoProgram { title: client.title, program, file, entry })
}

/// Returns why no command can remove the server, if `PATH` has no program of the client.
pub(super) fn no_removal(host: &Host, client: &ClientRow) -> Option<SetupError> {
    let program = absent_program(client)?;
    let file = host.shown(&host.file(client));
    let key = client.server(&host.program, false).shown();
    Some(SetupError::NoRemoval { title: client.title, program, file, key })
}

fn absent_program(client: &ClientRow) -> Option<&'static str> {
    Some(program_of(client)).filter(|program| !env_vars::has_program(program))
}

fn program_of(client: &ClientRow) -> &'static str {
    client.programs.first().copied().unwrap_or_default()
}

/// Returns a command as a shell takes it.
pub(super) fn shown(words: &[impl AsRef<str>]) -> String {
    let words: Vec<String> = words.iter().map(|word| wiring::quoted(word.as_ref())).collect();
    words.join(" ")
}
