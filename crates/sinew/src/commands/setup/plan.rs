//! Plans a setup or its undo: which files change, which command of the client runs, and what stays. Nothing is written here
//! before [`Plan::carry_out`].

use std::path::{Path, PathBuf};

use super::clients::ClientRow;
use super::config_file::ConfigFile;
use super::edit;
use super::error::SetupError;
use super::host::Host;
use super::item::{Edit, Insertion, Item, Role, TextFormat};
use super::record::{Record, Registered, WrittenFile, hash};
use super::registration;
use super::taken_back::{Leftover, taken_back};
use super::verb;
use super::wanted::{WantedFile, wanted};

/// A file that gets another text.
#[derive(Debug)]
pub(super) struct FileChange {
    /// As the client names it.
    pub(super) path: PathBuf,
    pub(super) format: TextFormat,
    pub(super) current: ConfigFile,
    /// The new text; `None` removes the file.
    pub(super) new: Option<String>,
    /// The directories that an earlier setup made for it.
    pub(super) made: Vec<PathBuf>,
}

/// The steps of a setup or an undo.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) client: &'static ClientRow,
    pub(super) is_undo: bool,
    /// Commands of the client.
    pub(super) commands: Vec<Vec<String>>,
    pub(super) files: Vec<FileChange>,
    /// Values that stay as their owner wrote them.
    pub(super) kept: Vec<(PathBuf, Item)>,
    /// Files that stay because they changed since.
    pub(super) kept_files: Vec<PathBuf>,
    /// Why an undo leaves parts of the setup.
    pub(super) failures: Vec<SetupError>,
    /// In a dry run, why the commands could not run here.
    pub(super) no_program: Option<SetupError>,
    /// The record to keep; `None` removes it.
    pub(super) record: Option<Record>,
    pub(super) before: Option<Record>,
}

impl Plan {
    /// Plans a setup. A file that lacks wanted values, or has others of an earlier setup, changes as if that one had been
    /// undone first.
    pub(super) fn setup(
        host: &Host,
        client: &'static ClientRow,
        beside: bool,
        is_dry: bool,
    ) -> Result<Self, SetupError> {
        let before = Record::read(host, client)?;
        let mut plan = Self::empty(client, before);
        let mut record = Record::of(&host.program, beside);
        let server = client.server(&host.program, beside);
        if client.by_verb {
            let before = plan.before.as_ref();
            plan.commands = registration::commands(host, client, &server, beside, before)?;
            if !plan.commands.is_empty() {
                plan.check_program(verb::no_program(host, client, &server), is_dry)?;
            }
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
            match wanted.text {
                Some(text) => plan.add_own_file(wanted.path, text, &mut record)?,
                None => plan.add(host, wanted, &mut record)?,
            }
        }
        // A file that is not wanted any more loses what an earlier setup wrote.
        let earlier = plan.before.iter().flat_map(|before| before.files.clone());
        for written in earlier.collect::<Vec<_>>() {
            if record.files.iter().all(|file| file.file != written.file)
                && plan.files.iter().all(|file| file.path != written.file)
            {
                plan.take_back(host, &written)?;
            }
        }
        plan.files.iter().try_for_each(|change| check(host, client, change))?;
        plan.record = match plan.is_empty() {
            true => plan.before.clone(),
            false => Some(record),
        };
        Ok(plan)
    }

    /// Plans an undo; returns `None` where no setup is recorded. A part that cannot be undone stays in the record.
    pub(super) fn undo(
        host: &Host,
        client: &'static ClientRow,
        is_dry: bool,
    ) -> Result<Option<Self>, SetupError> {
        let Some(before) = Record::read(host, client)? else { return Ok(None) };
        let mut plan = Self::empty(client, Some(before.clone()));
        plan.is_undo = true;
        let mut rest = Record::of(&before.program, before.beside);
        if let Some(registered) = &before.registered
            && let Err(error) = plan.unregister(host, registered, is_dry)
        {
            rest.registered = Some(registered.clone());
            plan.failures.push(error);
        }
        for written in &before.files {
            if let Err(error) = plan.take_back(host, written) {
                rest.files.push(written.clone());
                plan.failures.push(error);
            }
        }
        if plan.failures.is_empty() {
            return Ok(Some(plan));
        }
        if plan.is_empty() {
            return Err(plan.failures.swap_remove(0));
        }
        plan.record = Some(rest);
        Ok(Some(plan))
    }

    fn empty(client: &'static ClientRow, before: Option<Record>) -> Self {
        Self {
            client,
            is_undo: false,
            commands: Vec::new(),
            files: Vec::new(),
            kept: Vec::new(),
            kept_files: Vec::new(),
            failures: Vec::new(),
            no_program: None,
            record: None,
            before,
        }
    }

    /// Returns whether nothing would change.
    pub(super) fn is_empty(&self) -> bool {
        self.commands.is_empty() && self.files.is_empty()
    }

    /// Fails if the program of the commands is missing. A dry run keeps the reason.
    fn check_program(
        &mut self,
        missing: Option<SetupError>,
        is_dry: bool,
    ) -> Result<(), SetupError> {
        match missing {
            Some(error) if !is_dry => Err(error),
            missing => {
                self.no_program = missing;
                Ok(())
            }
        }
    }

