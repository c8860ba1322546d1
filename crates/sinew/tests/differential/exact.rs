//! A dialect that shows everything an outcome holds, in bytes.
//!
//! Paths and texts are bytes: each becomes the character of its number, so that nothing is lost on
//! the way through JSON.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use sinew::Reply;
use sinew::file::FileSettings;
use sinew::tool::{Bound, Conventions, Dialect, Param, ParamKind, Preset, Row, Shaping, Tool};
use sinew_ops::{glob, grep};

/// The dialect.
pub(super) const EXACT: Dialect = Dialect {
    name: "exact",
    tools,
    settings,
    approval_timeout_ms: 1_000,
    conventions: Conventions::DEFAULT,
};

fn tools() -> Vec<Arc<dyn Tool>> {
    let crossing =
        Row { name: "GlobCrossing", presets: &[("star_crosses", Preset::Bool(true))], ..GLOB };
    vec![GREP.tool(), GLOB.tool(), crossing.tool()]
}

fn settings() -> FileSettings {
    FileSettings {
        glob_limit: 1_000_000,
        grep_limit: MAX_ROWS,
        search_timeout_ms: 600_000,
        ..FileSettings::default()
    }
}

/// More than any pattern finds.
const MAX_ROWS: usize = 100_000_000;

/// How much text an answer may hold; one that reaches it is full.
const MAX_TEXT: usize = 4 << 20;

const COUNT: ParamKind = ParamKind::Integer { min: 0, cap: None };

const GREP: Row<grep::Grep> = Row {
    params: &[
        Param::required("pattern", "pattern", ParamKind::String, ""),
        Param::optional("path", "path", ParamKind::String, ""),
        Param::optional("glob", "glob", ParamKind::String, ""),
        Param::optional("type", "file_type", ParamKind::String, ""),
        Param::optional("mode", "mode", ParamKind::String, ""),
        Param::optional("ignore_case", "ignore_case", ParamKind::Boolean, ""),
        Param::optional("multiline", "multiline", ParamKind::Boolean, ""),
        Param::optional("before", "before", COUNT, ""),
        Param::optional("after", "after", COUNT, ""),
        Param::optional("context", "context", COUNT, ""),
    ],
    shape: shape_grep,
    bound: BOUNDLESS,
    ..grep::NATIVE
};

const GLOB: Row<glob::Glob> = Row { shape: shape_glob, bound: BOUNDLESS, ..glob::NATIVE };

/// Answers are compared whole.
const BOUNDLESS: Bound = Bound { max_lines: None, max_bytes: usize::MAX };

fn spelled(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

fn bytes(value: &Value) -> Vec<u8> {
    value.as_str().unwrap().chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect()
}

fn path(path: &Path) -> String {
    spelled(path.as_os_str().as_bytes())
}

fn shape_glob(_: &glob::GlobArgs, out: glob::GlobOut, _: &Shaping<'_>) -> Reply {
    let files: Vec<String> = out.files.iter().map(|file| path(&file.path)).collect();
    let sorted = out.files.is_sorted();
    structured(json!({
        "files": files,
        "total": out.total,
        "sorted": sorted,
        "truncated": out.truncated(),
    }))
}

fn shape_grep(_: &grep::GrepArgs, out: grep::GrepOut, _: &Shaping<'_>) -> Reply {
    let n_text: usize =
        out.files.iter().flat_map(|file| &file.hits).map(|hit| hit.text.len()).sum();
    let order = |file: &grep::FileHits| (std::cmp::Reverse(file.modified), file.path.clone());
    let files: Vec<Value> = out
        .files
        .iter()
        .map(|file| {
            let hits: Vec<Value> = file
                .hits
                .iter()
                .map(|hit| {
                    let is_match = hit.kind != grep::HitKind::Context;
                    json!([hit.number, is_match, spelled(hit.text.as_bytes()), hit.cut_chars])
                })
                .collect();
            json!({ "path": path(&file.path), "count": file.count, "hits": hits })
        })
        .collect();
    structured(json!({
        "files": files,
        "sorted": out.files.is_sorted_by_key(order),
        "full": MAX_TEXT <= n_text,
        "truncated": out.truncated || out.timed_out,
    }))
}

fn structured(value: Value) -> Reply {
    let mut reply = Reply::text("");
    reply.structured = Some(value);
    reply
}

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Names,
    Count,
    Content,
}

impl Mode {
    pub(super) const ALL: [Self; 3] = [Self::Names, Self::Count, Self::Content];

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Names => "files_with_matches",
            Self::Count => "count",
            Self::Content => "content",
        }
    }
}

/// The files of an answer, relative to the tree.
pub(super) type Answer = BTreeMap<Vec<u8>, FileAnswer>;

