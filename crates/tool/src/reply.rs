//! The reply of a call.

use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;

use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::{Kind, Ruled, ToolError};

/// One block of content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Block {
    /// Text for the model.
    Text {
        /// The text.
        text: String,
    },
    /// A picture, in base64.
    Image {
        /// The bytes in base64.
        data: String,
        /// The media type, such as `image/png`.
        #[serde(rename = "mimeType")]
        mime_type: String,
    },
    /// A sound, in base64.
    Audio {
        /// The bytes in base64.
        data: String,
        /// The media type, such as `audio/mpeg`.
        #[serde(rename = "mimeType")]
        mime_type: String,
    },
    /// Any other file, in base64.
    Resource {
        /// The file.
        resource: Resource,
    },
    /// A block of an MCP server as it sent it.
    #[serde(untagged)]
    Mcp(Value),
}

/// A file inside a reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Resource {
    /// Its URI.
    pub uri: String,
    /// The media type, such as `application/pdf`.
    #[serde(rename = "mimeType")]
    pub mime_type: String,
    /// The bytes in base64.
    pub blob: String,
}

impl Block {
    /// Returns the text of a text block.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text { text } => Some(text),
            _ => None,
        }
    }

    /// Returns the block of a raw file by media type.
    pub fn of_file(path: &Path, mime_type: String, base64: String) -> Self {
        match mime_type.split('/').next() {
            Some("image") => Self::Image { data: base64, mime_type },
            Some("audio") => Self::Audio { data: base64, mime_type },
            _ => Self::Resource {
                resource: Resource { uri: file_uri(path), mime_type, blob: base64 },
            },
        }
    }

    /// Returns base64 and media type of a block that is not text.
    pub fn media(&self) -> Option<(&str, &str)> {
        match self {
            Self::Text { .. } | Self::Mcp(_) => None,
            Self::Image { data, mime_type } | Self::Audio { data, mime_type } => {
                Some((data, mime_type))
            }
            Self::Resource { resource } => Some((&resource.blob, &resource.mime_type)),
        }
    }
}

/// Returns the percent-encoded `file:` URI of a path.
pub fn file_uri(path: &Path) -> String {
    let mut uri = String::from("file://");
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'"' | b'#' | b'<' | b'>' | b'?' | b'`' | b'{' | b'}' | b'%' | b'\\' | b'^' => {
                uri.push_str(&format!("%{byte:02X}"));
            }
            b'!'..=b'~' => uri.push(char::from(*byte)),
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}

/// The error of a reply for programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ErrorBody {
    /// The kind, from the closed list.
    #[serde(serialize_with = "kind")]
    pub kind: Kind,
    /// The message.
    pub message: String,
    /// The next step, or `null`.
    pub hint: Option<String>,
}

fn kind<S: serde::Serializer>(kind: &Kind, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(kind.as_str())
}

/// The skip counts of a search or listing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// Entries in ignore files; a directory counts once.
    #[serde(skip_serializing_if = "is_zero")]
    pub ignored: u64,
    /// Entries with hidden or never searched names.
    #[serde(skip_serializing_if = "is_zero")]
    pub hidden: u64,
    /// Files that hold a NUL byte.
    #[serde(skip_serializing_if = "is_zero")]
    pub binary: u64,
    /// Entries that a path rule denies.
    #[serde(skip_serializing_if = "is_zero")]
    pub denied: u64,
    /// Files above the size limit of the search.
    #[serde(skip_serializing_if = "is_zero")]
    pub too_large: u64,
    /// Entries that the operating system refused, or that vanished.
    #[serde(skip_serializing_if = "is_zero")]
    pub unreadable: u64,
    /// Files not searched, since they are older than a full result.
    #[serde(skip_serializing_if = "is_zero")]
    pub older: u64,
    /// Files not read before the time limit.
    #[serde(skip_serializing_if = "is_zero")]
    pub out_of_time: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl Skipped {
    /// Returns whether nothing was skipped.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds the counts of another part of the search.
    pub fn add(&mut self, other: &Self) {
        self.ignored += other.ignored;
        self.hidden += other.hidden;
        self.binary += other.binary;
        self.denied += other.denied;
        self.too_large += other.too_large;
        self.unreadable += other.unreadable;
        self.older += other.older;
        self.out_of_time += other.out_of_time;
    }

    /// Returns the counts that are the same in every search. Once older files are skipped, how many files
    /// were read depends on the order in which they arrived.
    #[must_use]
    pub fn settled(self) -> Self {
        match self.older {
            0 => self,
            _ => Self { older: 0, binary: 0, too_large: 0, unreadable: 0, ..self },
        }
    }

    /// Returns the counts in words, such as `3 ignored, 1 binary`.
    pub fn words(&self) -> String {
        [
            (self.ignored, "ignored"),
            (self.hidden, "hidden"),
            (self.binary, "binary"),
            (self.denied, "denied"),
            (self.too_large, "too large"),
            (self.unreadable, "unreadable"),
            (self.older, "older and not searched"),
            (self.out_of_time, "out of time"),
        ]
        .into_iter()
        .filter(|(n, _)| 0 < *n)
        .map(|(n, word)| format!("{n} {word}"))
        .collect::<Vec<_>>()
        .join(", ")
    }
}

