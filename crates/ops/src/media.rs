//! Media files: their MIME types by file name, since they are returned undecoded.

use std::path::Path;

use serde::Deserialize;

/// The handling of a file that is not text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Media {
    /// It is rejected.
    #[default]
    Refused,
    /// It is binary content like any other.
    Plain,
    /// Pictures, sound and PDF are returned in base64, by name; other files are rejected.
    Known,
    /// Every file is returned in base64, text too.
    Every,
}

/// File extensions and their MIME types.
const TYPES: &[(&str, &str)] = &[
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("bmp", "image/bmp"),
    ("svg", "image/svg+xml"),
    ("pdf", "application/pdf"),
    ("mp3", "audio/mpeg"),
    ("ogg", "audio/ogg"),
    ("wav", "audio/wav"),
    ("m4a", "audio/mp4"),
    ("flac", "audio/flac"),
    ("aac", "audio/aac"),
];

/// Returns the MIME type of a picture, a sound or a PDF.
pub(crate) fn by_name(path: &Path) -> Option<&'static str> {
    let ending = path.extension()?.to_str()?.to_ascii_lowercase();
    TYPES.iter().find(|(known, _)| *known == ending).map(|(_, mime)| *mime)
}
