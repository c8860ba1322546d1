//! Finds skills: directories with a `SKILL.md` of the project, of the user and of this machine.
//!
//! A skill is text that a model follows and that may run commands, so the project's ones count only while the user trusts
//! the project with exactly this content. Of two with a name the first found wins.
#![expect(
    clippy::disallowed_methods,
    reason = "this is one of the places that read files of the user"
)]

mod head;
mod template;

use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::files::{is_absent, read_up_to};
use super::trust::{Content, Known};

pub use head::{SkillHead, SkillVariable};
pub use template::{Piece, TemplateValues};

/// The name of the file.
pub const FILE: &str = "SKILL.md";
/// The directories of a project, which trust covers, and of a home; the first wins.
const PROJECT_DIRS: [&str; 3] = [".sinew/skills", ".agents/skills", ".claude/skills"];
const HOME_DIRS: [&str; 2] = [".agents/skills", ".claude/skills"];
/// The directory of the user's configuration directory.
const USER_DIR: &str = "skills";
/// Where packages install skills for every user.
const MACHINE_DIR: &str = "/usr/share/sinew/skills";
/// The most bytes of one file.
const MAX_BYTES: u64 = 256 << 10;
/// The most skills, and the most other files of one.
const MAX_SKILLS: usize = 500;
const MAX_FILES: usize = 200;
/// How deep a skill's directories may be nested.
const MAX_DEPTH: usize = 4;
/// The longest name, in characters.
const MAX_NAME: usize = 64;

sinew_tool::word_enum! {
    /// Whose a skill is.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum SkillSource {
        /// The project's.
        Project = "project",
        /// The user's.
        User = "user",
        /// Installed for every user of this machine.
        Machine = "machine",
    }
}

/// A skill.
#[derive(Debug, Clone, PartialEq)]
pub struct SkillFile {
    /// Its name.
    pub name: String,
    /// Whose it is.
    pub source: SkillSource,
    /// Its directory.
    pub dir: PathBuf,
    /// What its front matter says.
    pub head: SkillHead,
    /// Its instructions, as they are written.
    pub body: String,
    /// Its other files, relative to its directory.
    pub files: Vec<String>,
    /// The project with the content that its files must have, for a skill of a project.
    trusted: Option<Arc<TrustedProject>>,
}

/// A project, and the content with which the user trusts it.
#[derive(Debug, PartialEq)]
struct TrustedProject {
    dir: PathBuf,
    content: Content,
}

/// The skills that were found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FoundSkills {
    /// The skills, by name.
    pub skills: Vec<SkillFile>,
    /// The omitted parts, and those read differently than they were meant, in words.
    pub problems: Vec<String>,
}

/// Where skills are looked for.
#[derive(Debug, Clone, Default)]
pub struct SkillPlaces {
    /// The project.
    pub project: Option<PathBuf>,
    /// The user's configuration directory.
    pub config: Option<PathBuf>,
    /// The user's home directory.
    pub home: Option<PathBuf>,
}

impl SkillPlaces {
    /// Returns the directories whose skills count without trust: no model can write them.
    fn dirs_beside_project(&self) -> impl Iterator<Item = (PathBuf, SkillSource)> {
        let own = self.config.iter().map(|dir| dir.join(USER_DIR));
        let homes = self.home.iter().flat_map(|home| HOME_DIRS.map(|dir| home.join(dir)));
        let user = own.chain(homes).map(|dir| (dir, SkillSource::User));
        user.chain([(PathBuf::from(MACHINE_DIR), SkillSource::Machine)])
    }
}

/// Finds the skills. `trusted` says what the user knows of the project.
pub fn skills(places: &SkillPlaces, trusted: impl FnOnce(&Path) -> Known) -> FoundSkills {
    let mut found = FoundSkills::default();
    if let Some(project) = &places.project {
        found.add_project(project, trusted);
    }
    for (dir, source) in places.dirs_beside_project() {
        found.add_dir(&dir, source);
    }
    found.skills.sort_by(|one, other| one.name.cmp(&other.name));
    found
}

