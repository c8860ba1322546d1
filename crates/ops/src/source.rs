//! The content of a file that is to be shown or changed: what its first bytes announce, and the
//! whole of it.

use std::io::Read;

use memchr::memchr;
use sinew_tool::{Context, FileError, FileTarget, Identity, Kind, ToolError};

/// How far into a file a NUL makes it binary.
pub(crate) const SNIFFED: usize = 8 * 1024;

/// The byte order mark of UTF-8, which is hidden from models and kept in files.
pub(crate) const BOM: &[u8] = b"\xEF\xBB\xBF";

/// What the first bytes of a file announce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// Text in UTF-8, or in an encoding that shares its ASCII.
    Text,
    /// Text in an encoding that is not supported, by its byte order mark.
    Encoded(&'static str),
    /// Something else.
    Binary,
}

/// Looks at the first bytes of a file. Extensions say nothing.
pub(crate) fn sniff(head: &[u8]) -> Content {
    let marks: [(&[u8], &'static str); 4] = [
        (b"\xFF\xFE\0\0", "UTF-32LE"),
        (b"\0\0\xFE\xFF", "UTF-32BE"),
        (b"\xFF\xFE", "UTF-16LE"),
        (b"\xFE\xFF", "UTF-16BE"),
    ];
    if let Some((_, encoding)) = marks.iter().find(|(mark, _)| head.starts_with(mark)) {
        return Content::Encoded(encoding);
    }
    match memchr(0, head.get(..SNIFFED).unwrap_or(head)) {
        Some(_) => Content::Binary,
        None => Content::Text,
    }
}

/// The largest file that can be edited.
const MAX_EDITED: u64 = 512 << 20;

/// How much is read between two looks at whether anybody still waits.
const STEP: u64 = 8 << 20;

/// A whole file as it was read for a change.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// Which state of which file it was.
    pub(crate) identity: Identity,
    /// Its content.
    pub(crate) bytes: Vec<u8>,
}

/// Reads a whole file that is to be changed byte by byte. Content that is not text in a form of
/// ASCII is refused; single bytes that are not UTF-8 are not.
pub(crate) fn load(cx: &Context, target: &FileTarget) -> Result<Loaded, ToolError> {
    let opened = cx.world.files.open(target.slot).map_err(|error| cx.about(target, error))?;
    let size = opened.meta.size();
    if MAX_EDITED < size {
        return Err(too_large(cx, target, size));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0) + 1);
    loop {
        cx.still_wanted()?;
        let n = (&opened.file)
            .take(STEP)
            .read_to_end(&mut bytes)
            .map_err(|error| cx.about(target, FileError::Io(error)))?;
        if MAX_EDITED < bytes.len() as u64 {
            return Err(too_large(cx, target, bytes.len() as u64));
        }
        if (n as u64) < STEP {
            break;
        }
    }
    let shown = cx.shown(&target.path);
    match sniff(&bytes) {
        Content::Text => Ok(Loaded { identity: opened.meta.identity, bytes }),
        Content::Encoded(encoding) => Err(ToolError::new(
            Kind::Binary,
            format!("the encoding {encoding} cannot be edited yet: {shown}"),
        )),
        Content::Binary => {
            Err(ToolError::new(Kind::Binary, format!("binary content cannot be edited: {shown}"))
                .hint("Write replaces the whole file; a program that knows the format can edit it"))
        }
    }
}

fn too_large(cx: &Context, target: &FileTarget, size: u64) -> ToolError {
    ToolError::new(
        Kind::TooLarge,
        format!(
            "the file has {size} bytes, and at most {MAX_EDITED} can be edited: {}",
            cx.shown(&target.path)
        ),
    )
}
/// Returns what a file is that is meant to be looked at, not read: by its first bytes, whatever its
/// name.
pub(crate) fn media(head: &[u8]) -> Option<&'static str> {
    let is_webp = head.starts_with(b"RIFF") && head.get(8..12) == Some(b"WEBP");
    Some(match head {
        _ if head.starts_with(b"\x89PNG\r\n\x1a\n") => "a PNG picture",
        _ if head.starts_with(b"\xff\xd8\xff") => "a JPEG picture",
        _ if head.starts_with(b"GIF87a") || head.starts_with(b"GIF89a") => "a GIF picture",
        _ if is_webp => "a WebP picture",
        _ if head.starts_with(b"%PDF-") => "a PDF document",
        _ => return None,
    })
}
