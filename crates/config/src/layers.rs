//! Reads and merges the configuration layers, and records the origin of each value.
pub(super) mod arguments;
mod floor;
mod keys;
mod tighten;
mod unknown_keys;

use std::cell::LazyCell;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};
use sinew_guard::{Layer, Rule, RuleOrigin};

use self::tighten::tightened;
use super::files::{PROJECT_DIR, PROJECT_FILE, is_absent, is_lost, read, read_beneath};
use super::lines::{RULES, lines_of_keys, placed};
use super::{ConfigError, Options, hooks, rules, serve};

/// The origin of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The built-in defaults.
    Default,
    /// A file, the line if known, and the layer.
    File(PathBuf, Option<usize>, Layer),
    /// An environment variable.
    Variable(&'static str),
    /// A flag.
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path, None, _) => write!(f, "{}", path.display()),
            Self::File(path, Some(line), _) => write!(f, "{}:{line}", path.display()),
            Self::Variable(name) => write!(f, "variable {name}"),
            Self::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

impl Origin {
    /// Returns the layer.
    pub fn layer(&self) -> Layer {
        match self {
            Self::Default => Layer::BuiltIn,
            Self::File(_, _, layer) => *layer,
            Self::Variable(_) | Self::Flag(_) => Layer::Session,
        }
    }

    /// Returns the origin in the form that rules carry.
    pub fn of_rule(&self) -> RuleOrigin {
        RuleOrigin { layer: self.layer(), place: self.to_string() }
    }
}

/// The merged configuration.
#[derive(Debug, Clone, Default)]
pub struct Layers {
    values: BTreeMap<String, (Value, Origin)>,
    /// The values after the system's file, before later layers.
    of_system: BTreeMap<String, (Value, Origin)>,
    /// The origin of each rule.
    rules: Vec<Origin>,
    lists: Vec<ToolList>,
    pub(super) hooks: hooks::Gathered,
    /// The project that the user trusts to bring programs that run.
    pub(super) trusted_project: Option<PathBuf>,
    pub(super) warnings: Vec<String>,
    pub(super) left_out: Vec<LeftOut>,
    /// The unknown keys of JSON files.
    unknown: Vec<unknown_keys::UnknownKeys>,
    /// The current directory, if the arguments may come from a repository.
    held: Option<PathBuf>,
    /// The home directories that the roots in such arguments may not contain.
    homes: Vec<PathBuf>,
}

/// A value that was dropped because its layer can only tighten.
#[derive(Debug, Clone, PartialEq)]
pub struct LeftOut {
    /// The key.
    pub key: String,
    /// The value; of a list only the dropped elements.
    pub value: Value,
    /// The origin.
    pub origin: Origin,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, value, .. } = self;
        // The index of a rule says nothing about its effect.
        write!(f, "{}={value}", key.split('[').next().unwrap_or(key))
    }
}

/// The `tools.policy` list of one layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolList {
    /// Whether it is a deny list; otherwise it is an allow list.
    pub denies: bool,
    /// The names, in which `*` matches any run of characters.
    pub names: Vec<String>,
    /// The origin.
    pub origin: Origin,
}

/// The merged configuration as options, with warnings and dropped values.
#[derive(Debug, Clone)]
pub struct Layered {
    /// The merged options.
    pub options: Options,
    /// Each value and its origin, by key.
    pub origins: BTreeMap<String, (Value, Origin)>,
    /// The origin of each rule.
    pub rules: Vec<Origin>,
    /// The `tools.policy` lists of all layers.
    pub lists: Vec<ToolList>,
    /// The origin of each hook.
    pub hooks: Vec<Origin>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
    /// The dropped values of layers that can only tighten.
    pub left_out: Vec<LeftOut>,
    /// The trusted project: the first root, ignoring the project's own file.
    pub trusted_project: Option<PathBuf>,
    /// Whether the system's file forbids trusting projects and arguments.
    pub keeps_from_trusting: bool,
    /// Whether the system's file forbids allow rules and permanent approvals of other layers.
    pub keeps_from_allowing: bool,
}

impl Layered {
    /// Returns the dropped values of this process's arguments and variables.
    pub fn unconfirmed(&self) -> impl Iterator<Item = &LeftOut> {
        self.left_out.iter().filter(|left| left.origin.layer() == Layer::Session)
    }

    /// Prefixes an error with the origin of the key that it names.
    pub fn located(&self, error: ConfigError) -> ConfigError {
        let named = |key: &&String| error.0.contains(&format!("`{key}"));
        let longest = self.origins.keys().filter(named).max_by_key(|key| key.len());
        match longest.and_then(|key| self.origins.get(key)) {
            Some((_, origin)) => ConfigError(format!("{origin}: {error}")),
            None => error,
        }
    }

