//! Globs of configuration for real absolute paths.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use globset::{Candidate, Glob, GlobBuilder, GlobSet, GlobSetBuilder};
use memchr::memmem;
use serde::{Deserialize, Serialize};

use sinew_fs::literal::escaped;
use sinew_fs::roots::Roots;

/// One glob.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Written {
    glob: String,
    /// The glob, and the same with the real path of each root instead of the one that was given.
    meant: Vec<String>,
}

impl Written {
    /// Returns a glob that means what it says, wherever the roots are.
    pub(crate) fn as_it_is(glob: String) -> Self {
        Self { meant: vec![glob.clone()], glob }
    }

    /// Returns absolute globs of a list with what they mean. One that begins with a root as it was given
    /// also stands for its real path, and one that `holds` back for where the links in its beginning lead.
    pub fn all(
        list: &str,
        globs: &[String],
        roots: &Roots,
        holds: bool,
    ) -> Result<Vec<Self>, RuleError> {
        let one = |glob: &String| {
            let error = |problem| RuleError::new(list, glob, problem);
            let plain = plain(glob).map_err(error)?;
            let mut meant = roots.real_spellings(&plain).map_err(error)?;
            meant.insert(0, plain);
            Self { glob: glob.clone(), meant }.where_links_lead(list, holds)
        };
        globs.iter().map(one).collect()
    }

    /// Returns globs that may also be relative: these are meant beneath each root.
    pub(crate) fn all_beneath(
        list: &str,
        globs: &[String],
        roots: &Roots,
        holds: bool,
    ) -> Result<Vec<Self>, RuleError> {
        let one = |glob: &String| {
            if glob.starts_with('/') {
                return Self::all(list, std::slice::from_ref(glob), roots, holds);
            }
            let error = |problem| RuleError::new(list, glob, problem);
            let plain = plain(glob).map_err(error)?;
            let beneath = |root: &Path| {
                let root = escaped(root).map_err(error)?;
                Ok(format!("{}/{plain}", root.trim_end_matches('/')))
            };
            let meant = roots.paths().map(beneath).collect::<Result<_, RuleError>>()?;
            Ok(vec![Self { glob: glob.clone(), meant }.where_links_lead(list, holds)?])
        };
        Ok(globs.iter().map(one).collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }

    /// Adds what a glob means whose beginning is reached by links. What allows gets nothing by them: they may
    /// come with a repository.
    fn where_links_lead(mut self, list: &str, holds: bool) -> Result<Self, RuleError> {
        let all = if holds { self.meant.clone() } else { Vec::new() };
        for meant in all {
            let (start, rest) = split(&meant);
            let real = real(&start);
            if real != start {
                let real =
                    escaped(&real).map_err(|problem| RuleError::new(list, &self.glob, problem))?;
                self.meant.push(format!("{}{rest}", real.trim_end_matches('/')));
            }
        }
        Ok(self)
    }
}

/// Returns a glob without parts that say nothing; one that could mean no path is refused with the reason.
fn plain(glob: &str) -> Result<String, String> {
    let parts = glob.split('/').filter(|part| !matches!(*part, "" | "."));
    let parts: Vec<&str> = parts.collect();
    if parts.contains(&"..") {
        return Err(String::from("`..` means nothing in a glob; write where it leads"));
    }
    if parts.first() == Some(&"~") && !glob.starts_with('/') {
        return Err(String::from("`~` is not expanded; use an absolute path"));
    }
    if parts.first().is_some_and(|part| matches!(*part, "$HOME" | "${HOME}")) {
        return Err(String::from("variables are not filled in here; write the path"));
    }
    let begin = if glob.starts_with('/') { "/" } else { "" };
    let end = if glob.ends_with('/') && !parts.is_empty() { "/" } else { "" };
    match (parts.is_empty(), begin) {
        (true, "") => Err(String::from("it means no path; `**` means all")),
        _ => Ok(format!("{begin}{}{end}", parts.join("/"))),
    }
}

/// Returns why a glob cannot be read, wherever it is meant.
pub fn check(glob: &str) -> Result<(), String> {
    let plain = plain(glob)?;
    let absolute = if plain.starts_with('/') { plain } else { format!("/{plain}") };
    parse("", glob, &absolute).map(drop).map_err(|error| error.problem)
}

/// Returns whether what an absolute glob means lies in none of these directories.
pub fn lies_outside(glob: &str, roots: &[PathBuf]) -> bool {
    let Some(glob) = plain(glob).ok().filter(|glob| glob.starts_with('/')) else { return false };
    let start = real(&split(&glob).0);
    let mut roots = roots.iter().map(|root| real(root));
    !roots.any(|root| start.starts_with(&root) || root.starts_with(&start))
}

/// Returns where a path really is, as far as it is there.
#[expect(clippy::disallowed_methods, reason = "the guard may touch the system")]
fn real(path: &Path) -> PathBuf {
    for above in path.ancestors() {
        if let (Ok(real), Ok(rest)) = (std::fs::canonicalize(above), path.strip_prefix(above)) {
            return if rest.as_os_str().is_empty() { real } else { real.join(rest) };
        }
    }
    path.to_owned()
}

/// A list of globs with their spelling.
#[derive(Debug)]
pub(crate) struct Globs {
    set: GlobSet,
    /// The spelling of each glob of the set.
    written: Vec<String>,
    /// What a path holds that any of the globs matches.
    signs: Vec<Sign>,
}

/// A list that is longer is searched as a whole at once: to look for each sign would take longer.
const MAX_SIGNS: usize = 64;

/// What every path holds that a glob matches: most paths that it does not match are told by it, without a
/// search for the glob.
#[derive(Debug)]
struct Sign {
    /// The directories that the glob begins with, up to the first wildcard.
    start: PathBuf,
    /// The longest name after them.
    name: Option<memmem::Finder<'static>>,
}

impl Sign {
    fn of(glob: &str) -> Self {
        let (start, rest) = split(glob);
        // Anything else may have a `/` in it, or none of what stands in it.
        let is_simple = !rest.contains(['[', ']', '{', '}', '\\']);
        let names = rest.split('/').filter(|part| is_simple && !part.contains(['*', '?']));
        let name = names.max_by_key(|part| part.len()).filter(|part| !part.is_empty());
        let name = name.map(|name| memmem::Finder::new(name).into_owned());
        Self { start, name }
    }

