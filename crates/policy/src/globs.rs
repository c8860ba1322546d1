//! Configured globs, compiled for real absolute paths.

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
    /// The glob, and variants with the real path of each root in place of the given one.
    meant: Vec<String>,
}

impl Written {
    /// Returns a glob that means what it says, for any roots.
    pub(crate) fn as_it_is(glob: String) -> Self {
        Self { meant: vec![glob.clone()], glob }
    }

    /// Expands absolute globs: a root as it was given also stands for its real path. If the globs restrict
    /// (`holds`), symlinks in their beginning are followed too.
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

    /// Like [`Written::all`], but a relative glob is expanded beneath each root.
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

    /// Follows symlinks in the beginning of a restricting glob; a repository could redirect allowing ones.
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

/// Normalizes a glob; the error says why it can match no path.
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

/// Returns why a glob cannot be parsed, for any roots.
pub fn check(glob: &str) -> Result<(), String> {
    let plain = plain(glob)?;
    let absolute = if plain.starts_with('/') { plain } else { format!("/{plain}") };
    parse("", glob, &absolute).map(drop).map_err(|error| error.problem)
}

/// Returns whether an absolute glob can match in none of these directories.
pub fn lies_outside(glob: &str, roots: &[PathBuf]) -> bool {
    let Some(glob) = plain(glob).ok().filter(|glob| glob.starts_with('/')) else { return false };
    let start = real(&split(&glob).0);
    let mut roots = roots.iter().map(|root| real(root));
    !roots.any(|root| start.starts_with(&root) || root.starts_with(&start))
}

/// Resolves symlinks in the part of a path that exists.
#[expect(clippy::disallowed_methods, reason = "the guard may touch the system")]
fn real(path: &Path) -> PathBuf {
    for above in path.ancestors() {
        if let (Ok(real), Ok(rest)) = (std::fs::canonicalize(above), path.strip_prefix(above)) {
            return if rest.as_os_str().is_empty() { real } else { real.join(rest) };
        }
    }
    path.to_owned()
}

/// A compiled list of globs.
#[derive(Debug)]
pub(crate) struct Globs {
    set: GlobSet,
    /// The source of each glob of the set.
    written: Vec<String>,
    /// Prefilters: a path that passes none of them matches no glob.
    signs: Vec<Sign>,
}

/// Longer lists use the set alone, since checking each prefilter would take longer.
const MAX_SIGNS: usize = 64;

/// Prefilter of a glob, which each match passes: most other paths are told by it without a glob search.
#[derive(Debug)]
struct Sign {
    /// The directories before the first wildcard.
    start: PathBuf,
    /// The longest name after them.
    name: Option<memmem::Finder<'static>>,
}

impl Sign {
    fn of(glob: &str) -> Self {
        let (start, rest) = split(glob);
        // Classes, braces and escapes may hold a `/`, or not match the text in them.
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

/// A path glob that cannot be parsed.
#[derive(Debug, thiserror::Error)]
#[error("{list} holds a glob that cannot be read: `{glob}`: {problem}")]
pub struct RuleError {
    /// The key of its list, with the place.
    pub list: String,
    /// The glob as written.
    pub glob: String,
    /// Why it cannot be parsed.
    pub problem: String,
}

impl RuleError {
    fn new(list: &str, glob: &str, problem: String) -> Self {
        Self { list: list.to_owned(), glob: glob.to_owned(), problem }
    }
}

impl Globs {
    /// Compiles a list; an empty one gives `None`. `deep` globs also match everything beneath.
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

    /// Returns whether a match may be at or beneath a directory.
    pub(crate) fn may_lie_beneath(&self, dir: &Path) -> bool {
        self.signs.iter().any(|Sign { start, .. }| start.starts_with(dir) || dir.starts_with(start))
    }
}

/// Returns variants of a glob: `dir/**` also matches `dir`, a `deep` glob also everything beneath.
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

/// Splits a glob before its first component with a wildcard; the rest keeps its leading `/`.
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

/// Returns the only name that a component matches, if any. One ASCII character in brackets is literal.
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
