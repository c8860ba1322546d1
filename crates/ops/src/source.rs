//! Reads the content of a file to show or change: its kind by the first bytes, and the whole of it.

use std::io::Read;

use memchr::memchr;
use sha2::{Digest, Sha256};
use sinew_tool::{ContentHash, Context, FileError, FileMeta, FileTarget, Kind, Seen, ToolError};

use crate::encoding::{self, Encoding, MAX_DECODED};
use crate::replace::{self, ContentChange};

/// How far into a file a NUL makes it binary.
pub(crate) const SNIFFED: usize = 8 * 1024;

/// The byte order mark of UTF-8, which is hidden from models and kept in files.
pub(crate) const BOM: &[u8] = b"\xEF\xBB\xBF";

/// The kind of content by the first bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContentKind {
    /// Text in UTF-8, or in an encoding that shares its ASCII.
    Text,
    /// Text in another encoding, by its byte order mark.
    Encoded(Encoding),
    /// Neither: binary content.
    Binary,
}

/// Detects the kind of content by the first bytes, not by the extension.
pub(crate) fn sniff(head: &[u8]) -> ContentKind {
    if let Some(encoding) = Encoding::by_mark(head) {
        return ContentKind::Encoded(encoding);
    }
    match memchr(0, head.get(..SNIFFED).unwrap_or(head)) {
        Some(_) => ContentKind::Binary,
        None => ContentKind::Text,
    }
}

/// The largest file that can be edited.
const MAX_EDITED: u64 = 512 << 20;

/// The bytes read between two checks for cancellation.
const STEP: u64 = 8 << 20;

/// A whole file as it was read for a change.
#[derive(Debug)]
pub(crate) struct Loaded {
    whole: Whole,
    form: TextForm,
}

/// A whole file of any content.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) meta: FileMeta,
    pub(crate) bytes: Vec<u8>,
    /// BLAKE3 of the content, where it was computed.
    pub(crate) hash: Option<ContentHash>,
}

impl Whole {
    /// Returns what the file must still be when it is changed.
    pub(crate) fn seen(&self) -> Seen<'_> {
        Seen::new(self.meta.identity, &self.bytes).hashed(self.hash)
    }
}

/// The text form of a file's bytes.
#[derive(Debug)]
pub(crate) enum TextForm {
    /// UTF-8, perhaps with stray invalid bytes: the bytes are the text.
    Plain,
    /// The text in another encoding.
    Encoded(Encoding, String),
    /// Unknown encoding: only its ASCII is certainly text.
    Unknown,
}

impl Loaded {
    /// Returns the text in UTF-8.
    pub(crate) fn text(&self) -> &[u8] {
        self.form.text(&self.whole.bytes)
    }

    pub(crate) fn seen(&self) -> Seen<'_> {
        self.whole.seen()
    }

    /// Returns the name of the encoding where it is not UTF-8.
    pub(crate) fn encoding(&self) -> Option<&'static str> {
        match &self.form {
            TextForm::Plain | TextForm::Unknown => None,
            TextForm::Encoded(encoding, _) => Some(encoding.name()),
        }
    }

    /// Returns the new content as [`TextForm::encoded`] does.
    pub(crate) fn encoded(
        &self,
        cx: &Context,
        target: &FileTarget,
        base: &[u8],
        changes: &[ContentChange<'_>],
    ) -> Result<Option<Vec<u8>>, ToolError> {
        self.form.encoded(cx, target, "new_string", base, changes)
    }
}

impl TextForm {
    /// Detects the text form of a file before a change; rejects binary content. UTF-8 is not copied.
    pub(crate) fn of(cx: &Context, target: &FileTarget, bytes: &[u8]) -> Result<Self, ToolError> {
        let refused = |why: String| ToolError::new(Kind::Binary, why);
        match sniff(bytes) {
            ContentKind::Text if std::str::from_utf8(bytes).is_ok() => Ok(Self::Plain),
            ContentKind::Text if encoding::is_broken_utf8(bytes) => Ok(Self::Plain),
            ContentKind::Text => Ok(match encoding::legacy(bytes) {
                Some((encoding, text)) => Self::Encoded(encoding, text),
                None => Self::Unknown,
            }),
            ContentKind::Encoded(encoding) if MAX_DECODED < bytes.len() => Err(ToolError::new(
                Kind::TooLarge,
                format!(
                    "the file has {} bytes, and at most {MAX_DECODED} of {} can be edited: {}",
                    bytes.len(),
                    encoding.name(),
                    cx.shown(&target.path)
                ),
            )),
            ContentKind::Encoded(encoding) => match encoding.decode(bytes) {
                Some(text) => Ok(Self::Encoded(encoding, text)),
                None => Err(refused(format!(
                    "the mark says {}, but the bytes are not text in it and cannot be edited: {}",
                    encoding.name(),
                    cx.shown(&target.path)
                ))),
            },
            ContentKind::Binary => match encoding::unmarked(bytes) {
                Some((encoding, text)) => Ok(Self::Encoded(encoding, text)),
                None => Err(refused(format!(
                    "binary content cannot be edited: {}",
                    cx.shown(&target.path)
                ))
                .hint("write the whole file, or edit it with a program that knows the format")),
            },
        }
    }