    fn is_in(&self, path: &[u8]) -> bool {
        path.strip_prefix(self.start.as_os_str().as_encoded_bytes())
            .is_some_and(|rest| self.name.as_ref().is_none_or(|name| name.find(rest).is_some()))
    }
}

/// A path glob that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{list} holds a glob that cannot be read: `{glob}`: {problem}")]
pub struct RuleError {
    /// The key of the list that holds it, with where it stands.
    pub list: String,
    /// The glob as written.
    pub glob: String,
    /// What is wrong with it.
    pub problem: String,
}

impl RuleError {
    fn new(list: &str, glob: &str, problem: String) -> Self {
        Self { list: list.to_owned(), glob: glob.to_owned(), problem }
    }
}

impl Globs {
    /// Compiles a list; an empty one is no list. What `deep` globs match they match with everything
    /// beneath it.
    pub(crate) fn compile(
        list: &str,
        written: &[Written],
        deep: bool,
    ) -> Result<Option<Self>, RuleError> {
        if written.is_empty() {
            return Ok(None);
        }
        let mut set = GlobSetBuilder::new();
        let mut names = Vec::new();
        let mut signs = Vec::new();
        for Written { glob, meant } in written {
            for meant in meant {
                for spelling in spellings(meant, deep) {
                    set.add(parse(list, glob, &spelling)?);
                    names.push(glob.clone());
                }
                signs.push(Sign::of(meant));
            }
        }
        let set = set.build().map_err(|error| RuleError {
            list: list.to_owned(),
            glob: names.join(", "),
            problem: error.kind().to_string(),
        })?;
        Ok(Some(Self { set, written: names, signs }))
    }

