//! The values that a setup wants, by file.

use std::path::PathBuf;

use super::clients::{ClientRow, Switch};
use super::config_file::ConfigFile;
use super::edit;
use super::error::{EditError, SetupError};
use super::host::Host;
use super::item::{Item, Role, TextFormat};
use super::record::WrittenFile;

/// The values that a setup wants in one file.
#[derive(Debug)]
pub(super) struct WantedFile {
    pub(super) path: PathBuf,
    pub(super) format: TextFormat,
    pub(super) items: Vec<Item>,
    /// The whole text of a file of its own.
    pub(super) text: Option<&'static str>,
}

/// Returns the values that a setup wants, by file.
pub(super) fn wanted(
    host: &Host,
    client: &ClientRow,
    server: Item,
    beside: bool,
) -> Vec<WantedFile> {
    let mut files: Vec<WantedFile> = Vec::new();
    let own = host.file(client);
    if !client.by_verb {
        let format = client.format;
        files.push(WantedFile { path: own.clone(), format, items: vec![server], text: None });
    }
    for switch in client.instead.iter().filter(|_| !beside) {
        let path = switch.file().map_or_else(|| own.clone(), |file| host.path(file));
        if let Switch::File { text, .. } = switch {
            let format = TextFormat::Toml;
            files.push(WantedFile { path, format, items: Vec::new(), text: Some(*text) });
            continue;
        }
        match files.iter_mut().find(|file| file.path == path) {
            Some(file) => file.items.extend(switch.items()),
            None => {
                let format = if path == own { client.format } else { TextFormat::Json };
                files.push(WantedFile { path, format, items: switch.items(), text: None });
            }
        }
    }
    files
}

impl WantedFile {
    /// Returns the items to add: not a recorded server to which its user gave other arguments.
    pub(super) fn items_to_add(
        &self,
        host: &Host,
        current: &ConfigFile,
        earlier: Option<&WrittenFile>,
    ) -> Result<Vec<Item>, SetupError> {
        let failed = |problem| SetupError::File { path: self.path.clone(), problem };
        let (Some(text), Some(earlier)) = (&current.text, earlier) else {
            return Ok(self.items.clone());
        };
        let body = text.strip_prefix('\u{feff}').unwrap_or(text);
        let tree = edit::parse(self.format, body).map_err(failed)?;
        let mut items = Vec::new();
        for item in &self.items {
            let found = item.path.iter().try_fold(&tree, |at, key| at.get(key));
            let recorded = earlier.edit.items.iter().find(|one| one.path == item.path);
            let is_changed = |found| {
                let is_ours = recorded.is_some_and(|one| edit::starts_program(found, &one.value));
                is_ours && recorded.is_some_and(|one| !edit::starts_same(found, &one.value))
            };
            match found.filter(|found| item.role == Role::Server && is_changed(found)) {
                Some(found) if !edit::starts_program(found, &item.value) => {
                    return Err(failed(EditError::changed(item, &host.program)));
                }
                Some(_) => {}
                None => items.push(item.clone()),
            }
        }
        Ok(items)
    }

    /// Returns the values that stay, where the file needs no change: it has all items, and each recorded one is wanted.
    pub(super) fn left_as_it_is(
        &self,
        current: &ConfigFile,
        items: &[Item],
        earlier: &WrittenFile,
    ) -> Option<Vec<Item>> {
        let text = current.text.as_deref()?;
        let is_wanted = |item: &Item| self.items.contains(item);
        let merged = edit::merge(self.format, text, items).ok()?;
        (earlier.edit.items.iter().all(is_wanted) && merged.edit.insertions.is_empty())
            .then_some(merged.left)
    }
}