    /// Adds the command that removes the entry which the client's command wrote.
    fn unregister(
        &mut self,
        host: &Host,
        registered: &Registered,
        is_dry: bool,
    ) -> Result<(), SetupError> {
        let Registered { file, path, value } = registered;
        if *file != host.file(self.client) {
            let problem = "the setup wrote this file, and the client has another one now; set the client's variables as they \
                           were, then run the command again";
            return Err(SetupError::Refused { path: file.clone(), problem });
        }
        let item = Item { path: path.clone(), value: value.clone(), role: Role::Server };
        match registration::entry(file, self.client, path)? {
            Some(found) if found == *value => {
                self.check_program(verb::no_removal(host, self.client), is_dry)?;
                self.commands.push(verb::remove(self.client));
            }
            Some(_) => self.kept.push((file.clone(), item)),
            None => {}
        }
        Ok(())
    }

    fn earlier(&self, path: &Path) -> Option<WrittenFile> {
        let mut written = self.before.iter().flat_map(|before| &before.files);
        written.find(|written| written.file == path).cloned()
    }

    /// Adds the change of one file.
    fn add(
        &mut self,
        host: &Host,
        wanted: WantedFile,
        record: &mut Record,
    ) -> Result<(), SetupError> {
        let current = ConfigFile::read(&wanted.path)?;
        let earlier = self.earlier(&wanted.path);
        let items = wanted.items_to_add(host, &current, earlier.as_ref())?;
        if let Some(written) = &earlier
            && let Some(left) = wanted.left_as_it_is(&current, &items, written)
        {
            self.kept.extend(left.into_iter().map(|item| (wanted.path.clone(), item)));
            record.files.push(written.clone());
            return Ok(());
        }
        let WantedFile { path, format, .. } = wanted;
        let base = match &earlier {
            Some(written) => taken_back(&current, written)?.0,
            None => current.text.clone(),
        };
        let merged = edit::merge(format, base.as_deref().unwrap_or_default(), &items)
            .map_err(|problem| SetupError::File { path: path.clone(), problem })?;
        self.kept.extend(merged.left.into_iter().map(|item| (path.clone(), item)));
        let made = match &earlier {
            Some(written) if written.is_new => written.directories.clone(),
            _ => current.missing_directories(),
        };
        let new = merged.text;
        if !merged.edit.insertions.is_empty() {
            record.files.push(WrittenFile {
                file: path.clone(),
                format,
                edit: merged.edit,
                is_new: base.is_none(),
                directories: if base.is_none() { made.clone() } else { Vec::new() },
                hash: hash(&new),
            });
        }
        if current.text.as_ref() != Some(&new) && !(new.is_empty() && current.text.is_none()) {
            self.files.push(FileChange { path, format, current, new: Some(new), made });
        }
        Ok(())
    }

    /// Adds a file that holds nothing but a text of the setup. One with another text stays.
    fn add_own_file(
        &mut self,
        path: PathBuf,
        text: &str,
        record: &mut Record,
    ) -> Result<(), SetupError> {
        let current = ConfigFile::read(&path)?;
        let earlier = self.earlier(&path);
        let is_ours =
            |current: &str| earlier.as_ref().is_some_and(|written| hash(current) == written.hash);
        match current.text.as_deref() {
            Some(found) if found == text || !is_ours(found) => {
                if found != text {
                    self.kept_files.push(path);
                }
                record.files.extend(earlier);
                return Ok(());
            }
            _ => {}
        }
        let made = match &earlier {
            Some(written) => written.directories.clone(),
            None => current.missing_directories(),
        };
        let insertions = vec![Insertion { at: 0, text: text.to_owned() }];
        let format = TextFormat::Toml;
        record.files.push(WrittenFile {
            file: path.clone(),
            format,
            edit: Edit { insertions, ..Edit::default() },
            is_new: true,
            directories: made.clone(),
            hash: hash(text),
        });
        self.files.push(FileChange { path, format, current, new: Some(text.to_owned()), made });
        Ok(())
    }

    /// Adds the change that takes back what a setup wrote.
    fn take_back(&mut self, host: &Host, written: &WrittenFile) -> Result<(), SetupError> {
        let current = ConfigFile::read(&written.file)?;
        let (new, left) = taken_back(&current, written)?;
        let change = FileChange {
            path: written.file.clone(),
            format: written.format,
            current,
            new,
            made: written.directories.clone(),
        };
        if change.new != change.current.text {
            check(host, self.client, &change)?;
            self.files.push(change);
        }
        match left {
            Leftover::Nothing => {}
            Leftover::File => self.kept_files.push(written.file.clone()),
            Leftover::Items(items) => {
                self.kept.extend(items.into_iter().map(|item| (written.file.clone(), item)));
            }
        }
        Ok(())
    }
}

/// Returns an error where a change is not possible, or leads out of the project.
fn check(host: &Host, client: &ClientRow, change: &FileChange) -> Result<(), SetupError> {
    if client.is_of_project() {
        change.current.check_within(&host.project)?;
    }
    change.current.check_writable()
}
