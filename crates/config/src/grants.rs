//! Stores permanent approvals as rules, in one file of the state directory for each set of roots.
//!
//! The file has the configuration's format: the user deletes a table to be asked again.
#![expect(clippy::disallowed_methods, reason = "this is the one place that keeps answers")]

use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use sinew_guard::{HostPattern, Layer, Object, Rule, RuleOrigin, StateDir, UnsandboxedCommand};
use sinew_runtime::GrantStore;
use sinew_tool::{Effects, Kind, ToolError};

use super::options::RuleOptions;
use super::{ConfigError, files, lines, rules};

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct GrantsFile {
    #[serde(default)]
    rules: Vec<RuleOptions>,
}

/// The permanent approvals for one set of roots.
#[derive(Debug)]
pub struct Grants {
    state: PathBuf,
    /// The canonical roots in order; relative patterns start at the first.
    roots: Vec<PathBuf>,
}

impl Grants {
    /// Returns the approvals for some roots, without opening the file.
    pub fn of(state: &Path, roots: &[PathBuf]) -> Self {
        let real = |root: &PathBuf| fs::canonicalize(root).unwrap_or_else(|_| root.clone());
        let mut roots: Vec<PathBuf> = roots.iter().map(real).collect();
        if let Some((_, others)) = roots.split_first_mut() {
            others.sort();
        }
        Self { state: state.to_owned(), roots }
    }

    fn path(&self) -> PathBuf {
        let mut hasher = blake3::Hasher::new();
        for root in &self.roots {
            // NUL separates the roots, because no path contains one.
            hasher.update(root.as_os_str().as_bytes()).update(&[0]);
        }
        let name = hasher.finalize().to_hex();
        self.state.join("grants").join(format!("{}.toml", name.get(..16).unwrap_or(&name)))
    }

    /// Returns the stored rules with their origins.
    pub fn rules(&self) -> Result<Vec<Rule>, ConfigError> {
        let path = self.path();
        let fail = |error: &dyn std::fmt::Display| {
            ConfigError(format!(
                "{}: {}; it keeps the answers for always, and may be removed",
                path.display(),
                error.to_string().trim_end()
            ))
        };
        let text = match files::read(&path) {
            Ok(text) => text,
            Err(error) if files::is_absent(&error) => return Ok(Vec::new()),
            Err(error) => return Err(fail(&error)),
        };
        let written: GrantsFile = toml_edit::de::from_str(&text).map_err(|error| fail(&error))?;
        let mut rules = rules::read_answers(&written.rules).map_err(|error| fail(&error))?;
        for (rule, line) in rules.iter_mut().zip(lines::lines_of_rules(&text)) {
            let place = format!("{}:{line}", path.display());
            rule.origin = RuleOrigin { layer: Layer::User, place };
        }
        Ok(rules)
    }

    fn add(&self, rules: &[Rule]) -> io::Result<()> {
        StateDir::open(&self.state)?;
        let path = self.path();
        let dir = path.parent().unwrap_or(&self.state);
        fs::create_dir_all(dir)?;
        // Several processes may write at once.
        let lock = File::open(dir)?;
        flock(&lock, FlockOperation::LockExclusive)?;
        let text = match files::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error),
        };
        let mut written: GrantsFile = toml_edit::de::from_str(&text).map_err(io::Error::other)?;
        for rule in rules {
            let rule = options_of(rule);
            if !written.rules.contains(&rule) {
                written.rules.push(rule);
            }
        }
        let body = toml_edit::ser::to_string_pretty(&written).map_err(io::Error::other)?;
        let roots: Vec<String> = self.roots.iter().map(|root| root.display().to_string()).collect();
        let text = format!(
            "# Calls that are always allowed in {}; remove a table to be asked again.\n\n{body}",
            roots.join(", ").escape_debug()
        );
        files::write_private(&path, &text)
    }
}

/// Returns a granted rule as text, for a session that can be resumed.
pub fn grant_text(rule: &Rule) -> Option<String> {
    serde_json::to_string(&options_of(rule)).ok()
}

/// Reads the text of [`grant_text`].
pub fn granted_rule(text: &str) -> Result<Rule, ConfigError> {
    let fail =
        |error: &dyn std::fmt::Display| ConfigError(format!("a grant of the session: {error}"));
    let written: RuleOptions = serde_json::from_str(text).map_err(|error| fail(&error))?;
    let rule = rules::read_answers(&[written]).map_err(|error| fail(&error))?.pop();
    let mut rule = rule.ok_or_else(|| fail(&"it is empty"))?;
    rule.origin = RuleOrigin { layer: Layer::Session, place: String::from("an answer") };
    Ok(rule)
}

impl GrantStore for Grants {
    fn keep(&self, rules: &[Rule]) -> Result<(), ToolError> {
        self.add(rules).map_err(|error| {
            ToolError::new(
                Kind::Unavailable,
                "the answer for always could not be stored, so the call did not run",
            )
            .hint(
                "answer for this call or this session; `sinew doctor` looks at the state directory",
            )
            .source(error)
        })
    }
}