    /// Adds a warning for each policy name that matches no tool: a rule with a typo restricts nothing.
    pub fn warn_of_unknown_tools(&mut self) {
        let known = LazyCell::new(sinew_dialects::names);
        let absent = self.options.absent.clone().unwrap_or_default();
        let is_known = |pattern: &str| {
            absent.iter().any(|name| name == pattern)
                || known.iter().any(|name| sinew_tool::tool_matches(pattern, name))
        };
        let mut warn = |origin: &Origin, key: &str, names: &[String]| {
            for pattern in names.iter().filter(|pattern| !is_known(pattern)) {
                self.warnings.push(format!("{origin}: {}", unknown(key, pattern)));
            }
        };
        for list in &self.lists {
            let key = if list.denies { DENIED } else { ALLOWED };
            warn(&list.origin, key, &list.names);
        }
        let rules = self.options.rules.as_deref().unwrap_or_default();
        for (at, (rule, origin)) in rules.iter().zip(&self.rules).enumerate() {
            let but = rule.unless.iter().flat_map(|but| but.tools.as_deref());
            for names in rule.tools.as_deref().into_iter().chain(but) {
                warn(origin, &format!("{RULES}[{at}].tools"), names);
            }
        }
    }

    /// Returns the validated rules of every layer.
    pub fn all_rules(&self) -> Result<Vec<Arc<Rule>>, ConfigError> {
        Ok(rules::of_layers(self)?.into_iter().map(Arc::new).collect())
    }

    /// Checks `serve` for words that match no tool: an error if a flag set them, else a warning.
    pub fn check_served(&mut self) -> Result<(), ConfigError> {
        let Some((value, origin)) = self.origins.get("serve") else { return Ok(()) };
        for word in words(value).into_iter().filter(|word| !serve::is_known(word)) {
            let problem = format!("{origin}: {}", unknown("serve", word));
            match origin {
                Origin::Flag(_) => return Err(ConfigError(problem)),
                _ => self.warnings.push(problem),
            }
        }
        Ok(())
    }
}

/// Returns the message for an unknown tool name, with a suggestion.
fn unknown(key: &str, word: &str) -> String {
    let known = sinew_dialects::names();
    let nearest = sinew_runtime::nearest(word, known.iter().map(String::as_str));
    let meant = if nearest.is_empty() {
        format!("known: {}", known.iter().cloned().collect::<Vec<_>>().join(", "))
    } else {
        format!("did you mean: {}", nearest.join(", "))
    };
    format!("`{key}` names no tool: `{word}`; {meant}")
}

/// The path of the system's configuration.
pub const SYSTEM_FILE: &str = "/etc/sinew/config.toml";
/// The names of the file and of the hooks directory in the user's configuration directory.
const USER_FILE: &str = "config.toml";
const HOOKS_DIR: &str = "hooks";
const DENIED: &str = "tools.policy.deny";
const ALLOWED: &str = "tools.policy.allow";
/// The key that lets arguments and variables loosen.
const TRUST_ARGUMENTS: &str = "mcp.trust_arguments";
/// The floor key that forbids trusting.
const MANAGED_TRUST: &str = "managed.trust";
/// The prefix of the floor keys.
const MANAGED: &str = "managed.";

impl Layers {
    /// Returns the built-in defaults. Keys without one have a default that depends on the dialect or on where sinew
    /// runs. They are JSON, which is read ten times as fast as TOML.
    pub fn with_defaults() -> Result<Self, ConfigError> {
        let mut layers = Self::default();
        let tree: Value = serde_json::from_str(include_str!("default.json"))
            .map_err(|error| ConfigError(format!("default.json: {error}")))?;
        let source = Source { layer: Layer::BuiltIn, restriction: Restriction::None };
        layers.add_tree(tree, &|_| Origin::Default, source);
        Ok(layers)
    }

    /// Adds a file that may loosen: the system's, the user's or a `--config` file. A missing one is an error
    /// if `required`.
    pub fn add_file(
        &mut self,
        path: &Path,
        layer: Layer,
        required: bool,
    ) -> Result<(), ConfigError> {
        let source = self.source(layer);
        self.add_read(path, read(path), required, source)?;
        if layer == Layer::System {
            self.of_system.clone_from(&self.values);
        }
        Ok(())
    }

    /// Adds a user configuration directory: its file and its hook folders.
    pub fn add_user_dir(&mut self, dir: &Path) -> Result<(), ConfigError> {
        self.add_file(&dir.join(USER_FILE), Layer::User, false)?;
        self.add_hook_folders(&dir.join(HOOKS_DIR))
    }

    /// Adds the text of a `--config` file.
    pub fn add_named(&mut self, path: &Path, text: String) -> Result<(), ConfigError> {
        self.add_read(path, Ok(text), true, self.source(Layer::Session))
    }

    /// Makes arguments and variables only tighten from here on, because they may come from a repository.
    ///
    /// The user's or the system's file can trust them. A home directory or its ancestor never becomes a root.
    pub fn hold_arguments(&mut self, current: &Path, homes: Vec<PathBuf>) {
        let trusts = self.values.get(TRUST_ARGUMENTS);
        let trusts = trusts.is_some_and(|(value, origin)| {
            *value == Value::Bool(true) && (self.may_trust() || origin.layer() == Layer::System)
        });
        self.held = (!trusts).then(|| current.to_owned());
        self.homes = homes;
    }

    /// Returns whether the system's file lets the user trust projects and arguments.
    pub fn may_trust(&self) -> bool {
        self.values.get(MANAGED_TRUST).is_none_or(|(value, _)| *value != Value::Bool(false))
    }

