//! Reads and merges the configuration layers, and records the origin of each value.
pub(super) mod arguments;
mod floor;
mod keys;
mod merged;
mod tighten;
mod unknown_keys;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::iter::Peekable;
use std::path::{Path, PathBuf};

use serde::Deserialize as _;
use serde_json::{Map, Value, json};
use sinew_guard::{Layer, RuleOrigin};

pub use self::merged::{Layered, ToolList};
use self::tighten::tightened;
use super::files::{
    self, HOOKS_DIR, MCP_FILE, PROJECT_DIR, PROJECT_FILE, is_absent, is_lost, read, read_beneath,
};
use super::lines::{RULES, lines_of_document, placed};
use super::options::{ChannelOptions, McpServerOptions, ModelOptions};
use super::server_entries::ServerEntries;
use super::{ConfigError, Options, hooks, rules};

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
    /// The origin of each server.
    servers: BTreeMap<String, Origin>,
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

/// The defaults by their keys.
pub(crate) const DEFAULTS: &str = include_str!("default.json");
/// The path of the system's configuration.
pub const SYSTEM_FILE: &str = "/etc/sinew/config.toml";
/// The name of the file in the user's configuration directory.
const USER_FILE: &str = "config.toml";
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
        let defaults: BTreeMap<String, Value> = serde_json::from_str(DEFAULTS)
            .map_err(|error| ConfigError(format!("default.json: {error}")))?;
        let values = defaults.into_iter().map(|(key, value)| (key, (value, Origin::Default)));
        Ok(Self { values: values.collect(), ..Self::default() })
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
        // Without that file there is no floor to compare with it.
        if layer == Layer::System && self.values.values().any(|(_, from)| *from != Origin::Default)
        {
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

    /// Adds the MCP servers of a project's own file, which count only while the user trusts its content. None replaces
    /// a server of the user's.
    pub fn add_project_servers(
        &mut self,
        project: &Path,
        trusted: Option<&str>,
    ) -> Result<(), ConfigError> {
        let path = project.join(MCP_FILE);
        let fail =
            |problem: &dyn fmt::Display| ConfigError(format!("{}: {problem}", path.display()));
        let origin = Origin::File(path.clone(), None, Layer::Project);
        let Some(text) = trusted else {
            // Without trust a broken file is nothing to sinew.
            let text = files::read_in(project, MCP_FILE);
            let servers =
                text.and_then(|text| ServerEntries::read(Path::new(MCP_FILE), &text).ok());
            let entries = servers.map(|servers| servers.entries).unwrap_or_default();
            if !entries.is_empty() {
                let (key, value) = (McpServerOptions::TABLE.to_owned(), Value::Object(entries));
                self.leave_out(key, value, origin, Restriction::ProjectFile);
            }
            return Ok(());
        };
        let ServerEntries { mut entries, unknown } =
            ServerEntries::read(Path::new(MCP_FILE), text).map_err(|problem| fail(&problem))?;
        if !unknown.is_empty() {
            let unknown = unknown.join(", ");
            self.warn(format!("{origin}: left out, since sinew has no such keys: {unknown}"));
        }
        entries.retain(|name, _| {
            let is_new = !self.servers.contains_key(name);
            if !is_new {
                let warning = format!("{origin}: `{name}` is left out: your own configuration has a server of this name");
                self.warnings.push(warning);
            }
            is_new
        });
        // The file was written for clients, so an invalid entry is skipped with a warning.
        entries.retain(|name, entry| {
            let tree = json!({"tools": {"mcp_servers": {name: entry}}});
            let checked = check(tree);
            if let Err(error) = &checked {
                self.warnings.push(format!("{origin}: `{name}` is left out: {error}"));
            }
            checked.is_ok()
        });
        let entries = Value::Object(entries);
        self.add_named_entries(
            McpServerOptions::TABLE,
            entries,
            &|_| origin.clone(),
            Restriction::None,
        );
        Ok(())
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
        let tree = nested(&mut std::iter::once((key, &value)).peekable(), "");
        let tree = Value::Object(tree);
        check(tree.clone()).map_err(|error| ConfigError(format!("{origin}: `{key}`: {error}")))?;
        let mut flat = Vec::new();
        flatten("", tree, &mut flat);
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
        let mut flat = self.values.iter().map(|(key, (value, _))| (key.as_str(), value)).peekable();
        let options = serde_json::from_value(Value::Object(nested(&mut flat, "")))
            .map_err(|error| ConfigError(error.to_string()))?;
        let keeps_from_trusting = !self.may_trust();
        let Self { values, rules, lists, servers, warnings, left_out, trusted_project, .. } = self;
        Ok(Layered {
            options,
            origins: values,
            rules,
            lists,
            servers,
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
        let document = toml_edit::Document::parse(text).map_err(|error| fail(&error))?;
        let lines = lines_of_document(&document, text);
        let tree = Value::deserialize(toml_edit::de::Deserializer::from(document))
            .map_err(|error| fail(&error))?;
        // Read from the text, an error has its place.
        let options = serde_json::from_value::<Options>(tree.clone())
            .or_else(|_| toml_edit::de::from_str::<Options>(text))
            .map_err(|error| fail(&error))?;
        check_rules(&options).map_err(|error| placed(path, text, error))?;
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
        if let Some(table) = NAMED.into_iter().find(|table| *table == key) {
            return self.add_named_entries(table, value, origin, source.restriction);
        }
        if key.starts_with(MANAGED) && source.layer != Layer::System {
            return self.warnings.push(format!(
                "{from}: `{key}` is left out, because it counts only in {SYSTEM_FILE}"
            ));
        }
        if key == TRUST_ARGUMENTS && ![Layer::System, Layer::User].contains(&source.layer) {
            return self.warnings.push(format!(
                "{from}: `{key}` is left out, because it counts only in your own configuration and in {SYSTEM_FILE}"
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

    /// Adds servers, models or channels; one replaces that of the same name. A layer that can only tighten adds none.
    fn add_named_entries(
        &mut self,
        key: &'static str,
        value: Value,
        origin: &dyn Fn(&str) -> Origin,
        restriction: Restriction,
    ) {
        if restriction != Restriction::None {
            return self.leave_out(key.to_owned(), value, origin(key), restriction);
        }
        let Value::Object(added) = value else { return };
        let old = self.values.get(key);
        let mut all = old.and_then(|(old, _)| old.as_object().cloned()).unwrap_or_default();
        for (name, entry) in added {
            let from = origin(&format!("{key}.{name}"));
            match (&from, all.get_mut(&name), entry) {
                // A flag sets one value of an entry, which stays where it is written.
                (Origin::Flag(_), Some(Value::Object(old)), Value::Object(new)) => old.extend(new),
                (_, _, entry) => {
                    all.insert(name.clone(), entry);
                    if key == McpServerOptions::TABLE {
                        self.servers.insert(name, from);
                    }
                }
            }
        }
        self.values.insert(key.to_owned(), (Value::Object(all), origin(key)));
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

/// Tables whose keys are names that the user gives; such a table is one value.
const NAMED: [&str; 3] = [McpServerOptions::TABLE, ModelOptions::TABLE, ChannelOptions::TABLE];

/// Deny lists, to which every layer appends.
const ADDED: [&str; 3] = ["tools.fs.deny_paths", "tools.urlPolicy.blockedDomains", DENIED];

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
        Value::Object(table) if !NAMED.contains(&prefix) => {
            for (name, value) in table {
                let key = if prefix.is_empty() { name } else { format!("{prefix}.{name}") };
                flatten(&key, value, flat);
            }
        }
        value => flat.push((prefix.to_owned(), value)),
    }
}

/// Returns the tables of sorted keys that begin with a prefix, which it takes.
fn nested<'a>(
    flat: &mut Peekable<impl Iterator<Item = (&'a str, &'a Value)>>,
    prefix: &str,
) -> Map<String, Value> {
    let mut table = Map::new();
    while let Some(&(key, value)) = flat.peek() {
        let Some(rest) = key.strip_prefix(prefix) else { break };
        let dot = rest.find('.');
        // Keys of one table follow each other.
        let beneath = dot.and_then(|dot| key.get(..=prefix.len() + dot));
        let value = match beneath {
            None => {
                flat.next();
                value.clone()
            }
            Some(beneath) => Value::Object(nested(flat, beneath)),
        };
        let name = dot.and_then(|dot| rest.get(..dot)).unwrap_or(rest);
        table.insert(name.to_owned(), value);
    }
    table
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the tests lay out files")]
mod tests;
