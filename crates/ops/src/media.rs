//! Files that are meant to be looked at or heard: what they are, by their names.
//!
//! They are handed over undecoded, so their content decides nothing here.

use std::path::Path;

use serde::Deserialize;

/// What is to be done with a file that is no text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Media {
    /// It is refused.
    #[default]
    Refused,
    /// It is binary content like any other.
    Plain,
    /// Pictures, sound and PDF come in base64, by their names; anything else is refused.
    Known,
    /// Every file comes in base64, text too.
    Every,
}

/// The endings of names, and the MIME types they stand for.
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
