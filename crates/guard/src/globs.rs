//! Globs of configuration for real absolute paths.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};

use globset::{Candidate, Glob, GlobBuilder, GlobSet, GlobSetBuilder};
use serde::{Deserialize, Serialize};

use crate::roots::Roots;

/// One glob.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Written {
    glob: String,
    /// The glob, and the same with the real path of each root instead of the one that was given.
    meant: Vec<String>,
}

impl Written {
    /// Returns a glob that means what it says, wherever the roots are.
    pub(crate) fn as_it_is(glob: String) -> Self {
        Self { meant: vec![glob.clone()], glob }
    }

    /// Returns globs with what they mean. One that begins with a root as it was given also stands for its
    /// real path.
    pub(crate) fn all(globs: &[String], roots: &Roots) -> Vec<Self> {
        let one = |glob: &String| {
            let meant = std::iter::once(glob.clone()).chain(roots.real_spellings(glob));
            Self { glob: glob.clone(), meant: meant.collect() }
        };
        globs.iter().map(one).collect()
    }

    /// Returns globs that may also be relative: these are meant beneath each root.
    pub(crate) fn all_beneath(globs: &[String], roots: &Roots) -> Vec<Self> {
        let one = |glob: &String| {
            if glob.starts_with('/') {
                return Self::all(std::slice::from_ref(glob), roots);
            }
            let beneath = |root: &Path| {
                let root = globset::escape(root.to_str()?);
                Some(format!("{}/{glob}", root.trim_end_matches('/')))
            };
            vec![Self { glob: glob.clone(), meant: roots.paths().filter_map(beneath).collect() }]
        };
        globs.iter().flat_map(one).collect()
    }
}

/// A list of globs with their spelling.
#[derive(Debug)]
pub(crate) struct Globs {
    set: GlobSet,
    /// The spelling of each glob of the set.
    written: Vec<String>,
    /// The directories that the globs begin with, up to the first wildcard.
    starts: Vec<PathBuf>,
}

/// A path glob that cannot be read.
#[derive(Debug)]
pub struct RuleError {
    /// The key of the list that holds it, with where it stands.
    pub list: String,
    /// The glob as written.
    pub glob: String,
    /// What is wrong with it.
    pub problem: String,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { list, glob, problem } = self;
        write!(f, "{list} holds a glob that cannot be read: `{glob}`: {problem}")
    }
}

impl std::error::Error for RuleError {}

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
        let mut starts = Vec::new();
        for Written { glob, meant } in written {
            for meant in meant {
                for spelling in spellings(meant, deep) {
                    set.add(parse(list, glob, &spelling)?);
                    names.push(glob.clone());
                }
                starts.push(literal_start(meant));
            }
        }
        let set = set.build().map_err(|error| RuleError {
            list: list.to_owned(),
            glob: names.join(", "),
            problem: error.kind().to_string(),
        })?;
        Ok(Some(Self { set, written: names, starts }))
    }

    pub(crate) fn first_match(&self, path: &Path) -> Option<&str> {
        let candidate = Candidate::new(path);
        if !self.set.is_match_candidate(&candidate) {
            return None;
        }
        let at = self.set.matches_candidate(&candidate).into_iter().next()?;
        self.written.get(at).map(String::as_str)
    }

    /// Returns whether something that matches may lie in a directory or beneath it.
    pub(crate) fn may_lie_beneath(&self, dir: &Path) -> bool {
        self.starts.iter().any(|start| start.starts_with(dir) || dir.starts_with(start))
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

/// Returns the directories a glob begins with, up to the first component with a wildcard.
fn literal_start(glob: &str) -> PathBuf {
    let parts = glob.split('/').filter(|part| !part.is_empty());
    let start: PathBuf = parts.map_while(literal).collect();
    Path::new("/").join(start)
}

/// Returns the only name that a component of a glob matches, if there is one. A sign alone in brackets is
/// that sign, as in the escaped name of a root.
fn literal(part: &str) -> Option<String> {
    let mut name = String::with_capacity(part.len());
    let mut rest = part.chars();
    while let Some(sign) = rest.next() {
        match (sign, rest.as_str().as_bytes()) {
            ('[', [one, b']', ..]) if one.is_ascii() => {
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
            ("/\u{e9}/{b,c}", "/\u{e9}"),
        ] {
            assert_eq!(literal_start(glob), Path::new(start), "{glob}");
        }
    }
}