    /// Adds a warning.
    pub fn warn(&mut self, warning: String) {
        self.warnings.push(warning);
    }

    fn source(&self, layer: Layer) -> Source {
        let restriction = match layer {
            Layer::Session if self.held.is_some() => Restriction::Arguments,
            _ => Restriction::None,
        };
        Source { layer, restriction }
    }

    /// Adds the project's `.sinew/config.toml`. It can only tighten, and is not read through a symlink.
    pub fn add_project_file(&mut self, project: &Path) -> Result<(), ConfigError> {
        let path = project.join(PROJECT_DIR).join(PROJECT_FILE);
        let source = Source { layer: Layer::Project, restriction: Restriction::ProjectFile };
        self.add_read(&path, read_beneath(project), false, source)
    }

    /// Lets the project bring programs that run, since the user has reviewed them.
    pub fn trust_project(&mut self, project: &Path) {
        self.trusted_project = Some(project.to_owned());
    }

    /// Adds the text of a trusted project's file, which counts like the user's own.
    pub fn add_trusted_project(&mut self, project: &Path, text: String) -> Result<(), ConfigError> {
        let path = project.join(PROJECT_DIR).join(PROJECT_FILE);
        self.add_read(&path, Ok(text), true, self.source(Layer::Project))
    }

    /// Adds one value from a flag or a variable.
    pub fn set(&mut self, key: &str, value: Value, origin: Origin) {
        let source = self.source(origin.layer());
        if let Some(hooks) = hooks::under(key, &value) {
            match source.restriction {
                Restriction::None => self.hooks.set(hooks, &origin),
                Restriction::ProjectFile | Restriction::Arguments => {
                    self.leave_out(key.to_owned(), value, origin, source.restriction);
                }
            }
            return;
        }
        self.add_one(key, value, &|_| origin.clone(), source);
    }

    /// Adds one value, or returns an error for an unknown key or an invalid value.
    fn set_checked(&mut self, key: &str, value: Value, origin: Origin) -> Result<(), ConfigError> {
        let mut tree = Map::new();
        insert(&mut tree, key, value.clone());
        check(Value::Object(tree))
            .map_err(|error| ConfigError(format!("{origin}: `{key}`: {error}")))?;
        let mut flat = Vec::new();
        flatten(key, value, &mut flat);
        for (key, value) in flat {
            self.set(&key, value, origin.clone());
        }
        Ok(())
    }

    /// Adds a `--set` argument `key=value`; a value that is not TOML is a string.
    pub fn set_written(&mut self, written: &str, origin: Origin) -> Result<(), ConfigError> {
        let (key, value) = written.split_once('=').ok_or_else(|| {
            ConfigError(format!("{origin}: write it as key=value, not `{written}`"))
        })?;
        let toml = format!("value = {value}\n");
        let value = toml_edit::de::from_str::<Map<String, Value>>(&toml)
            .ok()
            .and_then(|mut table| table.remove("value"))
            .unwrap_or_else(|| Value::from(value));
        self.set_checked(key.trim(), value, origin)
    }

    /// Returns the merged and validated configuration.
    pub fn merge(mut self) -> Result<Layered, ConfigError> {
        unknown_keys::settle(&mut self)?;
        let keeps_from_allowing = floor::hold(&mut self)?;
        let mut origins = Vec::new();
        if let Some((all, of_all)) = std::mem::take(&mut self.hooks).merged() {
            let first = of_all.first().cloned().unwrap_or(Origin::Default);
            self.values.insert(hooks::KEY.to_owned(), (all, first));
            origins = of_all;
        }
        let mut tree = Map::new();
        for (key, (value, _)) in &self.values {
            insert(&mut tree, key, value.clone());
        }
        let options = serde_json::from_value(Value::Object(tree))
            .map_err(|error| ConfigError(error.to_string()))?;
        let keeps_from_trusting = !self.may_trust();
        let Self { values, rules, lists, warnings, left_out, trusted_project, .. } = self;
        Ok(Layered {
            options,
            origins: values,
            rules,
            lists,
            hooks: origins,
            warnings,
            left_out,
            trusted_project,
            keeps_from_trusting,
            keeps_from_allowing,
        })
    }

    fn add_read(
        &mut self,
        path: &Path,
        read: io::Result<String>,
        required: bool,
        source: Source,
    ) -> Result<(), ConfigError> {
        let text = match read {
            Ok(text) => text,
            Err(error) if is_absent(&error) && !required && !is_lost(path) => return Ok(()),
            Err(error) => return Err(ConfigError(format!("{}: {error}", path.display()))),
        };
        if path.extension().is_some_and(|extension| extension == "json") {
            let mut tree: Value = serde_json::from_str(&text)
                .map_err(|error| ConfigError(format!("{}: {error}", path.display())))?;
            let fail =
                |error: &dyn fmt::Display| ConfigError(format!("{}: {error}", path.display()));
            let whole = tree.clone();
            let keys = unknown_keys::take(&mut tree);
            let options: Options =
                serde_json::from_value(tree.clone()).map_err(|error| fail(&error))?;
            check_rules(&options).map_err(|error| fail(&error))?;
            hooks::check(&tree).map_err(|error| fail(&error))?;
            let origin = Origin::File(path.to_path_buf(), None, source.layer);
            if !keys.is_empty()
                && let Err(error) = serde_json::from_value::<Options>(whole)
            {
                let unknown = unknown_keys::UnknownKeys::new(keys, origin.clone(), fail(&error));
                self.unknown.push(unknown);
            }
            self.add_tree(tree, &|_| origin.clone(), source);
            return Ok(());
        }
        let file = path.to_path_buf();
        self.add_toml(&text, path, |line| Origin::File(file.clone(), line, source.layer), source)
    }

