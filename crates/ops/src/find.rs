//! Find: lists every name beneath a directory that matches a glob and no exclusion.
//!
//! Unlike Glob it returns directories and links, sorts by path and does not heed ignore files. It does not
//! descend into excluded directories.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};

use globset::GlobSet;
use serde::Deserialize;
use sinew_tool::{
    Access, Claim, Context, Cost, Entry, Facts, FileKind, FileSettings, Operation, Skipped,
    Targets, ToolError, WalkOptions,
};

use crate::gather::{self, Gatherer, gather};
use crate::pattern;

/// The most names that are kept.
const MAX_FOUND: usize = 20_000;

/// Finds names.
#[derive(Debug)]
pub struct Find;

/// Arguments of Find.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FindArgs {
    /// The directory.
    pub path: String,
    /// A glob of paths relative to the directory; `None` is everything.
    #[serde(default)]
    pub pattern: Option<String>,
    /// Globs of paths to leave out, with everything beneath.
    #[serde(default)]
    pub exclude: Vec<String>,
    /// Whether an exclusion without `*` applies to that name at any depth.
    #[serde(default)]
    pub exclude_anywhere: bool,
}

/// Outcome of Find.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FindOut {
    /// The directory searched.
    pub root: PathBuf,
    /// The names, by path.
    pub names: Vec<FoundName>,
    /// How many there are in all.
    pub total: u64,
    /// The skipped entries, by reason.
    pub skipped: Skipped,
    /// Whether the time ran out before everything was seen.
    pub timed_out: bool,
}

impl FindOut {
    /// Returns whether names are missing from the answer.
    pub fn truncated(&self) -> bool {
        self.timed_out || (self.names.len() as u64) < self.total
    }
}

/// One name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundName {
    /// The path relative to the directory.
    pub path: PathBuf,
    /// The file type; links are not followed.
    pub kind: FileKind,
}

impl PartialOrd for FoundName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for FoundName {
    fn cmp(&self, other: &Self) -> Ordering {
        self.path.cmp(&other.path)
    }
}

impl Operation for Find {
    const NAME: &'static str = "Find";
    const FACTS: Facts = Facts::OBSERVES;
    type Args = FindArgs;
    type Out = FindOut;

    fn check(args: &FindArgs) -> Result<(), ToolError> {
        globs(args).map(drop)
    }

    fn claims(args: &FindArgs, _settings: &FileSettings) -> Vec<Claim> {
        vec![Claim::new("path", Some(args.path.clone()), Access::Search)]
    }

    fn cost(_args: &FindArgs, _targets: &Targets) -> Cost {
        Cost::Long
    }

    async fn run(args: &FindArgs, cx: &Context) -> Result<FindOut, ToolError> {
        let target = cx.target(0)?;
        let (wanted, excluded) = globs(args)?;
        let options = WalkOptions {
            heed_ignore: false,
            enter_state: true,
            max_depth: None,
            directories: true,
        };
        let search = FindSearch { wanted, excluded };
        let gathered = gather(cx, target, &options, MAX_FOUND, &search)?;
        Ok(FindOut {
            root: target.path.clone(),
            names: gathered.items,
            total: gathered.total,
            skipped: gathered.skipped,
            timed_out: gathered.timed_out,
        })
    }
}

/// Returns the compiled globs: wanted and excluded.
fn globs(args: &FindArgs) -> Result<(Option<GlobSet>, Vec<GlobSet>), ToolError> {
    let wanted = args.pattern.as_deref().map(|one| pattern::glob(one, false)).transpose()?;
    let mut excluded = Vec::new();
    for one in &args.exclude {
        excluded.push(pattern::glob(one, false)?);
        if args.exclude_anywhere && !one.contains('*') {
            excluded.push(pattern::glob(&format!("**/{one}"), false)?);
        }
    }
    Ok((wanted, excluded))
}

struct FindSearch {
    wanted: Option<GlobSet>,
    excluded: Vec<GlobSet>,
}

impl FindSearch {
    /// Returns whether a path or a directory above it is excluded, so a walk need not ask where to descend.
    fn excludes(&self, path: &Path) -> bool {
        !self.excluded.is_empty()
            && path
                .ancestors()
                .take_while(|path| !path.as_os_str().is_empty())
                .any(|path| self.excluded.iter().any(|glob| glob.is_match(path)))
    }
}

impl Gatherer for FindSearch {
    type Item = FoundName;

    fn visit(&self, entry: &dyn Entry, found: &mut gather::ThreadFound<FoundName>) {
        let path = entry.path();
        let wanted = self.wanted.as_ref().is_none_or(|glob| glob.is_match(path));
        if !wanted || self.excludes(path) {
            return;
        }
        found.total += 1;
        if found.best.wants(|last| path < last.path.as_path()) {
            found.best.push(FoundName { path: path.to_path_buf(), kind: entry.kind() });
        }
    }

    fn enter(&self, path: &Path) -> bool {
        !self.excludes(path)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use sinew_testkit::{MemoryWorld, call};
    use sinew_tool::{Param, ParamKind, Preset, Reply, Row};

    use super::*;

    const PARAMS: &[Param] = &[
        Param::required("path", "path", ParamKind::String, ""),
        Param::optional("pattern", "pattern", ParamKind::String, ""),
        Param::optional("exclude", "exclude", ParamKind::Strings { min: 0 }, ""),
    ];

    const fn row(presets: &'static [(&'static str, Preset)]) -> Row<Find> {
        Row {
            name: "find",
            description: "",
            params: PARAMS,
            presets,

            ..Row::<Find>::shaped(|_, out, _| {
                let rows: Vec<_> = out.names.iter().map(|name| name.path.display()).collect();
                Reply::json(json!(rows.iter().map(ToString::to_string).collect::<Vec<_>>()))
            })
        }
    }

    const ROW: Row<Find> = row(&[]);
    const ANYWHERE: Row<Find> = row(&[("exclude_anywhere", Preset::Bool(true))]);

    #[track_caller]
    fn check(row: Row<Find>, mut args: Value, expected: &[&str]) {
        let world = MemoryWorld::new();
        world.file("a.rs", "").file("d/b.rs", "").file("d/e/c.rs", "").file("d/e/c.txt", "");
        world.file(".git/HEAD", "").file(".gitignore", "d\n").link("link", "a.rs");
        args["path"] = json!(".");
        let reply = call(&world, &row.tool(), args.clone());
        assert_eq!(reply.structured, Some(json!(expected)), "{args}");
    }

    #[test]
    fn names_are_found_whatever_is_ignored() {
        check(ROW, json!({ "pattern": "*.rs" }), &["a.rs"]);
        check(ROW, json!({ "pattern": "**/*.rs" }), &["a.rs", "d/b.rs", "d/e/c.rs"]);
        check(ROW, json!({ "pattern": "d/*" }), &["d/b.rs", "d/e"]);
        check(ROW, json!({ "pattern": "{link,.git}" }), &[".git", "link"]);
        check(ROW, json!({ "pattern": "**/*.rs", "exclude": ["d/e"] }), &["a.rs", "d/b.rs"]);
        check(
            ROW,
            json!({ "pattern": "**/*.rs", "exclude": ["e"] }),
            &["a.rs", "d/b.rs", "d/e/c.rs"],
        );
        check(ROW, json!({ "pattern": "**/*.rs", "exclude": ["**/e/**", "a*"] }), &["d/b.rs"]);
        check(
            ANYWHERE,
            json!({ "exclude": ["e", ".git", "*.rs"] }),
            &[".gitignore", "d", "d/b.rs", "link"],
        );
    }
}