/// The part of an answer about one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FileAnswer {
    Named,
    Count(u64),
    Lines(Vec<Line>),
}

/// One line of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) number: u64,
    pub(super) is_match: bool,
    /// The line without its ending, decoded.
    pub(super) text: String,
    /// How many of its characters are missing.
    pub(super) cut: u64,
}

impl FileAnswer {
    pub(super) fn rows(&self) -> usize {
        match self {
            Self::Lines(lines) => lines.len(),
            Self::Named | Self::Count(_) => 1,
        }
    }

    /// Returns how the answer differs from one that is not cut.
    pub(super) fn differs(&self, whole: &Self) -> Option<String> {
        let (Self::Lines(ours), Self::Lines(theirs)) = (self, whole) else {
            return (self != whole).then(|| format!("{self:?} here, {whole:?} in ripgrep"));
        };
        if let Some((mine, other)) = ours.iter().zip(theirs).find(|(mine, other)| !mine.fits(other))
        {
            return Some(format!("here {}, in ripgrep {}", mine.told(), other.told()));
        }
        (ours.len() != theirs.len())
            .then(|| format!("{} lines here, {} in ripgrep", ours.len(), theirs.len()))
    }
}

impl Line {
    /// Returns whether the line is a whole one as far as it is shown.
    fn fits(&self, whole: &Self) -> bool {
        (self.number, self.is_match) == (whole.number, whole.is_match)
            && if self.cut == 0 { self.text == whole.text } else { self.is_part_of(&whole.text) }
    }

    /// A line that is cut shows one stretch of it, with `…` where it goes on.
    fn is_part_of(&self, whole: &str) -> bool {
        let part = self.text.strip_suffix('…').unwrap_or(&self.text);
        let n_missing = |part: &str| whole.chars().count() as u64 - part.chars().count() as u64;
        let at_start = whole.starts_with(part) && n_missing(part) == self.cut;
        let inside = part
            .strip_prefix('…')
            .is_some_and(|part| whole.contains(part) && n_missing(part) == self.cut);
        at_start || inside
    }

    fn told(&self) -> String {
        let text: String = self.text.chars().take(120).collect();
        let mark = if self.is_match { ':' } else { '-' };
        format!("{}{mark}{text:?} ({} cut)", self.number, self.cut)
    }
}

/// What Grep found, and whether it stopped because it found too much.
pub(super) struct Found {
    pub(super) answer: Answer,
    pub(super) full: bool,
}

/// Returns the paths of a reply of Glob.
pub(super) fn paths(reply: &Reply, root: &Path) -> Result<BTreeSet<Vec<u8>>, String> {
    let value = value(reply)?;
    let files = value["files"].as_array().unwrap();
    let paths: BTreeSet<Vec<u8>> = files.iter().map(|file| beneath(file, root)).collect();
    let whole = value["total"] == paths.len() && value["truncated"] == false;
    match whole && files.len() == paths.len() {
        true => Ok(paths),
        false => Err(format!("{} paths of {}", paths.len(), value["total"])),
    }
}

/// Returns the files of a reply of Grep.
pub(super) fn files(reply: &Reply, root: &Path, mode: Mode) -> Result<Found, String> {
    let value = value(reply)?;
    let full = value["full"] == true;
    if value["truncated"] == true && !full {
        return Err(String::from("the answer is cut"));
    }
    let mut answer = Answer::new();
    for file in value["files"].as_array().unwrap() {
        let said = match mode {
            Mode::Names => FileAnswer::Named,
            Mode::Count => FileAnswer::Count(file["count"].as_u64().unwrap()),
            Mode::Content => {
                FileAnswer::Lines(file["hits"].as_array().unwrap().iter().map(line).collect())
            }
        };
        if answer.insert(beneath(&file["path"], root), said).is_some() {
            return Err(format!("{} is answered twice", file["path"]));
        }
    }
    Ok(Found { answer, full })
}

fn line(hit: &Value) -> Line {
    Line {
        number: hit[0].as_u64().unwrap(),
        is_match: hit[1] == true,
        text: String::from_utf8(bytes(&hit[2])).unwrap(),
        cut: hit[3].as_u64().unwrap(),
    }
}

fn value(reply: &Reply) -> Result<&Value, String> {
    let value = reply.structured.as_ref().ok_or_else(|| crate::caller::text(reply).to_owned())?;
    match value["sorted"] == true {
        true => Ok(value),
        false => Err(String::from("the files are not in order")),
    }
}

fn beneath(path: &Value, root: &Path) -> Vec<u8> {
    let path = bytes(path);
    let root = [root.as_os_str().as_bytes(), b"/"].concat();
    path.strip_prefix(&root[..]).unwrap_or_else(|| panic!("outside: {path:?}")).to_vec()
}