/// The metadata of a reply.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Meta {
    /// How long the call took, in milliseconds.
    pub duration_ms: f64,
    /// Whether content was left out.
    pub truncated: bool,
    /// The stored full output, by id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_id: Option<String>,
    /// The stored full output, by path relative to the first root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_path: Option<String>,
    /// The verdict, and the rule that decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ruling: Option<Ruled>,
    /// The id of the call's checkpoint, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint_id: Option<String>,
    /// The skip counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<Skipped>,
    /// Notes of sinew, where the dialect keeps them apart from the text; at most 16 KiB.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Where the first text block has the output of a command, which a terminal may have shown already.
    #[serde(skip)]
    pub output_range: Option<Range<usize>>,
    /// Values from the operation or dialect: `next_offset`, `total_lines` …
    #[serde(flatten)]
    pub more: More,
}

impl Meta {
    /// Adds a note of sinew apart from the text; beyond 16 KiB in all, a last note says that more follow.
    pub fn note(&mut self, text: String) {
        const MORE: &str = "[more notes were left out]";
        let n_bytes: usize = self.notes.iter().map(String::len).sum();
        if n_bytes + text.len() <= MAX_NOTES {
            self.notes.push(text);
        } else if self.notes.last().is_none_or(|last| last != MORE) {
            self.notes.push(String::from(MORE));
        }
    }
}

/// Named values in insertion order; most replies have one or two.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct More(Vec<(Cow<'static, str>, Value)>);

impl More {
    /// Adds or replaces a value.
    pub fn insert(&mut self, name: impl Into<Cow<'static, str>>, value: impl Into<Value>) {
        let (name, value) = (name.into(), value.into());
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name, value)),
        }
    }

    /// Returns the value with a name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }
}

impl Serialize for More {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// The reply to a surface.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// Whether the call succeeded.
    pub ok: bool,
    /// The content for the model.
    pub content: Vec<Block>,
    /// The dialect's own result object.
    pub structured: Option<Value>,
    /// The error, if it failed.
    pub error: Option<ErrorBody>,
    /// The outcome in the ledger, if a dialect shows an error as a result.
    pub outcome: Option<Kind>,
    /// The metadata.
    pub meta: Meta,
    /// Whether the content is already truncated to the limits of its row.
    pub bounded: bool,
    /// How many of the last blocks of the content are notes of sinew.
    pub n_notes: usize,
}

/// The most bytes of notes apart from the text.
const MAX_NOTES: usize = 16 * 1024;

impl Reply {
    /// Returns a reply of one text.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            ok: true,
            content: vec![Block::Text { text: text.into() }],
            structured: None,
            error: None,
            outcome: None,
            meta: Meta::default(),
            bounded: false,
            n_notes: 0,
        }
    }

    /// Returns a reply of one JSON value, as text and as the structured result.
    pub fn json(value: Value) -> Self {
        let mut reply = Self::text(value.to_string());
        reply.structured = Some(value);
        reply
    }

    /// Returns the reply of an error: message, blank line, hint.
    pub fn failure(error: &ToolError) -> Self {
        let text = match &error.hint {
            Some(hint) => format!("{}\n\n{hint}", error.message),
            None => error.message.to_string(),
        };
        let mut reply = Self::text(text);
        reply.ok = false;
        reply.error = Some(ErrorBody::from(error));
        reply.bounded = true;
        reply
    }

    /// Returns the reply, or the error of a failed call with its kind, message and hint.
    ///
    /// Only [`Reply::ok`] decides: some dialects show an error as a result, which is a success with an
    /// [`outcome`](Reply::outcome). The error has no content. A program that hands the output of a failed command to a
    /// model takes [`Reply::content`] instead.
    ///
    /// ```
    /// use sinew_tool::{Kind, Reply, ToolError};
    ///
    /// fn first_line(reply: Reply) -> Result<String, ToolError> {
    ///     let text = reply.into_text()?;
    ///     Ok(text.lines().next().unwrap_or_default().to_owned())
    /// }
    ///
    /// assert_eq!(first_line(Reply::text("one\ntwo")).ok().as_deref(), Some("one"));
    /// let failed = Reply::failure(&ToolError::new(Kind::FileNotFound, "no file: `a.txt`"));
    /// assert_eq!(first_line(failed).map_err(|error| error.kind), Err(Kind::FileNotFound));
    /// ```
    pub fn into_result(self) -> Result<Self, ToolError> {
        match self {
            Self { ok: true, .. } => Ok(self),
            Self { error: Some(error), .. } => Err(error.into_error()),
            // A tool may fail without an error body.
            Self { outcome, .. } => {
                let kind = outcome.unwrap_or(Kind::ExecutionFailed);
                Err(ToolError::new(kind, self.joined_text()))
            }
        }
    }

    /// Returns the text of the content, its blocks separated by line breaks, or the error of a failed call.
    ///
    /// Pictures and other files are left out; [`Reply::into_result`] keeps them, and the structured result.
    pub fn into_text(self) -> Result<String, ToolError> {
        self.into_result().map(|reply| reply.joined_text())
    }

    fn joined_text(&self) -> String {
        let texts: Vec<&str> = self.content.iter().filter_map(Block::as_text).collect();
        texts.join("\n")
    }

    /// Adds a note of sinew behind the content.
    pub fn note(&mut self, text: impl Into<String>) {
        self.content.push(Block::Text { text: text.into() });
        self.n_notes += 1;
    }

    /// Adds a text behind the content, before the notes of sinew.
    pub fn add_text(&mut self, text: impl Into<String>) {
        let at = self.content.len().saturating_sub(self.n_notes);
        self.content.insert(at, Block::Text { text: text.into() });
    }

    /// Moves the notes from the content to `meta.notes`; counts those beyond 16 KiB.
    pub fn part_notes(&mut self) {
        let n_own = self.content.len().saturating_sub(self.n_notes);
        self.n_notes = 0;
        for block in self.content.split_off(n_own) {
            match block {
                Block::Text { text } => self.meta.note(text),
                other => self.content.push(other),
            }
        }
    }

    /// Returns the bytes of text in the content.
    pub fn text_bytes(&self) -> usize {
        self.content
            .iter()
            .map(|block| match block {
                Block::Text { text } => text.len(),
                Block::Mcp(block) => block.to_string().len(),
                other => other.media().map_or(0, |(data, _)| data.len()),
            })
            .sum()
    }
}

