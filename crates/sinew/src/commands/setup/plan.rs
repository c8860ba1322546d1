//! Plans a setup or its undo: which files change, which command of the client runs, and what stays. Nothing is written here
//! before [`Plan::carry_out`].

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::clients::{CLIENTS, ClientRow, Switch};
use super::config_file::ConfigFile;
use super::edit::{self, Undone};
use super::error::{EditError, SetupError};
use super::host::{self, Host};
use super::item::{Edit, Insertion, Item, Role, TextFormat};
use super::record::{Record, Registered, WrittenFile, hash};
use super::verb;

/// A file that gets another text.
#[derive(Debug)]
pub(super) struct FileChange {
    /// As the client names it.
    pub(super) path: PathBuf,
    pub(super) current: ConfigFile,
    /// The new text; `None` removes the file.
    pub(super) new: Option<String>,
    /// The directories that an earlier setup made for it.
    made: Vec<PathBuf>,
}

/// The steps of a setup or an undo.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) client: &'static ClientRow,
    /// Commands of the client.
    pub(super) commands: Vec<Vec<String>>,
    pub(super) files: Vec<FileChange>,
    /// Values that stay as their owner wrote them.
    pub(super) kept: Vec<(PathBuf, Item)>,
    /// Files that stay because they changed since.
    pub(super) kept_files: Vec<PathBuf>,
    /// The record to keep; `None` removes it.
    record: Option<Record>,
    before: Option<Record>,
}

/// The values that a setup wants in one file.
struct WantedFile {
    path: PathBuf,
    format: TextFormat,
    items: Vec<Item>,
    /// The whole text of a file of its own.
    text: Option<&'static str>,
}

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
    Ok(match registered(host, client, &server)? {
        None => Status::Absent,
        Some(found) if edit::starts_same(&found, &server.value) => Status::Present,
        Some(_) => Status::Other,
    })
}

/// Returns the entry of sinew in the client's file.
fn registered(host: &Host, client: &ClientRow, server: &Item) -> Result<Option<Value>, SetupError> {
    let path = host.file(client);
    let Some(text) = ConfigFile::read(&path)?.text else { return Ok(None) };
    let tree = edit::parse(client.format, text.strip_prefix('\u{feff}').unwrap_or(&text));
    let tree = tree.map_err(|problem| SetupError::File { path, problem })?;
    Ok(server.path.iter().try_fold(&tree, |at, key| at.get(key)).cloned())
}

impl Plan {
    /// Plans a setup, as if an earlier one had been undone first.
    pub(super) fn setup(
        host: &Host,
        client: &'static ClientRow,
        beside: bool,
    ) -> Result<Self, SetupError> {
        let before = Record::read(host, client)?;
        let mut plan = Self::empty(client, before);
        let mut record = Record::of(&host.program, beside);
        let server = client.server(&host.program, beside);
        if client.by_verb {
            plan.commands = plan.verb(host, &server, beside)?;
            // Until the command has run, it is taken to write what it is given.
            record.registered = match plan.commands.is_empty() {
                true => plan.before.as_ref().and_then(|before| before.registered.clone()),
                false => Some(Registered {
                    file: host.file(client),
                    path: server.path.clone(),
                    value: server.value.clone(),
                }),
            };
        }
        for wanted in wanted(host, client, server, beside) {
            plan.add(wanted, &mut record)?;
        }
        // A file that is not wanted any more loses what an earlier setup wrote.
        let earlier = plan.before.iter().flat_map(|before| before.files.clone());
        for written in earlier.collect::<Vec<_>>() {
            if record.files.iter().all(|file| file.file != written.file)
                && plan.files.iter().all(|file| file.path != written.file)
            {
                plan.take_back(&written)?;
            }
        }
        if client.is_of_project() {
            plan.files.iter().try_for_each(|change| change.current.check_within(&host.project))?;
        }
        plan.check_writable()?;
        plan.record = match plan.is_empty() {
            true => plan.before.clone(),
            false => Some(record),
        };
        Ok(plan)
    }