    fn add_toml(
        &mut self,
        text: &str,
        path: &Path,
        origin: impl Fn(Option<usize>) -> Origin,
        source: Source,
    ) -> Result<(), ConfigError> {
        let fail = |error: &dyn fmt::Display| {
            ConfigError(format!("{}: {}", path.display(), error.to_string().trim_end()))
        };
        let options = toml_edit::de::from_str::<Options>(text).map_err(|error| fail(&error))?;
        check_rules(&options).map_err(|error| placed(path, text, error))?;
        let tree: Value = toml_edit::de::from_str(text).map_err(|error| fail(&error))?;
        let lines = lines_of_keys(text);
        hooks::check(&tree).map_err(|error| {
            let line = hooks::key_in(&error).and_then(|key| lines.get(key));
            let at = line.map(|line| format!(":{line}:1")).unwrap_or_default();
            ConfigError(format!("{}{at}: {error}", path.display()))
        })?;
        self.add_tree(tree, &|key| origin(lines.get(key).copied()), source);
        Ok(())
    }

    fn add_tree(&mut self, mut tree: Value, origin: &dyn Fn(&str) -> Origin, source: Source) {
        let is_trusted = source.restriction == Restriction::None
            || (source.layer == Layer::Project && self.trusted_project.is_some());
        if let Some(hooks) = tree.get(hooks::KEY).filter(|_| !is_trusted) {
            let (value, origin) = (hooks.clone(), origin(hooks::KEY));
            self.left_out.push(LeftOut { key: hooks::KEY.to_owned(), value, origin });
        }
        let left_out = self.hooks.add(&mut tree, origin, is_trusted);
        if source.restriction != Restriction::Arguments {
            self.warnings.extend(left_out);
        }
        let mut flat = Vec::new();
        flatten("", tree, &mut flat);
        for (key, value) in flat {
            self.add_one(&key, value, origin, source);
        }
    }

    fn add_one(
        &mut self,
        key: &str,
        value: Value,
        origin: &dyn Fn(&str) -> Origin,
        source: Source,
    ) {
        let from = origin(key);
        if key == RULES {
            return self.add_rules(value, origin, source.restriction);
        }
        if key.starts_with(MANAGED) && source.layer != Layer::System {
            return self.warnings.push(format!(
                "{from}: `{key}` is left out, because only the system's file, {SYSTEM_FILE}, can hold a \
                 floor"
            ));
        }
        if key == TRUST_ARGUMENTS && ![Layer::System, Layer::User].contains(&source.layer) {
            return self.warnings.push(format!(
                "{from}: `{key}` is left out, because only your own configuration and {SYSTEM_FILE} can \
                 say so"
            ));
        }
        if [DENIED, ALLOWED].contains(&key) {
            let names: Vec<String> = words(&value).into_iter().map(str::to_owned).collect();
            if !names.is_empty() {
                let origin = from.clone();
                self.lists.push(ToolList { denies: key == DENIED, names, origin });
            }
        }
        let old = self.values.get(key).map(|(old, _)| old);
        let value = match (key, source.restriction) {
            _ if ADDED.contains(&key) => Some(added(old, value)),
            // It joins the lists; the value shown stays the user's.
            (ALLOWED, Restriction::ProjectFile | Restriction::Arguments)
                if old.is_some_and(|old| !words(old).is_empty()) =>
            {
                return;
            }
            (_, Restriction::None) => Some(value),
            (_, Restriction::ProjectFile) => match tightened(key, old, value.clone()) {
                None => return self.leave_out(key.to_owned(), value, from, source.restriction),
                taken => taken,
            },
            (_, Restriction::Arguments) => {
                let (taken, left) = self.argued(key, value);
                if let Some(left) = left {
                    self.leave_out(key.to_owned(), left, from.clone(), source.restriction);
                }
                taken
            }
        };
        if let Some(value) = value {
            self.values.insert(key.to_owned(), (value, from));
        }
    }

    /// Drops a value that would loosen, with a warning and, if known, what to do.
    fn leave_out(&mut self, key: String, value: Value, origin: Origin, restriction: Restriction) {
        let is_rule = key.starts_with(RULES);
        if restriction == Restriction::ProjectFile {
            let why = if is_rule { "cannot allow calls" } else { "can only tighten" };
            let trust = if self.may_trust() { ", or look at it with `sinew trust`" } else { "" };
            self.warnings.push(format!(
                "{origin}: `{key}` is left out, because a project's own file {why}; put it into your own \
                 configuration if you want it{trust}"
            ));
        }
        self.left_out.push(LeftOut { key, value, origin });
    }

