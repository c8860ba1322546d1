//! Reads a memory file (`MEMORY.md`) within its size limit, for the memory tools.
//!
//! A memory file is UTF-8. Other content is rejected, to write too: no model could read it, and an append would mix
//! two encodings.

use std::io::Read;

use serde::{Deserialize, Deserializer, de};
use sinew_tool::{
    Context, FileError, Kind, MemoryScope, Param, ParamKind, Preset, ReadObservation, ToolError,
};

use crate::source::Whole;

/// The scope of the native rows.
pub(crate) const SCOPE: Param = Param::optional(
    "scope",
    "scope",
    ParamKind::Enum(&[MemoryScope::Project.as_str(), MemoryScope::User.as_str()]),
    "`user`: for all projects",
)
.or(Preset::Str(MemoryScope::Project.as_str()));

/// A memory file as it was read.
#[derive(Debug)]
pub(crate) enum Memory {
    /// There is none.
    Missing,
    /// All of it, in UTF-8.
    Whole(Whole),
    /// More bytes than the limit. The beginning is UTF-8.
    TooLarge {
        /// The size of the file.
        n_bytes: u64,
        /// Its beginning, one byte longer than the limit.
        head: Vec<u8>,
    },
}

impl Memory {
    /// Reads the memory file of a call, its only target.
    pub(crate) fn load(cx: &Context, scope: MemoryScope) -> Result<Self, ToolError> {
        let target = cx.target(0)?;
        let opened = match cx.world.files.open(target.slot) {
            Ok(opened) => opened,
            Err(FileError::Missing) => return Ok(Self::Missing),
            Err(error) => return Err(cx.about(target, error)),
        };
        let limit = cx.settings.max_memory_bytes.saturating_add(1);
        let mut bytes = Vec::new();
        let read = (&opened.file).take(limit).read_to_end(&mut bytes);
        read.map_err(|error| cx.about(target, FileError::Io(error)))?;
        let is_whole = bytes.len() as u64 <= cx.settings.max_memory_bytes;
        match std::str::from_utf8(&bytes) {
            // The last character may be cut.
            Err(error) if is_whole || error.error_len().is_some() => Err(not_text(scope)),
            _ if is_whole => Ok(Self::Whole(Whole { meta: opened.meta, bytes, hash: None })),
            _ => {
                let n_bytes = opened.meta.size().max(bytes.len() as u64);
                Ok(Self::TooLarge { n_bytes, head: bytes })
            }
        }
    }
}

/// Records that the caller knows this content of the memory.
pub(crate) fn note(cx: &Context, whole: &Whole) -> Result<(), ToolError> {
    let content = Some((*blake3::hash(&whole.bytes).as_bytes()).into());
    let observation = ReadObservation { state: whole.meta.identity, content, part: (1, u64::MAX) };
    let _ = cx.world.knowledge.saw(cx.target(0)?.slot, &observation);
    Ok(())
}

/// Returns the error of a memory that has or would have more bytes than the limit.
pub(crate) fn too_large(n_bytes: u64, max_bytes: u64, scope: MemoryScope) -> ToolError {
    let problem = format!("a memory holds {max_bytes} bytes, and not {n_bytes}: {}", scope.shown());
    let at_path = match scope {
        MemoryScope::Project => "read it in parts like any file, then ",
        MemoryScope::User => "",
    };
    ToolError::new(Kind::TooLarge, problem).hint(format!(
        "{at_path}replace it by a shorter one with mode `overwrite`; the user can raise `tools.memory.max_bytes`"
    ))
}

fn not_text(scope: MemoryScope) -> ToolError {
    ToolError::new(Kind::Binary, format!("the memory is not UTF-8: {}", scope.shown()))
        .hint("ask the user to convert the file to UTF-8 or to move it away")
}

/// Decodes the word of a scope.
pub(crate) fn scope<'de, D: Deserializer<'de>>(from: D) -> Result<MemoryScope, D::Error> {
    let word = String::deserialize(from)?;
    MemoryScope::from_word(&word).ok_or_else(|| de::Error::custom("is no scope"))
}