/// Returns a fingerprint of names and modification times, which changes when skills or the trust in them may have
/// changed. It opens no file.
pub fn signature(places: &SkillPlaces, state: Option<&Path>) -> u64 {
    let mut hasher = DefaultHasher::new();
    let mut add = |path: &Path| {
        let meta = fs::metadata(path).ok();
        let seen = meta.map(|meta| (meta.mtime(), meta.mtime_nsec(), meta.len(), meta.ino()));
        (path, seen).hash(&mut hasher);
    };
    let project = places.project.iter();
    for file in [".sinew/config.toml", ".mcp.json"] {
        project.clone().for_each(|project| add(&project.join(file)));
    }
    state.iter().for_each(|state| add(&state.join("trust.toml")));
    let own = project.flat_map(|project| PROJECT_DIRS.map(|dir| project.join(dir)));
    for dir in own.chain(places.dirs_beside_project().map(|(dir, _)| dir)) {
        add(&dir);
        for skill in directories(&dir) {
            add(&skill);
            add(&skill.join(FILE));
        }
    }
    hasher.finish()
}

impl FoundSkills {
    fn add_project(&mut self, project: &Path, trusted: impl FnOnce(&Path) -> Known) {
        let names_skill = |dir: &&str| !directories(&project.join(dir)).is_empty();
        let present: Vec<&str> = PROJECT_DIRS.into_iter().filter(names_skill).collect();
        if present.is_empty() {
            return;
        }
        let content = match trusted(project) {
            Known::Now(content) => content,
            Known::Never => return self.leave_out(&present, "until you trust the project"),
            Known::Before(None) => {
                return self
                    .leave_out(&present, "since the project is another one than you trusted");
            }
            Known::Before(Some(why)) => {
                let why = format!("since the project's content cannot be read: {why}");
                return self.leave_out(&present, &why);
            }
        };
        self.problems
            .extend(content.left_out.iter().map(|why| format!("skills are left out: {why}")));
        let trusted = Arc::new(TrustedProject { dir: project.to_owned(), content });
        let content = &trusted.content;
        for dir in PROJECT_DIRS {
            let dir = Path::new(dir);
            let of_skill = |(path, _): &&(PathBuf, blake3::Hash)| {
                path.file_name().is_some_and(|name| name == FILE)
                    && path.parent().and_then(Path::parent) == Some(dir)
            };
            for (path, _) in content.files.iter().filter(of_skill) {
                let Some(own) = path.parent() else { continue };
                let text = content.text(project, path);
                let beneath =
                    content.files.iter().filter_map(|(file, _)| file.strip_prefix(own).ok());
                let files = beneath.filter_map(|file| file.to_str().map(str::to_owned));
                let files = files
                    .filter(|file| file != FILE && !is_hidden(Path::new(file)))
                    .take(MAX_FILES)
                    .collect();
                let trusted = Some(Arc::clone(&trusted));
                self.add(&project.join(own), SkillSource::Project, text, files, trusted);
            }
        }
    }

    fn leave_out(&mut self, dirs: &[&str], why: &str) {
        let dirs = dirs.join(", ");
        self.problems
            .push(format!("the skills in {dirs} are left out {why}; `sinew trust` shows it"));
    }

    fn add_dir(&mut self, dir: &Path, source: SkillSource) {
        for own in directories(dir) {
            let text = read_up_to(&own.join(FILE), MAX_BYTES);
            let mut files = Vec::new();
            add_files(&own, Path::new(""), 0, (&mut files, &mut (10 * MAX_FILES)));
            files.sort();
            self.add(&own, source, text, files, None);
        }
    }

