//! Writes the tracing spans of calls as JSON lines to `trace.file`.
//!
//! It records no other spans, so those of libraries cost nothing. It writes each line whole when its span
//! closes, and adds surface, client and user, which the runtime does not know.

use sinew_tool::sync::lock;
use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use anyhow::Context as _;
use serde_json::{Map, Value};
use sinew_guard::Redactor;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};

use crate::output;

/// The tracing target of call spans.
const TARGET: &str = "sinew::call";

/// The length limit of a client's name, in bytes.
const MAX_CLIENT: usize = 256;

/// The file and the open spans.
pub(crate) struct Trace {
    path: PathBuf,
    file: File,
    surface: &'static str,
    user: String,
    redactor: Redactor,
    client: Mutex<Option<String>>,
    open: Mutex<HashMap<u64, Held>>,
    last_id: AtomicU64,
    /// Whether a write failed, so that the error is printed once.
    failed: AtomicBool,
}

/// A span with a reference count.
struct Held {
    n_holders: usize,
    fields: Fields,
}

/// The fields of a span, in recorded order.
#[derive(Default)]
struct Fields(Map<String, Value>);

impl Trace {
    /// Opens the file and subscribes to this process's spans.
    pub(crate) fn begin(
        path: &Path,
        roots: &[PathBuf],
        surface: &'static str,
        redactor: Redactor,
    ) -> anyhow::Result<Arc<Self>> {
        let path = output::place("trace.file", path, roots)?;
        let file = output::append(&path).with_context(|| {
            format!("`trace.file` cannot be opened; name another file: `{}`", path.display())
        })?;
        let trace = Arc::new(Self {
            path,
            file,
            surface,
            user: sinew_guard::os_user(),
            redactor,
            client: Mutex::default(),
            open: Mutex::default(),
            last_id: AtomicU64::new(0),
            failed: AtomicBool::new(false),
        });
        tracing::subscriber::set_global_default(Arc::clone(&trace))
            .context("something else takes the spans of this process already")?;
        Ok(trace)
    }

    /// Sets the client's name.
    pub(crate) fn set_client(&self, client: &str) {
        let clean = self.redactor.redact(client);
        let cut = clean.floor_char_boundary(MAX_CLIENT);
        *lock(&self.client) = clean.get(..cut).map(str::to_owned);
    }

    fn write(&self, fields: Fields) {
        let mut line = Map::new();
        line.insert(String::from("span"), Value::from("call"));
        line.insert(String::from("surface"), Value::from(self.surface));
        let client = lock(&self.client).clone();
        line.extend(client.map(|client| (String::from("client"), Value::from(client))));
        line.insert(String::from("os_user"), Value::from(self.user.as_str()));
        line.extend(fields.0);
        let mut text = Value::Object(line).to_string();
        text.push('\n');
        // One append, so that lines of several processes do not interleave.
        if let Err(error) = (&self.file).write_all(text.as_bytes())
            && !self.failed.swap(true, Ordering::Relaxed)
        {
            let path = self.path.display();
            crate::screen::say(&format!("spans cannot be written to {path}: {error}"));
        }
    }
}

impl Subscriber for Trace {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.enabled(metadata) { Interest::always() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && metadata.target() == TARGET
    }

    fn max_level_hint(&self) -> Option<tracing::level_filters::LevelFilter> {
        Some(tracing::level_filters::LevelFilter::INFO)
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        // A span ID is never zero.
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        lock(&self.open).insert(id, Held { n_holders: 1, fields });
        Id::from_u64(id)
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        if let Some(held) = lock(&self.open).get_mut(&id.into_u64()) {
            values.record(&mut held.fields);
        }
    }

    fn record_follows_from(&self, _id: &Id, _follows: &Id) {}

    fn event(&self, _event: &Event<'_>) {}

    fn enter(&self, _id: &Id) {}

    fn exit(&self, _id: &Id) {}

    fn clone_span(&self, id: &Id) -> Id {
        if let Some(held) = lock(&self.open).get_mut(&id.into_u64()) {
            held.n_holders += 1;
        }
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        let mut open = lock(&self.open);
        let Some(held) = open.get_mut(&id.into_u64()) else { return false };
        held.n_holders = held.n_holders.saturating_sub(1);
        if held.n_holders != 0 {
            return false;
        }
        let closed = open.remove(&id.into_u64());
        drop(open);
        if let Some(closed) = closed {
            self.write(closed.fields);
        }
        true
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), Value::from(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name().to_owned(), Value::from(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        // Round to microseconds.
        self.0.insert(field.name().to_owned(), Value::from((value * 1e3).round() / 1e3));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().to_owned(), Value::from(format!("{value:?}")));
    }
}
