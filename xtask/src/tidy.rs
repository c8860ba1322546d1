//! The rules of the project that no compiler checks, checked over the tree and over `cargo metadata`.
//!
//! The tables of the rules stand here, where a change of them is seen; each exception carries its
//! reason. Deliberately absent: style that `rustfmt` and `clippy` already hold, and anything that
//! needs the network.

mod circles;
mod crates;
mod module;
mod scan;
mod source;
mod text;
mod tree;
mod type_names;
mod words;

use std::fmt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use tree::Tree;

/// One crate of the workspace and the members that it may depend on.
struct Place {
    name: &'static str,
    may_use: &'static [&'static str],
}

/// The layers of the workspace, lowest first. `CONTRIBUTING.md` shows the same table.
const PLACES: &[Place] = &[
    Place { name: "web_atoms", may_use: &[] },
    Place { name: "html-escape", may_use: &["web_atoms"] },
    Place { name: "sinew-tool", may_use: &[] },
    Place { name: "sinew-fs", may_use: &["sinew-tool"] },
    Place { name: "sinew-shell", may_use: &["sinew-tool"] },
    Place { name: "sinew-policy", may_use: &["sinew-tool", "sinew-fs", "sinew-shell"] },
    Place { name: "sinew-records", may_use: &["sinew-tool", "sinew-fs"] },
    Place { name: "sinew-sandbox", may_use: &["sinew-tool", "sinew-fs", "sinew-policy"] },
    Place { name: "sinew-web", may_use: &["sinew-tool", "sinew-policy"] },
    Place {
        name: "sinew-guard",
        may_use: &[
            "sinew-tool",
            "sinew-fs",
            "sinew-shell",
            "sinew-policy",
            "sinew-records",
            "sinew-sandbox",
            "sinew-web",
        ],
    },
    Place { name: "sinew-ops", may_use: &["sinew-tool"] },
    Place { name: "sinew-dialects", may_use: &["sinew-tool", "sinew-ops"] },
    Place { name: "sinew-runtime", may_use: &["sinew-tool", "sinew-guard"] },
    Place {
        name: "sinew-config",
        may_use: &["sinew-tool", "sinew-guard", "sinew-dialects", "sinew-runtime"],
    },
    Place { name: "sinew-mcp", may_use: &["sinew-tool", "sinew-runtime"] },
    Place { name: "sinew-mcp-client", may_use: &["sinew-tool", "sinew-guard", "sinew-runtime"] },
    Place { name: "sinew-agent", may_use: &["sinew-tool", "sinew-runtime"] },
    Place { name: "sinew-console", may_use: &["sinew-tool", "sinew-runtime"] },
    Place {
        name: "sinew",
        may_use: &[
            "sinew-tool",
            "sinew-guard",
            "sinew-ops",
            "sinew-dialects",
            "sinew-runtime",
            "sinew-config",
            "sinew-mcp",
            "sinew-mcp-client",
            "sinew-agent",
            "sinew-console",
        ],
    },
    Place { name: "sinew-testkit", may_use: &["sinew-tool", "sinew-runtime"] },
    Place { name: "xtask", may_use: &[] },
];

/// What every member may use in its tests, beside what it may use anyway.
const IN_TESTS: &[&str] = &["sinew-testkit"];

/// Members that may use only these outside crates.
const ONLY: &[(&str, &[&str])] = &[("sinew-tool", &["serde", "serde_json"])];

/// Outside crates that only these members may use.
const RESERVED: &[(&str, &[&str])] = &[("anyhow", &["sinew", "xtask"])];

/// Lines of one file, tests not counted.
const MAX_LINES: usize = 800;

/// Files that may be longer, with the reason.
const LONG: &[(&str, &str)] = &[];

/// The most files of a crate that may import one another in a circle, and the crates that may have more, with the
/// reason.
const MAX_CIRCLE: usize = 4;
const LARGER_CIRCLES: &[(&str, usize, &str)] =
    &[("sinew-guard", 7, "a call is contained, judged and cleared by types that hold one another")];

/// The files that may hold the word `unsafe`.
const UNSAFE: &[&str] = &["crates/sandbox/src/memory.rs", "crates/sandbox/src/spawn.rs"];

/// Integration binaries beside the one of a crate, each with its reason.
const OWN_BINARIES: &[(&str, &str)] =
    &[("commands", "has no harness of the compiler's: the helper process is the program itself")];

/// Names of folders whose Rust files are data of tests.
const DATA: &[&str] = &["catalog", "corpus", "data", "fixtures"];

/// How many vague words the comments of each crate hold, and the documents: no count may rise.
const WORDS: &[(&str, usize)] = &[
    ("documents", 148),
    ("sinew", 37),
    ("sinew-config", 8),
    ("sinew-dialects", 6),
    ("sinew-fs", 5),
    ("sinew-guard", 35),
    ("sinew-mcp", 1),
    ("sinew-ops", 25),
    ("sinew-policy", 6),
    ("sinew-records", 6),
    ("sinew-runtime", 6),
    ("sinew-sandbox", 1),
    ("sinew-shell", 3),
    ("sinew-testkit", 5),
    ("sinew-tool", 7),
    ("sinew-web", 0),
    ("xtask", 13),
];

/// Places outside the tree that no file may name. They are put together here so that this file does
/// not name them itself.
const FOREIGN: &[&str] =
    &[concat!("/wo", "rk/"), concat!("../sh", "ared"), concat!(".lib", "rary")];

/// An error, its place, and its remedy.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    path: String,
    line: usize,
    what: String,
}

impl Finding {
    fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// Returns everything that breaks a rule, in the order of the paths.
pub(crate) fn findings(root: &Path) -> Result<Vec<Finding>> {
    let tree = Tree::read(root)?;
    let metadata = metadata(root)?;
    let members = crates::members(root, &metadata)?;
    let mut findings = Vec::new();
    crates::check(&tree, &members, &mut findings);
    module::check(&tree, &members, &mut findings);
    circles::check(&tree, &members, &mut findings);
    source::check(&tree, &mut findings);
    text::check(&tree, &mut findings);
    type_names::check(&tree, &members, &mut findings);
    words::check(&tree, &members, &mut findings);
    findings.sort();
    Ok(findings)
}

/// Returns how often words stand in the place of an actor or a noun.
pub(crate) fn word_rates(root: &Path) -> Result<words::Rates> {
    Ok(words::Rates::of(&Tree::read(root)?))
}

/// Returns a line for every circle of files of one crate, the largest first.
pub(crate) fn circles(root: &Path) -> Result<Vec<String>> {
    let tree = Tree::read(root)?;
    let members = crates::members(root, &metadata(root)?)?;
    Ok(circles::lines(&tree, &members))
}

/// Asks cargo for the packages of the workspace.
fn metadata(root: &Path) -> Result<Value> {
    let args = ["metadata", "--format-version", "1", "--locked", "--offline", "--no-deps"];
    serde_json::from_str(&stdout(root, "cargo", &args)?).context("`cargo metadata` is not JSON")
}

fn stdout(root: &Path, program: &str, args: &[&str]) -> Result<String> {
    let output = Command::new(program).args(args).current_dir(root).output()?;
    if !output.status.success() {
        bail!("`{program} {}` failed: {}", args.join(" "), String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?)
}
