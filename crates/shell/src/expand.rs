//! Pathname expansion: the file names that a pattern matches, found before anything runs.

use std::path::{Path, PathBuf};

use globset::GlobBuilder;
use sinew_tool::Unclear;

use super::word::Word;
use super::{Scene, files};

/// The most names that a pattern may match.
const MAX_NAMES: usize = 2_000;
/// The most directory entries that are read for all patterns of a text.
const MAX_ENTRIES: usize = 20_000;
/// The most wildcards of a pattern, and the most components of a path with one.
const MAX_SIGNS: usize = 16;
const MAX_PARTS: usize = 64;

/// Returns the texts of a word: its own, or the names that match. A pattern without a match stays as it is.
pub(super) fn words(word: Word, scene: &Scene<'_>, cwd: &Path) -> Result<Vec<String>, Unclear> {
    if !word.is_pattern() {
        return Ok(vec![word.text]);
    }
    if MAX_SIGNS < word.active.len() || MAX_PARTS < word.text.split('/').count() {
        return Err(too_many());
    }
    let mut found = names(&word, scene, cwd)?;
    if found.is_empty() {
        return Ok(vec![word.text]);
    }
    // A file name must neither look like an option nor hide characters.
    if let Some(odd) = found.iter().find(|name| name.starts_with('-') || has_controls(name)) {
        let why = format!("the pattern stands for a name that is more than a name: {odd:?}");
        return Err(Unclear::new("shell.pattern", why));
    }
    found.sort();
    Ok(found)
}

fn has_controls(name: &str) -> bool {
    super::word::check_characters(name).is_err() || name.contains(['\n', '\t'])
}

fn too_many() -> Unclear {
    Unclear::new("shell.size", "its patterns stand for too many names")
}

fn names(word: &Word, scene: &Scene<'_>, cwd: &Path) -> Result<Vec<String>, Unclear> {
    let (mut found, mut at) = (vec![String::new()], 0);
    for part in word.text.split('/') {
        let active: Vec<usize> = word
            .active
            .iter()
            .filter(|place| (at..at + part.len()).contains(place))
            .map(|place| place - at)
            .collect();
        let is_first = at == 0;
        at += part.len() + 1;
        let mut next = Vec::new();
        let matcher = matcher(part, &active)?;
        for before in &found {
            let joined = |name: &str| match (is_first, before.as_str()) {
                (true, _) => name.to_owned(),
                (false, before) => format!("{before}/{name}"),
            };
            if active.is_empty() {
                next.push(joined(part));
                continue;
            }
            let dir = match (is_first, before.as_str()) {
                (true, _) => PathBuf::from("."),
                (false, "") => PathBuf::from("/"),
                (false, before) => PathBuf::from(before),
            };
            let entries = entries(scene, cwd, &dir)?;
            let shows_dots = part.starts_with('.');
            let fits = |name: &&String| {
                (shows_dots || !name.starts_with('.')) && matcher.is_match(name.as_str())
            };
            next.extend(entries.iter().filter(fits).map(|name| joined(name)));
            if MAX_NAMES < next.len() {
                return Err(too_many());
            }
        }
        found = next;
    }
    // What follows a pattern must exist.
    found.retain(|name| matches!(scene.files.lstat(&cwd.join(name)), Ok(Some(_))));
    Ok(found)
}

/// Returns the names in a directory beneath the roots; empty if it is no directory.
fn entries(scene: &Scene<'_>, cwd: &Path, dir: &Path) -> Result<Vec<String>, Unclear> {
    let name = dir.to_str().ok_or_else(too_many)?;
    let real = files::check(scene, cwd, name)?;
    if !files::is_directory(scene.files, &real) {
        return Ok(Vec::new());
    }
    let Ok(entries) = scene.files.read_dir(&real) else { return Ok(Vec::new()) };
    let mut names = Vec::new();
    for (name, _) in entries.flatten() {
        let n_entries = scene.seen.n_entries.get() + 1;
        scene.seen.n_entries.set(n_entries);
        if MAX_ENTRIES < n_entries {
            return Err(too_many());
        }
        let name = name.into_string().map_err(|_| {
            Unclear::new("shell.pattern", "a directory holds names that are not UTF-8")
        })?;
        names.push(name);
    }
    Ok(names)
}

/// Returns a matcher for one component of a pattern.
fn matcher(part: &str, active: &[usize]) -> Result<globset::GlobMatcher, Unclear> {
    let mut glob = String::new();
    let mut in_class = false;
    for (at, c) in part.char_indices() {
        let is_active = active.contains(&at);
        match c {
            '[' if is_active && !in_class => {
                in_class = true;
                glob.push(c);
            }
            '[' | '\\' | '^' if in_class => {
                return Err(Unclear::new("shell.pattern", "its pattern has a class of characters"));
            }
            ']' if in_class => {
                in_class = false;
                glob.push(c);
            }
            '*' | '?' if is_active => glob.push(c),
            '*' | '?' | '[' | ']' | '{' | '}' | '\\' if !in_class => glob.extend(['[', c, ']']),
            c => glob.push(c),
        }
    }
    if in_class {
        return Err(Unclear::new("shell.pattern", "its pattern has an open bracket"));
    }
    let built = GlobBuilder::new(&glob).literal_separator(true).backslash_escape(false).build();
    let built = built.map_err(|_| Unclear::new("shell.pattern", "its pattern cannot be read"))?;
    Ok(built.compile_matcher())
}
