//! Stores the entries of an agent's session in the state directory, and reads them.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use anyhow::{Context as _, bail};
use sinew_agent::{Entry, RecordingHeader, Session, Transcript};
use sinew_guard::{NewSession, SessionClaim, Sessions, StoredSession};
use sinew_runtime::{Runtime, SessionGrant, SessionGrantStore};
use sinew_tool::sync::lock;

use crate::config;
use crate::output;
use crate::screen::say;
use crate::wiring::{self, Loaded};

/// Returns the sessions of the state directory.
pub(crate) fn sessions(loaded: &Loaded) -> anyhow::Result<Arc<Sessions>> {
    let state = wiring::state_dir(loaded)?;
    Ok(Arc::new(Sessions::new(&state, wiring::redactor(loaded))))
}

/// The transcript of one session.
pub(crate) struct StoredTranscript {
    sessions: Arc<Sessions>,
    id: String,
    n_entries: AtomicU64,
    /// Where a session begins that has no entry yet.
    place: Option<SessionPlace>,
    /// Keeps other processes away from the session.
    _claim: SessionClaim,
    /// The file of a recording.
    recording: Mutex<Option<File>>,
}

/// Where a session begins.
pub(crate) struct SessionPlace {
    /// The first root.
    pub(crate) root: String,
    /// The dialect.
    pub(crate) dialect: &'static str,
    /// The model, as the user names it.
    pub(crate) model: String,
}

impl StoredTranscript {
    /// Returns the transcript of a new session, which is stored with its first entry.
    pub(crate) fn create(
        sessions: Arc<Sessions>,
        id: &str,
        place: SessionPlace,
    ) -> anyhow::Result<Self> {
        if sessions.find(id)?.is_some() {
            bail!("there is a session `{id}` already; go on with `--resume {id}`");
        }
        let claim = sessions.claim(id)?;
        let (id, n_entries) = (id.to_owned(), AtomicU64::new(0));
        let (place, recording) = (Some(place), Mutex::default());
        Ok(Self { sessions, id, n_entries, place, _claim: claim, recording })
    }

    /// Returns the transcript that continues a stored session.
    pub(crate) fn resume(sessions: Arc<Sessions>, stored: &StoredSession) -> anyhow::Result<Self> {
        let claim = sessions.claim(&stored.id)?;
        // Another process may have had it since it was looked up.
        if sessions.find(&stored.id)?.is_none_or(|now| now.n_entries != stored.n_entries) {
            bail!("another process continued the session `{}` meanwhile; try again", stored.id);
        }
        let n_entries = AtomicU64::new(stored.n_entries);
        let (id, recording) = (stored.id.clone(), Mutex::default());
        Ok(Self { sessions, id, n_entries, place: None, _claim: claim, recording })
    }

    /// Records the session in a new file too: its entries so far, and later ones.
    pub(crate) fn record(self, path: &Path, header: &RecordingHeader) -> anyhow::Result<Self> {
        let fail = || format!("the recording {}", path.display());
        let mut file = output::create(path).with_context(fail)?;
        let mut text = format!("{}\n", serde_json::to_string(header)?);
        if self.place.is_none() {
            for (_, entry) in self.sessions.entries(&self.id)? {
                text.push_str(&format!("{entry}\n"));
            }
        }
        file.write_all(text.as_bytes()).with_context(fail)?;
        *lock(&self.recording) = Some(file);
        Ok(self)
    }
}

/// Stores what answers grant for the rest of a session, so that it is granted when the session is resumed.
struct StoredGrants {
    sessions: Arc<Sessions>,
    id: String,
}

impl SessionGrantStore for StoredGrants {
    fn keep(&self, session: &str, grants: &[SessionGrant]) {
        if session != self.id {
            return;
        }
        let text = |grant: &SessionGrant| match grant {
            SessionGrant::Rule(rule) => config::grant_text(rule),
            SessionGrant::Call(hash) => Some(serde_json::json!({ CALL: hash }).to_string()),
        };
        let texts: Vec<String> = grants.iter().filter_map(text).collect();
        // It counts until the process ends.
        if let Err(error) = self.sessions.keep_grants(&self.id, &texts) {
            say(&format!("the answer is forgotten when the session ends: {error}"));
        }
    }
}

/// The key of a call that was granted as it is.
const CALL: &str = "call";

/// Lets a session go on with its grants, and stores those from now on.
pub(crate) fn resume_grants(
    sessions: &Arc<Sessions>,
    id: &str,
    runtime: &Runtime,
) -> anyhow::Result<()> {
    let mut grants = Vec::new();
    for text in sessions.grants(id)? {
        let call: Option<HashMap<String, [u8; 32]>> = serde_json::from_str(&text).ok();
        match call.and_then(|mut call| call.remove(CALL)) {
            Some(hash) => grants.push(SessionGrant::Call(hash)),
            None => match config::granted_rule(&text) {
                Ok(rule) => grants.push(SessionGrant::Rule(Box::new(rule))),
                Err(error) => say(&error.to_string()),
            },
        }
    }
    let store = StoredGrants { sessions: Arc::clone(sessions), id: id.to_owned() };
    runtime.resume_grants(id, grants, Arc::new(store));
    Ok(())
}

impl Transcript for StoredTranscript {
    fn append(&self, entry: &Entry) -> Result<(), String> {
        let number = self.n_entries.load(Ordering::SeqCst);
        if let (0, Some(place), Entry::TurnBegins { prompt, .. }) = (number, &self.place, entry) {
            let SessionPlace { root, dialect, model } = place;
            let new = NewSession { id: &self.id, title: prompt, root, dialect, model };
            self.sessions.create(&new).map_err(|error| error.to_string())?;
        }
        let entry = serde_json::to_value(entry).map_err(|error| error.to_string())?;
        let stored = self.sessions.append(&self.id, number, &entry);
        let stored = stored.map_err(|error| error.to_string())?;
        self.n_entries.store(number + 1, Ordering::SeqCst);
        let mut recording = lock(&self.recording);
        if let Some(file) = &mut *recording {
            // The session itself is stored, so it continues.
            if let Err(error) = file.write_all(format!("{stored}\n").as_bytes()) {
                say(&format!("the recording ends here: {error}"));
                *recording = None;
            }
        }
        Ok(())
    }
}

/// Reads the entries of a session.
pub(crate) fn entries(sessions: &Sessions, id: &str) -> anyhow::Result<Vec<(u64, Entry)>> {
    let stored = sessions.entries(id)?;
    let read = stored.into_iter().enumerate().map(|(number, (at_ms, entry))| {
        let entry = serde_json::from_value(entry)
            .with_context(|| format!("the entry {number} of the session `{id}` cannot be read"))?;
        Ok((at_ms, entry))
    });
    read.collect()
}

/// Returns a stored session: by its name, or the latest one in a root.
pub(crate) fn find(sessions: &Sessions, word: &str, root: &str) -> anyhow::Result<StoredSession> {
    if word == LATEST {
        let latest = sessions.list(Some(root), 1)?.into_iter().next();
        return latest.with_context(|| format!("there is no session in {root} yet"));
    }
    let found = sessions.find(word)?;
    found.with_context(|| format!("there is no session `{word}`; `sinew sessions list` lists them"))
}

/// The word for the latest session.
const LATEST: &str = "latest";

/// Reads the conversation of a session.
pub(crate) fn session(sessions: &Sessions, id: &str) -> anyhow::Result<Session> {
    let entries = entries(sessions, id)?;
    Ok(Session::of_entries(entries.iter().map(|(_, entry)| entry)))
}