    /// Plans an undo; returns `None` where no setup is recorded.
    pub(super) fn undo(
        host: &Host,
        client: &'static ClientRow,
    ) -> Result<Option<Self>, SetupError> {
        let Some(before) = Record::read(host, client)? else { return Ok(None) };
        let mut plan = Self::empty(client, Some(before.clone()));
        if let Some(Registered { file, path, value }) = &before.registered {
            let item = Item { path: path.clone(), value: value.clone(), role: Role::Server };
            match registered(host, client, &item)? {
                Some(found) if found == *value => plan.commands.push(verb::remove(host, client)?),
                Some(_) => plan.kept.push((file.clone(), item)),
                None => {}
            }
        }
        for written in &before.files {
            plan.take_back(written)?;
        }
        plan.check_writable()?;
        Ok(Some(plan))
    }

    fn empty(client: &'static ClientRow, before: Option<Record>) -> Self {
        Self {
            client,
            commands: Vec::new(),
            files: Vec::new(),
            kept: Vec::new(),
            kept_files: Vec::new(),
            record: None,
            before,
        }
    }

    fn check_writable(&self) -> Result<(), SetupError> {
        self.files.iter().try_for_each(|change| change.current.check_writable())
    }

    /// Returns whether nothing would change.
    pub(super) fn is_empty(&self) -> bool {
        self.commands.is_empty() && self.files.is_empty()
    }

    /// Returns the commands of the client that register the server.
    fn verb(
        &self,
        host: &Host,
        server: &Item,
        beside: bool,
    ) -> Result<Vec<Vec<String>>, SetupError> {
        let client = self.client;
        let found = registered(host, client, server)?;
        let before = self.before.as_ref();
        let ours = before.and_then(|before| Some((before.registered.as_ref()?, before.beside)));
        let add = || verb::add(host, client, server, beside);
        match (found, ours) {
            (None, _) => Ok(vec![add()?]),
            (Some(found), Some((ours, was_beside))) if found == ours.value => {
                match edit::starts_same(&found, &server.value) && was_beside == beside {
                    true => Ok(Vec::new()),
                    false => Ok(vec![verb::remove(host, client)?, add()?]),
                }
            }
            (Some(found), _) if edit::starts_same(&found, &server.value) => Ok(Vec::new()),
            (Some(found), _) => {
                let problem = EditError::Taken { key: server.shown(), value: found.to_string() };
                Err(SetupError::File { path: host.file(client), problem })
            }
        }
    }

    /// Adds the change of one file.
    fn add(&mut self, wanted: WantedFile, record: &mut Record) -> Result<(), SetupError> {
        let WantedFile { path, format, items, text } = wanted;
        let current = ConfigFile::read(&path)?;
        let earlier = self.before.iter().flat_map(|before| &before.files);
        let earlier = earlier.clone().find(|written| written.file == path).cloned();
        let base = match &earlier {
            Some(written) => taken_back(&path, &current, written)?.0,
            None => current.text.clone(),
        };
        let old = base.as_deref().unwrap_or_default();
        let (new, edit) = match text {
            Some(text) if base.is_none() => {
                let insertions = vec![Insertion { at: 0, text: text.to_owned() }];
                (text.to_owned(), Edit { insertions, ..Edit::default() })
            }
            Some(text) => {
                if old != text {
                    self.kept_files.push(path.clone());
                }
                (old.to_owned(), Edit::default())
            }
            None => {
                let merged = edit::merge(format, old, &items)
                    .map_err(|problem| SetupError::File { path: path.clone(), problem })?;
                self.kept.extend(merged.left.into_iter().map(|item| (path.clone(), item)));
                (merged.text, merged.edit)
            }
        };
        let directories = match &earlier {
            Some(written) if written.is_new => written.directories.clone(),
            _ => current.missing_directories(),
        };
        if !edit.insertions.is_empty() {
            record.files.push(WrittenFile {
                file: path.clone(),
                format,
                edit,
                is_new: base.is_none(),
                directories: if base.is_none() { directories.clone() } else { Vec::new() },
                hash: hash(&new),
            });
        }
        if current.text.as_ref() != Some(&new) && !(new.is_empty() && current.text.is_none()) {
            self.files.push(FileChange { path, current, new: Some(new), made: directories });
        }
        Ok(())
    }

