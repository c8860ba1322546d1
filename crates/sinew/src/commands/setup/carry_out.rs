//! Carries a plan out: the record, the commands of the client, then the files.

use super::edit;
use super::error::SetupError;
use super::host::{self, Host};
use super::plan::Plan;
use super::record::{Record, Registered};
use super::registration;
use super::verb;

impl Plan {
    /// Carries the plan out. A setup writes its record first, so that it can be undone after an interruption; an undo
    /// changes the record last.
    pub(super) fn carry_out(mut self, host: &Host) -> Result<(), SetupError> {
        if let (Some(record), false) = (&self.record, self.is_undo) {
            record.write(host, self.client)?;
        }
        let mut n_done = 0;
        let done = self.steps(host, &mut n_done);
        if done.is_err() && n_done == 0 {
            self.restore_record(host)?;
        }
        done?;
        match &self.record {
            Some(record) => record.write(host, self.client),
            None => Record::remove(host, self.client),
        }
    }

    /// Puts the old record back after a failure, with the entry that a failed command wrote all the same.
    fn restore_record(&self, host: &Host) -> Result<(), SetupError> {
        let mut before = self.before.clone();
        if !self.is_undo && !self.commands.is_empty() {
            let beside = self.record.as_ref().is_some_and(|record| record.beside);
            let server = self.client.server(&host.program, beside);
            let file = host.file(self.client);
            let found = registration::entry(&file, self.client, &server.path).ok().flatten();
            if let Some(value) = found.filter(|found| edit::starts_same(found, &server.value)) {
                let record = before.get_or_insert_with(|| Record::of(&host.program, beside));
                record.registered = Some(Registered { file, path: server.path, value });
            }
        }
        match before {
            Some(before) => before.write(host, self.client),
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
        if let (Some(record), false, false) =
            (&mut self.record, self.is_undo, self.commands.is_empty())
        {
            let server = self.client.server(&host.program, record.beside);
            let file = host.file(self.client);
            let Some(value) = registration::entry(&file, self.client, &server.path)? else {
                let command = format!("{} mcp add", self.client.name);
                let said = format!("{} has no entry afterwards", file.display());
                return Err(SetupError::Verb { command, said });
            };
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