    /// Appends rules. The strongest verdict counts, so no layer removes one. Drops a project's allow rules.
    fn add_rules(
        &mut self,
        value: Value,
        origin: &dyn Fn(&str) -> Origin,
        restriction: Restriction,
    ) {
        let Value::Array(written) = value else { return };
        let (old, mut origins) = (self.values.get(RULES), self.rules.clone());
        let mut all = old.and_then(|(old, _)| old.as_array().cloned()).unwrap_or_default();
        for (at, rule) in written.into_iter().enumerate() {
            let key = format!("{RULES}[{at}]");
            let from = origin(&key);
            let allows = rule.get("verdict").and_then(Value::as_str) == Some("allow");
            if restriction != Restriction::None && allows {
                self.leave_out(key, rule, from, restriction);
                continue;
            }
            all.push(rule);
            origins.push(from);
        }
        if restriction == Restriction::None || !all.is_empty() {
            self.values.insert(RULES.to_owned(), (Value::Array(all), origin(RULES)));
            self.rules = origins;
        }
    }
}

/// Deny lists, to which every layer appends.
const ADDED: [&str; 2] = ["tools.fs.deny_paths", DENIED];

fn added(old: Option<&Value>, new: Value) -> Value {
    let mut all = old.and_then(Value::as_array).cloned().unwrap_or_default();
    let new = new.as_array().into_iter().flatten().filter(|one| !all.contains(one));
    let new: Vec<Value> = new.cloned().collect();
    all.extend(new);
    Value::Array(all)
}

fn check_rules(options: &Options) -> Result<(), ConfigError> {
    rules::read(options.rules.as_deref().unwrap_or_default()).map(|_| ())
}