fn options_of(rule: &Rule) -> RuleOptions {
    let list = |names: &[String]| (!names.is_empty()).then(|| names.to_vec());
    let when = &rule.when;
    let (mut paths, mut command, mut hosts) = (None, None, None);
    match &when.object {
        Object::Call => {}
        Object::Paths(globs) => paths = list(globs.written()),
        Object::Command(pattern) => command = Some(pattern.to_string()),
        Object::Unsandboxed(UnsandboxedCommand { text, cwd }) => {
            command = Some(text.clone());
            paths = list(&[cwd.display().to_string()]);
        }
        Object::Hosts(patterns) => {
            let written: Vec<String> = patterns.iter().map(HostPattern::to_string).collect();
            hosts = list(&written);
        }
    }
    RuleOptions {
        verdict: rule.verdict.as_str().to_owned(),
        tools: list(&when.tools),
        effects: when
            .effects
            .map(|effects: Effects| effects.names().into_iter().map(str::to_owned).collect()),
        agents: list(&when.agents),
        paths,
        command,
        hosts,
        needs: list(&when.needs.iter().map(ToString::to_string).collect::<Vec<_>>()),
        ..RuleOptions::default()
    }
}

#[cfg(test)]
mod tests {
    use sinew_guard::{CommandPattern, Condition, Paths};
    use sinew_tool::{Need, Verdict};

    use super::*;

    fn rule(object: Object, tools: &[&str]) -> Rule {
        let tools = tools.iter().map(ToString::to_string).collect();
        let origin = RuleOrigin { layer: Layer::Session, place: String::from("an answer") };
        let when = Condition { tools, object, ..Condition::default() };
        Rule::new(Verdict::Allow, when, origin).of_answer()
    }

    #[test]
    fn what_is_kept_is_there_for_its_roots_and_no_others() {
        let dir = tempfile::tempdir().expect("a directory");
        let [root, other] = ["a \"[1]", "b"].map(|name| dir.path().join(name));
        [&root, &other].into_iter().for_each(|root| fs::create_dir(root).expect("a directory"));
        let state = dir.path().join("state");
        let of = |roots: &[&PathBuf]| {
            Grants::of(&state, &roots.iter().map(|root| (*root).clone()).collect::<Vec<_>>())
        };
        let grants = of(&[&root]);
        assert!(grants.rules().expect("no file").is_empty());
        let command = CommandPattern::parse("git commit *").expect("a pattern");
        let file = Paths::of(&root.join("x [y]*.md")).expect("a path");
        let mut out = rule(
            Object::Unsandboxed(UnsandboxedCommand {
                text: String::from("./x \"a\" *"),
                cwd: root.join("sub"),
            }),
            &[],
        );
        out.when.needs = vec![Need::Network, Need::Unsandboxed];
        out.when.agents = vec![String::from("one")];
        let text = grant_text(&out).expect("a text");
        assert_eq!(granted_rule(&text).expect("a rule"), out);
        let rules = [
            rule(Object::Command(command), &[]),
            rule(Object::Paths(file), &["Write"]),
            out.clone(),
        ];
        grants.keep(&rules).expect("it is kept");
        grants.keep(&rules).expect("it is kept");
        let found = grants.rules().expect("rules");
        let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(shown.len(), 3, "{shown:?}");
        assert_eq!(found.last().map(|rule| &rule.when), Some(&out.when));
        assert_eq!(shown.first().map(String::as_str), Some("git commit *"));
        assert!(found.iter().all(|rule| rule.origin.layer == Layer::User));
        let lines: Vec<_> = found.iter().map(|rule| rule.origin.place.clone()).collect();
        assert!(lines.iter().all(|place| place.contains(".toml:")), "{lines:?}");
        for roots in [&[&other] as &[_], &[&root, &other], &[&other, &root]] {
            assert!(of(roots).rules().expect("no file").is_empty(), "{roots:?}");
        }
        // A broken file is an error with its place, and the next answer overwrites nothing.
        for (rule, words) in [
            ("verdict = \"x\"", ".toml: `rules[0].verdict`"),
            (
                "verdict = \"allow\"\ncommand = \"x\"\nneeds = [\"unsandboxed\"]",
                ".toml: `rules[0].needs` cannot hold `unsandboxed`",
            ),
        ] {
            fs::write(grants.path(), format!("[[rules]]\n{rule}\n")).expect("a file");
            let error = grants.rules().expect_err("a broken file").to_string();
            assert!(error.contains(words), "{error}");
        }
        fs::write(grants.path(), "[[rules]\n").expect("a file");
        assert!(grants.keep(&rules).is_err());
        assert_eq!(fs::read_to_string(grants.path()).expect("a file"), "[[rules]\n");
    }
}