impl From<&ToolError> for ErrorBody {
    fn from(error: &ToolError) -> Self {
        Self {
            kind: error.kind,
            message: error.message.to_string(),
            hint: error.hint.as_ref().map(ToString::to_string),
        }
    }
}

impl ErrorBody {
    /// Returns the error that it describes, without a source.
    pub fn into_error(self) -> ToolError {
        let Self { kind, message, hint } = self;
        ToolError { kind, message: message.into(), hint: hint.map(Cow::from), source: None }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(path: &str, mime_type: &str, expected: Value) {
        let block = Block::of_file(Path::new(path), mime_type.to_owned(), String::from("eA=="));
        assert_eq!(json!(block), expected);
        assert_eq!(block.media(), Some(("eA==", mime_type)));
    }

    #[test]
    fn notes_leave_the_content_and_have_a_limit() {
        let mut reply = Reply::json(json!({ "a": 1 }));
        reply.note("[one]");
        reply.add_text("added");
        let words = |block: &Block| matches!(block, Block::Text { text } if text == "added");
        assert_eq!(reply.content.iter().position(words), Some(1), "before the notes");
        reply.content.remove(1);
        reply.note("x".repeat(MAX_NOTES));
        reply.note("y".repeat(MAX_NOTES));
        assert_eq!((reply.content.len(), reply.n_notes), (4, 3));
        reply.part_notes();
        assert_eq!(reply.content, [Block::Text { text: String::from(r#"{"a":1}"#) }]);
        assert_eq!(reply.meta.notes, ["[one]", "[more notes were left out]"]);
        reply.part_notes();
        assert_eq!((reply.content.len(), reply.meta.notes.len()), (1, 2));
    }

    #[test]
    fn failed_reply_keeps_kind_message_and_hint() {
        let error = ToolError::new(Kind::Stale, "`a` changed").hint("read it again");
        let returned = Reply::failure(&error).into_result().expect_err("an error");
        assert_eq!(ErrorBody::from(&returned), ErrorBody::from(&error));
        // Neither an error body nor an outcome.
        let reply = Reply { ok: false, ..Reply::text("exit code 1") };
        let returned = reply.into_text().expect_err("an error");
        assert_eq!((returned.kind, &*returned.message), (Kind::ExecutionFailed, "exit code 1"));
    }

    #[test]
    fn successful_reply_keeps_all_blocks() {
        let mut reply = Reply::json(json!({ "a": 1 }));
        reply.note("[a note]");
        reply.content.push(Block::Mcp(json!({ "type": "link" })));
        assert_eq!(reply.clone().into_result().expect("a reply"), reply);
        assert_eq!(reply.into_text().expect("a text"), "{\"a\":1}\n[a note]");
    }

    #[test]
    fn a_file_becomes_the_block_of_its_type() {
        check(
            "/r/a.png",
            "image/png",
            json!({ "type": "image", "data": "eA==", "mimeType": "image/png" }),
        );
        check(
            "/r/a.mp3",
            "audio/mpeg",
            json!({ "type": "audio", "data": "eA==", "mimeType": "audio/mpeg" }),
        );
        check(
            "/r/50% é #1.bin",
            "application/octet-stream",
            json!({ "type": "resource", "resource": {
                "uri": "file:///r/50%25%20%C3%A9%20%231.bin",
                "mimeType": "application/octet-stream",
                "blob": "eA==",
            } }),
        );
    }
}