    fn add(
        &mut self,
        dir: &Path,
        source: SkillSource,
        text: io::Result<String>,
        files: Vec<String>,
        trusted: Option<Arc<TrustedProject>>,
    ) {
        let mut problem =
            |why: &str| self.problems.push(format!("{}: {why}", dir.join(FILE).display()));
        let text = match text {
            Ok(text) if text.len() as u64 <= MAX_BYTES => text,
            Ok(_) => return problem("the skill is left out: it has more than 256 KiB"),
            Err(error) if is_absent(&error) => return,
            Err(error) => return problem(&format!("the skill is left out: {error}")),
        };
        let named = dir.file_name().map(|name| name.to_string_lossy().into_owned());
        let (head, body) = match head::read(&text) {
            Ok(read) => read,
            Err(why) => return problem(&format!("the skill is left out: {why}")),
        };
        let name = head.name.clone().or(named).unwrap_or_default();
        if !is_name(&name) {
            return problem(&format!(
                "the skill is left out: its name must have 1 to {MAX_NAME} letters, digits, `-`, `_`, `.` or `:`"
            ));
        }
        for warning in &head.warnings {
            problem(warning);
        }
        if MAX_SKILLS <= self.skills.len() {
            return problem(&format!("the skill is left out: there are {MAX_SKILLS} already"));
        }
        if let Some(first) = self.skills.iter().find(|skill| skill.name == name) {
            let words = format!("the skill is left out: {} has this name too", first.dir.display());
            return problem(&words);
        }
        let (dir, body) = (dir.to_owned(), body.to_owned());
        self.skills.push(SkillFile { name, source, dir, head, body, files, trusted });
    }
}

impl SkillFile {
    /// Returns whether a file belongs to it.
    pub fn has(&self, file: &str) -> bool {
        file == FILE || self.files.iter().any(|known| known == file)
    }

    /// Returns the text of one of its other files.
    pub fn text(&self, file: &str) -> io::Result<String> {
        if !self.files.iter().any(|known| known == file) {
            let known =
                if self.files.is_empty() { String::from("none") } else { self.files.join(", ") };
            let words = format!("no file of this skill has this name; its other files: {known}");
            return Err(io::Error::new(io::ErrorKind::NotFound, words));
        }
        match &self.trusted {
            None => read_up_to(&self.dir.join(file), MAX_BYTES),
            Some(trusted) => {
                let own = self.dir.strip_prefix(&trusted.dir).map_err(io::Error::other)?;
                trusted.content.text(&trusted.dir, &own.join(file))
            }
        }
    }
}

/// Returns whether a model can be given a name.
fn is_name(name: &str) -> bool {
    let is_fine = |char: char| char.is_ascii_alphanumeric() || "-_.:".contains(char);
    (1..=MAX_NAME).contains(&name.len()) && name.chars().all(is_fine)
}

/// Returns whether a part of a path begins with a dot: such files hold settings and keys.
fn is_hidden(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str().as_encoded_bytes().first() == Some(&b'.'))
}

/// Returns the directories in a directory, by name. Links of the user are followed.
fn directories(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let paths = entries.filter_map(Result::ok).map(|entry| entry.path());
    let mut found: Vec<PathBuf> = paths.filter(|path| path.is_dir()).collect();
    found.sort();
    found.truncate(MAX_SKILLS);
    found
}

/// Adds the regular files beneath a directory, without links and hidden files. The walk ends with the limit of files, or
/// after ten times as many entries.
fn add_files(
    dir: &Path,
    beneath: &Path,
    depth: usize,
    (files, left): (&mut Vec<String>, &mut usize),
) {
    let Ok(entries) = fs::read_dir(dir.join(beneath)) else { return };
    for entry in entries.filter_map(Result::ok) {
        if *left == 0 || MAX_FILES <= files.len() {
            return;
        }
        *left -= 1;
        let path = beneath.join(entry.file_name());
        let Ok(kind) = entry.file_type() else { continue };
        if is_hidden(&path) {
            continue;
        }
        if kind.is_dir() && depth < MAX_DEPTH {
            add_files(dir, &path, depth + 1, (files, left));
        }
        let is_plain = path.components().all(|part| matches!(part, Component::Normal(_)));
        if let Some(name) = path.to_str().filter(|name| kind.is_file() && is_plain && *name != FILE)
        {
            files.push(name.to_owned());
        }
    }
}

#[cfg(test)]
mod tests;