    pub(crate) fn first_match(&self, path: &Path) -> Option<&str> {
        let bytes = path.as_os_str().as_encoded_bytes();
        if self.signs.len() <= MAX_SIGNS && !self.signs.iter().any(|sign| sign.is_in(bytes)) {
            return None;
        }
        let candidate = Candidate::new(path);
        if !self.set.is_match_candidate(&candidate) {
            return None;
        }
        let at = self.set.matches_candidate(&candidate).into_iter().next()?;
        self.written.get(at).map(String::as_str)
    }

    /// Returns whether something that matches may lie in a directory or beneath it.
    pub(crate) fn may_lie_beneath(&self, dir: &Path) -> bool {
        self.signs.iter().any(|Sign { start, .. }| start.starts_with(dir) || dir.starts_with(start))
    }
}

/// Returns the globs that one written glob stands for: `dir/**` covers `dir` itself, and what is
/// denied is denied with everything beneath it.
fn spellings(glob: &str, deep: bool) -> Vec<Cow<'_, str>> {
    let mut all = vec![Cow::Borrowed(glob)];
    match glob.strip_suffix("/**") {
        Some("") => all.push(Cow::Borrowed("/")),
        Some(dir) => all.push(Cow::Borrowed(dir)),
        None if deep => all.push(Cow::Owned(format!("{}/**", glob.trim_end_matches('/')))),
        None => {}
    }
    if let Some(dir) = glob.strip_suffix('/')
        && !dir.is_empty()
    {
        all.push(Cow::Borrowed(dir));
    }
    all
}

fn parse(list: &str, written: &str, spelling: &str) -> Result<Glob, RuleError> {
    let error =
        |problem: String| RuleError { list: list.to_owned(), glob: written.to_owned(), problem };
    if !spelling.starts_with('/') && !spelling.starts_with("**") {
        return Err(error(String::from("is not absolute")));
    }
    GlobBuilder::new(spelling)
        .literal_separator(true)
        .backslash_escape(true)
        .build()
        .map_err(|problem| error(problem.kind().to_string()))
}

/// Returns the directories a glob begins with, up to the first component with a wildcard, and the rest of
/// it with the `/` before it.
fn split(glob: &str) -> (PathBuf, String) {
    let mut start = PathBuf::from("/");
    let mut parts = glob.split('/').filter(|part| !part.is_empty());
    let mut rest = String::new();
    for part in parts.by_ref() {
        match literal(part) {
            Some(name) => start.push(name),
            None => {
                rest = format!("/{part}");
                break;
            }
        }
    }
    parts.for_each(|part| rest.push_str(&format!("/{part}")));
    if glob.ends_with('/') {
        rest.push('/');
    }
    (start, rest)
}