#[derive(Debug, Clone, Copy)]
struct Source {
    layer: Layer,
    restriction: Restriction,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Restriction {
    None,
    /// A project's file.
    ProjectFile,
    /// A client's start line, which may come from a repository.
    Arguments,
}

fn words(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn check(tree: Value) -> Result<(), serde_json::Error> {
    serde_json::from_value::<Options>(tree).map(|_| ())
}

fn flatten(prefix: &str, tree: Value, flat: &mut Vec<(String, Value)>) {
    match tree {
        Value::Object(table) => {
            for (name, value) in table {
                let key = if prefix.is_empty() { name } else { format!("{prefix}.{name}") };
                flatten(&key, value, flat);
            }
        }
        value => flat.push((prefix.to_owned(), value)),
    }
}

fn insert(tree: &mut Map<String, Value>, key: &str, value: Value) {
    match key.split_once('.') {
        None => {
            tree.insert(key.to_owned(), value);
        }
        Some((table, rest)) => {
            let inner = tree.entry(table).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(inner) = inner {
                insert(inner, rest, value);
            }
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the tests lay out files")]
mod tests {
    use std::fs;

    use proptest::prelude::*;
    use rustix::fs::{FileType, Mode};
    use serde_json::json;

    use super::*;

    fn project(text: &str) -> (Value, Vec<String>) {
        let dir = tempfile::tempdir().expect("a directory");
        fs::create_dir(dir.path().join(".sinew")).expect("a directory");
        fs::write(dir.path().join(".sinew/config.toml"), text).expect("a file");
        let mut layers = Layers::with_defaults().expect("defaults");
        layers.set_written("tools.fs.deny_paths=[\"/a\"]", Origin::Default).expect("a value");
        layers.add_project_file(dir.path()).expect("a file that can be read");
        let layered = layers.merge().expect("it merges");
        let warnings = layered.warnings.iter().map(|warning| {
            let start = warning.find('`').map_or(0, |at| at + 1);
            warning[start..].split('`').next().unwrap_or_default().to_owned()
        });
        let warnings = warnings.collect();
        (serde_json::to_value(layered.options).expect("a tree"), warnings)
    }

    #[track_caller]
    fn check_project(text: &str, pointer: &str, value: Value, left_out: &[&str]) {
        let (tree, warnings) = project(text);
        assert_eq!(tree.pointer(pointer).cloned().unwrap_or_default(), value, "{text}");
        assert_eq!(warnings, left_out, "{text}");
    }

    #[test]
    fn a_project_can_only_tighten() {
        check_project("read_only = true", "/read_only", json!(true), &[]);
        check_project("approvals = \"deny\"", "/approvals", json!("deny"), &[]);
        check_project("approvals = \"allow\"", "/approvals", json!("auto"), &["approvals"]);
        check_project("roots = [\"/\"]", "/roots", Value::Null, &["roots"]);
        let limit = "/files/glob_limit";
        check_project("[files]\nglob_limit = 9999", limit, Value::Null, &["files.glob_limit"]);
        check_project("[files]\nglob_limit = 50", limit, json!(50), &[]);
        check_project("[files]\nsync = \"full\"", "/files/sync", json!("full"), &[]);
        check_project(
            "[tools.fs]\ndeny_paths = [\"/b\"]",
            "/tools/fs/deny_paths",
            json!(["/a", "/b"]),
            &[],
        );
        check_project(
            "[ledger]\nmode = \"off\"",
            "/ledger/mode",
            json!("sqlite"),
            &["ledger.mode"],
        );
        check_project(
            "[files]\nhard_links = \"in_place\"",
            "/files/hard_links",
            json!("refuse"),
            &["files.hard_links"],
        );
        check_project("dialect = \"moltis\"", "/dialect", json!("native"), &["dialect"]);
        check_project("dialect = \"native\"", "/dialect", json!("native"), &[]);
        check_project("serve = [\"all\"]", "/serve", Value::Null, &["serve"]);
        check_project("serve = [\"read\"]", "/serve", json!(["read"]), &[]);
        let tokens = "/tools/fs/context_window_tokens";
        for (written, taken) in [(327_681, None), (327_680, Some(327_680)), (1_000, Some(1_000))] {
            let left_out = taken.map_or(&["tools.fs.context_window_tokens"][..], |_| &[]);
            let text = format!("[tools.fs]\ncontext_window_tokens = {written}");
            check_project(&text, tokens, json!(taken), left_out);
        }
        check_project(
            "[tools.fs]\nbinary_policy = \"base64\"",
            "/tools/fs/binary_policy",
            json!("reject"),
            &["tools.fs.binary_policy"],
        );
        check_project(
            "[tools.policy]\nallow = [\"Read\"]",
            "/tools/policy/allow",
            json!(["Read"]),
            &[],
        );
        let rule = |verdict: &str, command: &str| {
            format!("[[rules]]\nverdict = \"{verdict}\"\ncommand = \"{command}\"\n")
        };
        check_project(
            &[rule("deny", "a"), rule("allow", "b"), rule("ask", "c")].concat(),
            "/rules",
            json!([{"verdict": "deny", "command": "a"}, {"verdict": "ask", "command": "c"}]),
            &["rules[1]"],
        );
        check_project(&rule("allow", "*"), "/rules", Value::Null, &["rules[0]"]);
    }

    #[test]
    fn a_project_adds_rules_to_those_of_others() {
        let dir = tempfile::tempdir().expect("a directory");
        let own = dir.path().join("own.toml");
        let rule = |verdict: &str, command: &str| {
            format!("[[rules]]\nverdict = \"{verdict}\"\ncommand = \"{command}\"\n")
        };
        let write = |file: &Path, text: &str| fs::write(file, text).expect("a file");
        write(&own, &[rule("allow", "a"), rule("deny", "b")].concat());
        fs::create_dir(dir.path().join(".sinew")).expect("a directory");
        write(&dir.path().join(".sinew/config.toml"), &rule("deny", "c"));
        let mut layers = Layers::with_defaults().expect("defaults");
        layers.add_file(&own, Layer::User, true).expect("it reads");
        layers.add_project_file(dir.path()).expect("it reads");
        let layered = layers.merge().expect("it merges");
        let rules = layered.options.rules.expect("rules");
        let found = rules.iter().zip(&layered.rules).map(|(rule, origin)| {
            let origin = origin.to_string();
            (
                rule.command.clone().unwrap_or_default(),
                origin.replace(&dir.path().display().to_string(), ""),
            )
        });
        let expected = [("a", "/own.toml:1"), ("b", "/own.toml:4"), ("c", "/.sinew/config.toml:1")];
        let expected = expected.map(|(command, origin)| (command.to_owned(), origin.to_owned()));
        assert_eq!(found.collect::<Vec<_>>(), expected);
        write(&own, &[rule("ask", "x"), rule("never", "y")].concat());
        let error = Layers::default()
            .add_file(&own, Layer::User, true)
            .expect_err("no verdict")
            .to_string();
        assert!(error.contains("own.toml:5:11: `rules[1].verdict`"), "{error}");
        for (text, at) in [
            ("rules = [{ verdict = \"deny\", command = \"a\" },\n  { verdict = \"x\" }]", "2:15"),
            ("[[rules]]\nverdict = \"deny\"\ntools = []", "3:9"),
            ("[[rules]]\nverdict = \"deny\"\neffects = [\"x\"]", "3:11"),
            ("[[rules]]\nverdict = \"deny\"\nhosts = [\"a b\"]", "3:9"),
            ("[[rules]]\nverdict = \"deny\"\nunless = [\n  { tools = [] },\n]", "4:13"),
            ("[[rules]]\nverdict = \"allow\"", "1:1"),
        ] {
            write(&own, text);
            let error = Layers::default().add_file(&own, Layer::User, true);
            let error = error.expect_err("no rule").to_string();
            assert!(error.contains(&format!("own.toml:{at}: `rules[")), "{text}: {error}");
        }
        write(&own, "rules = [\n  { verdict = \"deny\", command = \"a\" },\n]");
        let mut layers = Layers::default();
        layers.add_file(&own, Layer::User, true).expect("it reads");
        let place = layers.merge().expect("it merges").rules.first().map(ToString::to_string);
        assert!(place.is_some_and(|place| place.ends_with("own.toml:2")), "an inline rule");
    }

    fn added(lay_out: impl Fn(&Path, &Path)) -> Result<Layered, String> {
        let dir = tempfile::tempdir().expect("a directory");
        let (project, other) = (dir.path().join("project"), dir.path().join("other"));
        fs::create_dir_all(project.join(".sinew")).expect("a directory");
        fs::create_dir(&other).expect("a directory");
        fs::write(other.join("config.toml"), "secret words\n").expect("a file");
        lay_out(&project, &other);
        let mut layers = Layers::with_defaults().expect("defaults");
        layers.add_project_file(&project).map_err(|error| error.to_string())?;
        Ok(layers.merge().expect("it merges"))
    }

    /// The error of a symlinked configuration would reveal the first line of the target.
    #[test]
    fn a_project_cannot_link_to_another_file() {
        let link = |to: &Path, at: PathBuf| std::os::unix::fs::symlink(to, at).expect("a link");
        let file = |project: &Path| project.join(".sinew/config.toml");
        let outside = added(|project, other| link(&other.join("config.toml"), file(project)));
        let inside = added(|project, _| link(&project.join("x.toml"), file(project)));
        let folder = added(|project, other| {
            fs::remove_dir(project.join(".sinew")).expect("it goes");
            link(other, project.join(".sinew"));
        });
        for refused in [outside, inside, folder] {
            let error = refused.expect_err("a link");
            assert!(error.contains("may not be reached by a link"), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_project_without_a_file_has_none_and_an_odd_one_does_not_block() {
        assert!(added(|_, _| ()).is_ok(), "no file");
        let no_folder = |project: &Path, _: &Path| {
            fs::remove_dir(project.join(".sinew")).expect("it goes");
            fs::write(project.join(".sinew"), "").expect("a file");
        };
        assert!(added(no_folder).is_ok(), "a file in place of the directory");
        let fifo = |project: &Path, _: &Path| {
            let path = project.join(".sinew/config.toml");
            let mode = Mode::from_raw_mode(0o600);
            rustix::fs::mknodat(rustix::fs::CWD, path, FileType::Fifo, mode, 0).expect("a FIFO");
        };
        assert!(added(fifo).expect_err("a FIFO").contains("not a regular file"));
        let large = |project: &Path, _: &Path| {
            let path = project.join(".sinew/config.toml");
            fs::File::create(path).and_then(|file| file.set_len(2 << 20)).expect("a file");
        };
        assert!(added(large).expect_err("a large file").contains("larger than 1 MiB"));
    }

    #[test]
    fn values_remember_where_they_came_from() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("c.toml");
        fs::write(&file, "log = \"info\"\n\n[files]\n# why\nsync = \"full\"\n").expect("a file");
        let mut layers = Layers::with_defaults().expect("defaults");
        layers.add_file(&file, Layer::User, true).expect("it reads");
        layers.set("dialect", json!("moltis"), Origin::Flag("--dialect"));
        let layered = layers.merge().expect("it merges");
        let origin = |key: &str| layered.origins[key].1.to_string();
        assert_eq!(origin("files.sync"), format!("{}:5", file.display()));
        assert_eq!(origin("log"), format!("{}:1", file.display()));
        assert_eq!(origin("dialect"), "flag --dialect");
        assert_eq!(origin("files.resolver"), "default");
    }

    const LOOSE: Source = Source { layer: Layer::User, restriction: Restriction::None };
    const STRICT: Source = Source { layer: Layer::Project, restriction: Restriction::ProjectFile };

    /// Valid and invalid configuration lines.
    const LINES: &[&str] = &[
        "read_only = true",
        "read_only = false",
        "approvals = \"allow\"",
        "approvals = \"deny\"",
        "approvals = \"trust-client\"",
        "roots = [\"/\"]",
        "serve = [\"all\"]",
        "serve = [\"*\"]",
        "serve = [\"Read\"]",
        "dialect = \"moltis\"",
        "dialect = \"native\"",
        "approval_timeout_s = 99999",
        "log = \"error\"",
        "profile = \"full\"",
        "run.network = true",
        "run.sandbox = \"none\"",
        "run.require_sandbox = \"none\"",
        "run.env = [\"SECRET\"]",
        "run.show = [\"/\"]",
        "run.unprotected = [\".git/hooks/\"]",
        "rules = [{ verdict = \"allow\", tools = [\"*\"] }]",
        "checkpoints.max_count = 1",
        "managed.approvals = \"allow\"",
        "mcp.trust_arguments = true",
        "tools.fs.checkpoint_before_mutation = true",
        "tools.fs.context_window_tokens = 9999999",
        "tools.fs.max_read_bytes = 999999999999",
        "tools.fs.binary_policy = \"base64\"",
        "tools.fs.respect_gitignore = false",
        "tools.fs.workspace_root = \"/\"",
        "tools.policy.allow = [\"*\"]",
        "files.search_timeout_ms = 9999999",
        "files.resolver = \"auto\"",
        "ledger.sync = \"normal\"",
        "mcp.max_line_bytes = 999999999999",
        "session = \"s\"",
        "files.glob_limit = 5000",
        "files.sync = \"off\"",
        "files.hard_links = \"in_place\"",
        "tools.fs.deny_paths = []",
        "tools.fs.allow_paths = [\"/**\"]",
        "ledger.mode = \"off\"",
        "tools.fs.require_approval = false",
        "tools.fs.track_reads = false",
        "tools.fs.must_read_before_write = false",
        "tools.policy.deny = []",
        "mcp.max_line_bytes = 1",
        "[files]",
        "[tools.fs]",
        "[[tools]]",
        "x = ",
        "\u{0}",
        "\"a\" . b = 1",
        "= 1",
        "[",
    ];

    proptest! {
        #[test]
        fn any_text_is_a_configuration_or_an_error_with_its_place(text in "(?s).{0,200}") {
            let mut layers = Layers::with_defaults().expect("defaults");
            let added = layers.add_toml(&text, Path::new("/c.toml"), |_| Origin::Default, LOOSE);
            if let Err(error) = added {
                prop_assert!(error.to_string().starts_with("/c.toml: "), "{error}");
            }
        }

        /// No project file makes any value less strict.
        #[test]
        fn no_project_loosens(lines in prop::collection::vec(prop::sample::select(LINES), 0..6)) {
            let mut layers = Layers::with_defaults().expect("defaults");
            for strict in [
                "read_only = true", "approvals = \"ask\"", "roots = [\"/a\"]", "files.glob_limit = 7",
                "files.sync = \"full\"", "tools.fs.deny_paths = [\"/d\"]",
                "tools.fs.allow_paths = [\"/a/**\"]", "tools.policy.deny = [\"Write\"]",
                "tools.fs.track_reads = true", "tools.fs.must_read_before_write = true",
                "tools.fs.require_approval = true", "tools.policy.allow = [\"Read\"]",
                "profile = \"workspace\"", "run.require_sandbox = \"landlock\"",
                "tools.fs.checkpoint_before_mutation = false",
                "files.resolver = \"walk\"", "ledger.sync = \"full\"", "log = \"warn\"",
            ] {
                layers.set_written(strict, Origin::Default).expect("a value");
            }
            let text = lines.join("\n");
            let origin = |_: Option<usize>| Origin::Default;
            let added = layers.add_toml(&text, Path::new("/c.toml"), origin, STRICT);
            if added.is_err() {
                return Ok(());
            }
            let merged = layers.merge().expect("it merges").options;
            let value = serde_json::to_value(&merged).expect("JSON");
            let at = |place: &str| value.pointer(place).cloned().unwrap_or_default();
            prop_assert_eq!(at("/read_only"), json!(true));
            prop_assert_ne!(at("/approvals"), json!("allow"));
            prop_assert_ne!(at("/approvals"), json!("trust-client"));
            prop_assert_eq!(at("/profile"), json!("workspace"));
            prop_assert_eq!(at("/run/network"), json!(false));
            prop_assert_eq!(at("/run/sandbox"), json!("auto"));
            prop_assert_eq!(at("/run/require_sandbox"), json!("landlock"));
            prop_assert_eq!(at("/run/env"), json!([]));
            prop_assert_eq!(at("/run/show"), Value::Null);
            prop_assert_eq!(at("/run/unprotected"), Value::Null);
            prop_assert_eq!(at("/rules"), Value::Null);
            prop_assert_eq!(at("/checkpoints/max_count"), json!(10_000));
            prop_assert_eq!(at("/tools/fs/checkpoint_before_mutation"), json!(false));
            prop_assert_eq!(at("/managed"), Value::Null);
            prop_assert_eq!(at("/mcp/trust_arguments"), Value::Null);
            prop_assert_eq!(at("/roots"), json!(["/a"]));
            prop_assert_eq!(at("/files/glob_limit"), json!(7));
            prop_assert_eq!(at("/files/sync"), json!("full"));
            prop_assert_eq!(at("/files/hard_links"), json!("refuse"));
            prop_assert_eq!(at("/tools/fs/deny_paths/0"), json!("/d"));
            prop_assert_eq!(at("/tools/fs/allow_paths"), json!(["/a/**"]));
            prop_assert_eq!(at("/tools/fs/require_approval"), json!(true));
            prop_assert_eq!(at("/tools/fs/track_reads"), json!(true));
            prop_assert_eq!(at("/tools/fs/must_read_before_write"), json!(true));
            prop_assert_eq!(at("/tools/policy/deny/0"), json!("Write"));
            prop_assert_eq!(at("/ledger/mode"), json!("sqlite"));
            prop_assert_eq!(at("/ledger/sync"), json!("full"));
            prop_assert_eq!(at("/log"), json!("warn"));
            prop_assert_eq!(at("/session"), Value::Null);
            prop_assert_eq!(at("/dialect"), json!("native"));
            prop_assert!([Value::Null, json!(["Read"])].contains(&at("/serve")));
            prop_assert_eq!(at("/approval_timeout_s"), Value::Null);
            prop_assert_eq!(at("/files/search_timeout_ms"), Value::Null);
            prop_assert_eq!(at("/files/resolver"), json!("walk"));
            prop_assert_eq!(at("/tools/fs/context_window_tokens"), Value::Null);
            prop_assert_eq!(at("/tools/fs/max_read_bytes"), Value::Null);
            prop_assert_eq!(at("/tools/fs/binary_policy"), json!("reject"));
            prop_assert_eq!(at("/tools/fs/respect_gitignore"), json!(true));
            prop_assert_eq!(at("/tools/fs/workspace_root"), Value::Null);
            prop_assert_eq!(at("/tools/policy/allow"), json!(["Read"]));
            prop_assert!(at("/mcp/max_line_bytes").as_u64() <= Some(8 << 20));
        }
    }
}