    /// Adds the change that takes back what a setup wrote.
    fn take_back(&mut self, written: &WrittenFile) -> Result<(), SetupError> {
        let current = ConfigFile::read(&written.file)?;
        let (new, kept) = taken_back(&written.file, &current, written)?;
        match kept {
            Leftover::Nothing => {}
            Leftover::File => self.kept_files.push(written.file.clone()),
            Leftover::Items(items) => {
                self.kept.extend(items.into_iter().map(|item| (written.file.clone(), item)));
            }
        }
        if new != current.text {
            let made = written.directories.clone();
            self.files.push(FileChange { path: written.file.clone(), current, new, made });
        }
        Ok(())
    }

    /// Carries the plan out: the record first, so that an interrupted setup can be undone.
    pub(super) fn carry_out(mut self, host: &Host) -> Result<(), SetupError> {
        if let Some(record) = &self.record {
            record.write(host, self.client)?;
        }
        let mut n_done = 0;
        let done = self.steps(host, &mut n_done);
        if done.is_err() && n_done == 0 {
            // Nothing happened, so the old record holds.
            match &self.before {
                Some(before) => before.write(host, self.client)?,
                None => Record::remove(host, self.client)?,
            }
        }
        done?;
        match &self.record {
            Some(record) => record.write(host, self.client),
            None => Record::remove(host, self.client),
        }
    }

    fn steps(&mut self, host: &Host, n_done: &mut usize) -> Result<(), SetupError> {
        for words in &self.commands {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            host::run(&words)
                .map_err(|said| SetupError::Verb { command: verb::shown(&words), said })?;
            *n_done += 1;
        }
        if let (Some(record), false) = (&mut self.record, self.commands.is_empty()) {
            let server = self.client.server(&host.program, record.beside);
            let found = registered(host, self.client, &server)?;
            let Some(value) = found else {
                let command = format!("{} mcp add", self.client.name);
                let said = format!("{} has no entry afterwards", host.file(self.client).display());
                return Err(SetupError::Verb { command, said });
            };
            let file = host.file(self.client);
            record.registered = Some(Registered { file, path: server.path, value });
        }
        for change in &self.files {
            match &change.new {
                Some(text) => change.current.write(text)?,
                None => change.current.remove(&change.made)?,
            }
            *n_done += 1;
        }
        Ok(())
    }
}

/// The values of a setup that stay.
enum Leftover {
    Nothing,
    Items(Vec<Item>),
    /// A file of its own that changed.
    File,
}

/// Returns the text of a file without what a setup wrote; `None` where the file vanishes.
fn taken_back(
    path: &Path,
    current: &ConfigFile,
    written: &WrittenFile,
) -> Result<(Option<String>, Leftover), SetupError> {
    let Some(text) = &current.text else { return Ok((None, Leftover::Nothing)) };
    let is_untouched = hash(text) == written.hash;
    if written.edit.items.is_empty() && !is_untouched {
        return Ok((Some(text.clone()), Leftover::File));
    }
    let undone = edit::undo(written.format, text, &written.edit, is_untouched);
    let Undone { text, kept, .. } =
        undone.map_err(|problem| SetupError::File { path: path.to_owned(), problem })?;
    let is_bare = || {
        let blank = text.chars().all(|c| c.is_whitespace() || "{}\u{feff}".contains(c));
        blank && edit::parse(written.format, text.trim_start_matches('\u{feff}')).is_ok()
    };
    let kept = if kept.is_empty() { Leftover::Nothing } else { Leftover::Items(kept) };
    Ok((if written.is_new && is_bare() { None } else { Some(text) }, kept))
}

/// Returns the values that a setup wants, by file.
fn wanted(host: &Host, client: &ClientRow, server: Item, beside: bool) -> Vec<WantedFile> {
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
