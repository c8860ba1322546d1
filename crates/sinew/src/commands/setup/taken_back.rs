//! The text of a file without what a setup wrote.

use super::config_file::ConfigFile;
use super::edit::{self, Undone};
use super::error::SetupError;
use super::item::{Item, TextFormat};
use super::json_text;
use super::record::{WrittenFile, hash};

/// The values of a setup that stay.
pub(super) enum Leftover {
    Nothing,
    Items(Vec<Item>),
    /// A file of its own that changed.
    File,
}

/// Returns the text of a file without what a setup wrote; `None` where the file vanishes.
pub(super) fn taken_back(
    current: &ConfigFile,
    written: &WrittenFile,
) -> Result<(Option<String>, Leftover), SetupError> {
    let Some(text) = &current.text else { return Ok((None, Leftover::Nothing)) };
    let is_untouched = hash(text) == written.hash;
    if written.edit.items.is_empty() && !is_untouched {
        return Ok((Some(text.clone()), Leftover::File));
    }
    let undone = edit::undo(written.format, text, &written.edit, is_untouched);
    let Undone { text, kept, .. } =
        undone.map_err(|problem| SetupError::File { path: written.file.clone(), problem })?;
    let kept = if kept.is_empty() { Leftover::Nothing } else { Leftover::Items(kept) };
    Ok((remainder(text, current, written), kept))
}

/// Returns the text that stays. A file that a setup made vanishes, unless it has other content or is the target of a link.
fn remainder(text: String, current: &ConfigFile, written: &WrittenFile) -> Option<String> {
    if !written.is_new {
        return Some(text);
    }
    let body = text.trim_start_matches('\u{feff}');
    let is_blank = body.chars().all(|c| c.is_whitespace() || "{}".contains(c));
    if is_blank && !current.is_link && edit::parse(written.format, body).is_ok() {
        return None;
    }
    if written.format == TextFormat::Toml || json_text::has_value(body) {
        return Some(text);
    }
    // Some clients cannot parse a file of comments alone.
    let newline = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    Some(format!("{text}{newline}{{}}\n"))
}