    /// Returns the text in UTF-8 of a file with these bytes.
    pub(crate) fn text<'t>(&'t self, bytes: &'t [u8]) -> &'t [u8] {
        match self {
            Self::Plain | Self::Unknown => bytes,
            Self::Encoded(_, text) => text.as_bytes(),
        }
    }

    /// Returns the new content where it must be encoded, or `None` where the changed pieces already are it.
    /// Rejects characters that the encoding lacks; `from` names their source.
    pub(crate) fn encoded(
        &self,
        cx: &Context,
        target: &FileTarget,
        from: &str,
        base: &[u8],
        changes: &[ContentChange<'_>],
    ) -> Result<Option<Vec<u8>>, ToolError> {
        let shown = || cx.shown(&target.path);
        let encoding = match self {
            Self::Plain => return Ok(None),
            Self::Unknown if changes.iter().all(|change| is_certain(base, change)) => {
                return Ok(None);
            }
            Self::Unknown => {
                return Err(ToolError::new(
                    Kind::Binary,
                    format!(
                        "no encoding gives back the bytes of the file, so only whole ASCII text in \
                         it can be replaced by ASCII: {}",
                        shown()
                    ),
                ));
            }
            Self::Encoded(encoding, _) => *encoding,
        };
        let text = replace::pieces(base, changes).concat();
        let text = String::from_utf8_lossy(&text);
        encoding.encode(&text).map(Some).map_err(|c| {
            ToolError::new(
                Kind::InvalidArgs,
                format!(
                    "{from} has a character that {} does not have, the encoding of {}: U+{:04X} `{c}`",
                    encoding.name(),
                    shown(),
                    u32::from(c)
                ),
            )
            .hint("write it with the characters of that encoding, or have the file converted first")
        })
    }
}

/// Returns whether a change in an unknown encoding is ASCII; after a non-ASCII byte it may end a character.
fn is_certain(base: &[u8], change: &ContentChange<'_>) -> bool {
    let before = change.range.start.checked_sub(1).and_then(|at| base.get(at));
    let old = base.get(change.range.clone()).unwrap_or_default();
    let may_end = |byte: &u8| 0x30 <= *byte;
    let is_cut = before.is_some_and(|byte| !byte.is_ascii()) && old.first().is_none_or(may_end);
    !is_cut && old.is_ascii() && change.new.is_ascii()
}

/// Reads a whole text file for a change, even with stray invalid UTF-8. Rejects binary content, and content
/// that the caller knows otherwise.
pub(crate) fn load(
    cx: &Context,
    target: &FileTarget,
    expected_sha256: Option<&str>,
) -> Result<Loaded, ToolError> {
    let whole = whole_if_known(cx, target)?;
    check_sha256(cx, target, expected_sha256, &whole.bytes)?;
    let form = TextForm::of(cx, target, &whole.bytes)?;
    Ok(Loaded { whole, form })
}

/// Rejects an argument that is no SHA-256 in hex.
pub(crate) fn check_digits(expected_sha256: Option<&str>) -> Result<(), ToolError> {
    let is_hash = |hex: &str| hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    match expected_sha256.filter(|hex| !is_hash(hex)) {
        Some(_) => Err(ToolError::argument("expected_sha256", "must be 64 hexadecimal digits")
            .hint("leave it out, or send the SHA-256 of the whole file")),
        None => Ok(()),
    }
}

/// Rejects a content that is not the expected one.
pub(crate) fn check_sha256(
    cx: &Context,
    target: &FileTarget,
    expected: Option<&str>,
    bytes: &[u8],
) -> Result<(), ToolError> {
    let Some(expected) = expected else { return Ok(()) };
    let found: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    if found.eq_ignore_ascii_case(expected) {
        return Ok(());
    }
    let begin = |hex: &str| hex.get(..12).unwrap_or_default().to_ascii_lowercase();
    Err(ToolError::new(
        Kind::Stale,
        format!(
            "the content of {} has the SHA-256 {}…, and expected_sha256 is {}…",
            cx.shown(&target.path),
            begin(&found),
            begin(expected)
        ),
    )
    .hint("read it again, and make the change on what is there now"))
}

/// Reads any whole file for a change; rejects content that the caller knows otherwise.
pub(crate) fn whole_if_known(cx: &Context, target: &FileTarget) -> Result<Whole, ToolError> {
    let whole = whole(cx, target)?;
    let known = cx.world.knowledge.check(target.slot, &whole.meta.identity, &whole.bytes);
    let hash = known.map_err(|error| cx.about(target, error))?;
    Ok(Whole { hash, ..whole })
}

pub(crate) fn whole(cx: &Context, target: &FileTarget) -> Result<Whole, ToolError> {
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
            return Ok(Whole { meta: opened.meta, bytes, hash: None });
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

/// Returns the words for a picture or a PDF by its first bytes, whatever its name.
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