/// Returns the only name that a component of a glob matches, if there is one. A sign alone in brackets is
/// that sign, as in the escaped name of a root.
fn literal(part: &str) -> Option<String> {
    let mut name = String::with_capacity(part.len());
    let mut rest = part.chars();
    while let Some(sign) = rest.next() {
        match (sign, rest.as_str().as_bytes()) {
            ('[', [one, b']', ..]) if one.is_ascii() && !matches!(one, b'!' | b'^') => {
                name.push(char::from(*one));
                rest = rest.as_str().get(2..)?.chars();
            }
            ('*' | '?' | '[' | '{' | '\\', _) => return None,
            _ => name.push(sign),
        }
    }
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sinew_fs::literal::escape;

    #[test]
    fn what_says_nothing_is_taken_out_of_a_glob_and_what_means_nothing_is_refused() {
        for (glob, expected) in [
            ("a/b", Some("a/b")),
            ("./a/**", Some("a/**")),
            ("a//b/./c/", Some("a/b/c/")),
            ("/a//b", Some("/a/b")),
            ("/", Some("/")),
            ("a/.b", Some("a/.b")),
            ("a/~/b", Some("a/~/b")),
            (".", None),
            ("", None),
            ("a/../b", None),
            ("..", None),
            ("~", None),
            ("~/x", None),
            ("$HOME/x", None),
            ("${HOME}/x", None),
            ("$x/y", Some("$x/y")),
        ] {
            assert_eq!(plain(glob).ok().as_deref(), expected, "{glob}");
        }
    }

    #[test]
    fn an_escaped_path_is_matched_as_it_is() {
        for path in ["/a b", "/a[1]", "/{a,b}", "/a\\b", "/a*?", "/!", "/[!]"] {
            let glob = escape(path);
            let meant = Written::as_it_is(glob.clone());
            let globs = Globs::compile("a list", &[meant], true).expect("a glob").expect("one");
            assert!(globs.first_match(Path::new(path)).is_some(), "{glob}");
            assert_eq!(split(&glob).0, Path::new(path), "{glob}");
        }
    }

    #[test]
    fn what_tells_most_paths_by_a_sign_tells_none_that_a_glob_matches() {
        for (glob, paths) in [
            ("/a/b", ["/a/b", "/a/b/c"]),
            ("/a/b/", ["/a/b/", "/a/b"]),
            ("/**", ["/", "/a"]),
            ("**/c", ["/c", "/a/c/d"]),
            ("/a/**/key/*", ["/a/key/x", "/a/b/key/x/y"]),
            ("/a/**/k?y/long*", ["/a/key/long", "/a/b/kay/longer"]),
            ("/a/{b/c,d}/e", ["/a/b/c/e", "/a/d/e"]),
            ("/a/*/{b,c/dd}", ["/a/x/b", "/a/x/c/dd"]),
            ("/a/*/[bc]d", ["/a/x/bd", "/a/x/cd/e"]),
            ("/a/*/b\\*", ["/a/x/b*", "/a/x/b*/c"]),
            ("/a/*/[[]b", ["/a/x/[b", "/a/x/[b/c"]),
        ] {
            let meant = Written::as_it_is(glob.to_owned());
            let globs = Globs::compile("a list", &[meant], true).expect("a glob").expect("one");
            for path in paths {
                let path = Path::new(path);
                assert!(globs.set.is_match(path), "{glob} {}", path.display());
                assert!(globs.first_match(path).is_some(), "{glob} {}", path.display());
            }
        }
    }

    const PARTS: &str = "a|b|ab|\\*|\\*\\*|\\?|a\\*|\\*b|\\[ab\\]|\\[!a\\]|\\[\\[\\]b|\\[\\]\\]|\\[/\\]|\\[\\\\\\]|\\{a,b\\}|\\{a/b,b\\}|\\{a,\\{b,ab\\}\\}|\\\\\\*|\\*\\*a|";

    proptest::proptest! {
        #[test]
        fn a_sign_hides_no_path_that_a_glob_matches(
            begin in "(/|/a/|\\*\\*/|/\\*\\*/)",
            glob in proptest::collection::vec(PARTS, 1..5),
            end in "(/|/\\*\\*)?",
            path in "(/(a|b|ab|aab|abb|\\[b|\\*|\\\\|\\]|\u{e9})){1,5}",
        ) {
            let glob = format!("{begin}{}{end}", glob.join("/"));
            let meant = Written::as_it_is(glob.clone());
            if let Ok(Some(globs)) = Globs::compile("a list", &[meant], true) {
                let path = Path::new(&path);
                let found = globs.first_match(path).is_some();
                proptest::prop_assert_eq!(found, globs.set.is_match(path), "{}", glob);
            }
        }
    }

    #[test]
    fn a_glob_begins_where_nothing_is_wild() {
        for (glob, start) in [
            ("/a/b/**", "/a/b"),
            ("/a/b*/c", "/a"),
            ("**/c", "/"),
            ("/a[1]/x", "/a1/x"),
            ("/w [[]1[]]/x/*", "/w [1]/x"),
            ("/a[12]/x", "/"),
            ("/a\\*/x", "/"),
            ("/a/[!]b]/x", "/a"),
            ("/a/[^]b]/x", "/a"),
            ("/a[\\]b/x", "/a\\b/x"),
            ("/\u{e9}/{b,c}", "/\u{e9}"),
        ] {
            assert_eq!(split(glob).0, Path::new(start), "{glob}");
        }
    }
}
