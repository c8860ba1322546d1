//! Merges and validates command hooks from the configuration layers.
//!
//! Layers only add hooks. A repository's hooks are untrusted code, so they are left out until the user
//! trusts the project. `[[hooks.hooks]]` and `[[hooks.pre_tool_use]]` of other runtimes mean `[[hooks]]`.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use sinew_dialects::{HOOK_FORMS, hook_form};
use sinew_runtime::{CommandHookSettings, HookCommand};
use sinew_tool::{HookEvent, HookForm};

use super::options::{HookCommandOptions, HookOptions, HookRequiresOptions, HooksOptions};
use super::{ConfigError, Origin, env_vars};

/// The key of hooks.
pub(super) const KEY: &str = "hooks";

/// The tables of other runtimes, and the event of their hooks.
const TABLES: &[(&str, Option<&str>)] = &[
    ("hooks", None),
    ("pre_tool_use", Some("pre_tool_use")),
    ("post_tool_use", Some("post_tool_use")),
    ("stop", Some("stop")),
];

/// The maximum time-out of a hook.
const MAX_TIMEOUT_MS: u64 = 60 * 60 * 1_000;

#[derive(Debug, Clone, Default)]
pub(super) struct Gathered(Vec<(Value, Origin)>);

impl Gathered {
    /// Moves the hooks out of one layer's tree. Untrusted ones are dropped; returns the warning.
    pub(super) fn add(
        &mut self,
        tree: &mut Value,
        origin: &dyn Fn(&str) -> Origin,
        is_trusted: bool,
    ) -> Vec<String> {
        let written = tree.as_object_mut().and_then(|tree| tree.remove(KEY));
        let mut warnings = Vec::new();
        for (key, hook) in listed(written.unwrap_or_default()) {
            let from = origin(&key);
            if is_trusted {
                self.0.push((hook, from));
            } else {
                warnings.push(format!("{from}: `{key}` is left out, {UNTRUSTED}"));
            }
        }
        warnings
    }

    /// Adds a hook from a hook folder.
    pub(super) fn add_one(&mut self, hook: Value, origin: Origin) {
        self.0.push((hook, origin));
    }

    /// Replaces all hooks.
    pub(super) fn set(&mut self, written: Value, origin: &Origin) {
        self.0 = listed(written).into_iter().map(|(_, hook)| (hook, origin.clone())).collect();
    }

    /// Returns the hooks as one list, and the origin of each.
    pub(super) fn merged(self) -> Option<(Value, Vec<Origin>)> {
        let (hooks, origins): (Vec<_>, Vec<_>) = self.0.into_iter().unzip();
        (!hooks.is_empty()).then_some((Value::Array(hooks), origins))
    }
}

/// Why a project's own hooks are left out.
pub(super) const UNTRUSTED: &str = "because it would run a program that came with the project; `sinew trust` lets it, once you have \
     read it";

/// Returns each hook of a tree with its key.
fn listed(written: Value) -> Vec<(String, Value)> {
    let entries = |key: &str, written: Value, event: Option<&str>| {
        let Value::Array(hooks) = written else { return Vec::new() };
        let with_event = |mut hook: Value| {
            if let (Some(event), Some(hook)) = (event, hook.as_object_mut()) {
                hook.insert(String::from("event"), Value::from(event));
            }
            hook
        };
        let hooks = hooks.into_iter().enumerate();
        hooks.map(|(at, hook)| (format!("{key}[{at}]"), with_event(hook))).collect::<Vec<_>>()
    };
    match written {
        Value::Object(mut tables) => TABLES
            .iter()
            .flat_map(|(table, event)| {
                let hooks = tables.remove(*table).unwrap_or_default();
                entries(&format!("{KEY}.{table}"), hooks, *event)
            })
            .collect(),
        list => entries(KEY, list, None),
    }
}

impl<'de> Deserialize<'de> for HooksOptions {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(HookList)
    }
}

/// Deserializes a list of hooks, or tables of such lists.
struct HookList;

impl<'de> Visitor<'de> for HookList {
    type Value = HooksOptions;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of hooks, each a table `[[hooks]]`")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<HooksOptions, A::Error> {
        let mut hooks = Vec::new();
        while let Some(hook) = list.next_element()? {
            hooks.push(hook);
        }
        Ok(HooksOptions(hooks))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut tables: A) -> Result<HooksOptions, A::Error> {
        let mut all = Vec::new();
        while let Some(table) = tables.next_key::<String>()? {
            let Some((_, event)) = TABLES.iter().find(|(known, _)| *known == table) else {
                let known: Vec<&str> = TABLES.iter().map(|(known, _)| *known).collect();
                return Err(serde::de::Error::custom(format!(
                    "unknown table `hooks.{table}`; write `[[hooks]]`, or one of: {}",
                    known.join(", ")
                )));
            };
            for mut hook in tables.next_value::<Vec<HookOptions>>()? {
                if let Some(event) = event {
                    if hook.event.is_some() || !hook.events.is_empty() {
                        return Err(serde::de::Error::custom(format!(
                            "a hook of `hooks.{table}` has no `event` of its own"
                        )));
                    }
                    hook.event = Some((*event).to_owned());
                }
                all.push(hook);
            }
        }
        Ok(HooksOptions(all))
    }
}

/// Validates hooks; the error names the key of the first invalid one.
pub fn read(written: &[HookOptions]) -> Result<Vec<CommandHookSettings>, ConfigError> {
    let hooks = written.iter().enumerate();
    hooks.map(|(at, hook)| read_one(&format!("{KEY}[{at}]"), hook)).collect()
}

/// Validates the hook under a key.
pub(super) fn read_one(key: &str, hook: &HookOptions) -> Result<CommandHookSettings, ConfigError> {
    let fail = |name: &str, problem: String| {
        Err(ConfigError(if key.is_empty() {
            format!("`{name}` {problem}")
        } else {
            format!("`{key}.{name}` {problem}")
        }))
    };
    let (form, events) = match events(hook) {
        Ok(found) => found,
        Err((name, problem)) => return fail(name, problem),
    };
    let command = match command(form, hook) {
        Ok(command) => command,
        Err(problem) => return fail("command", problem),
    };
    if hook.cwd.as_ref().is_some_and(|cwd| !cwd.is_absolute()) {
        return fail("cwd", String::from("must be an absolute path"));
    }
    let timeout_ms = match (hook.timeout_ms, hook.timeout) {
        (Some(_), Some(_)) => {
            return fail(
                "timeout",
                String::from("says the same as `timeout_ms`; write one of them"),
            );
        }
        (Some(ms), None) => ms,
        (None, Some(s)) => s.saturating_mul(1_000),
        (None, None) => 30_000,
    };
    if timeout_ms == 0 || MAX_TIMEOUT_MS < timeout_ms {
        let name = if hook.timeout.is_some() { "timeout" } else { "timeout_ms" };
        return fail(name, format!("must be 1 ms to 1 h, not {timeout_ms} ms"));
    }
    let blocks_on_error = match hook.on_error.as_deref() {
        None => None,
        Some("block") => Some(true),
        Some("continue") => Some(false),
        Some(other) => {
            return fail("on_error", format!("must be block or continue, not `{other}`"));
        }
    };
    let is_bad = |(name, value): &(&String, &String)| {
        name.is_empty()
            || name.contains(['=', '\0'])
            || value.contains('\0')
            || name.starts_with("SINEW_")
    };
    if let Some((name, _)) = hook.env.iter().find(is_bad) {
        return fail("env", format!("cannot hold `{}`; SINEW_… is sinew's", name.escape_debug()));
    }
    let about: Vec<&str> = hook.emoji.iter().chain(&hook.description).map(String::as_str).collect();
    let settings = CommandHookSettings {
        name: hook.name.clone().unwrap_or_else(|| name_of(&command)),
        origin: key.to_owned(),
        about: about.join(" "),
        events,
        form: *form,
        command,
        folder: hook.cwd.clone().unwrap_or_default(),
        in_root: hook.in_root.unwrap_or(false),
        tools: tools(&hook.tools),
        paths: hook.paths.clone(),
        priority: hook.priority.unwrap_or(form.priority),
        timeout: Duration::from_millis(timeout_ms),
        blocks_on_error,
        env: hook.env.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
        ..CommandHookSettings::new("", *form, &[], HookCommand::Argv(Vec::new()), PathBuf::new())
    };
    if settings.name.is_empty() || settings.name.contains(char::is_control) {
        return fail("name", String::from("must be a text of one line"));
    }
    match settings.problem_with_paths() {
        Some(problem) => fail("paths", format!("holds a glob that cannot be read: {problem}")),
        None => Ok(settings),
    }
}

type Events = Vec<(HookEvent, &'static str)>;

/// Returns a hook's protocol form and events; else the invalid key and the reason.
fn events(hook: &HookOptions) -> Result<(&'static HookForm, Events), (&'static str, String)> {
    let names: Vec<&str> = hook.event.iter().chain(&hook.events).map(String::as_str).collect();
    let key = if hook.event.is_some() { "event" } else { "events" };
    if names.is_empty() {
        return Err(("event", String::from("is missing; name one, such as before_tool_execute")));
    }
    let means = |name: &str| HOOK_FORMS.iter().find_map(|form| form.event(name));
    if let Some(unknown) = names.iter().find(|name| means(name).is_none()) {
        let known: Vec<&str> =
            HOOK_FORMS.iter().flat_map(|form| form.events).map(|event| event.name).collect();
        let nearest = sinew_runtime::nearest(unknown, known);
        let meant = match nearest.is_empty() {
            true => format!("known: {}", HookEvent::ALL.map(HookEvent::as_str).join(", ")),
            false => format!("did you mean: {}", nearest.join(", ")),
        };
        return Err((key, format!("names no event: `{}`; {meant}", unknown.escape_debug())));
    }
    let form = match hook.payload.as_deref() {
        Some(word) => hook_form(word).ok_or_else(|| {
            let known: Vec<&str> = HOOK_FORMS.iter().map(|form| form.name).collect();
            ("payload", format!("must be one of {}, not `{word}`", known.join(", ")))
        })?,
        None => {
            let has_all = |form: &&HookForm| names.iter().all(|name| form.event(name).is_some());
            HOOK_FORMS.iter().find(has_all).ok_or_else(|| {
                (key, String::from("names events of several runtimes; set `payload` too"))
            })?
        }
    };
    let mut events = Events::new();
    for name in names {
        // Event names that this form lacks belong to another form.
        let own = form.events.iter().find(|known| known.name == name);
        let known = match own {
            Some(own) => own.event.map(|event| (event, own.name)),
            None => match means(name).flatten() {
                Some(event) => {
                    let name = form.name_of(event).ok_or_else(|| {
                        (key, format!("has no name for {event} in the form `{}`", form.name))
                    })?;
                    Some((event, name))
                }
                None => None,
            },
        };
        events.extend(known.filter(|known| !events.contains(known)));
    }
    Ok((form, events))
}

fn command(form: &HookForm, hook: &HookOptions) -> Result<HookCommand, String> {
    let takes_text = ["moltis", "aionrs", "claude-code"].contains(&form.name);
    match &hook.command {
        HookCommandOptions::Words(words) => {
            let program = words.first().map(String::as_str).unwrap_or_default();
            if program.is_empty() {
                return Err(String::from("is empty; name a program"));
            }
            if words.iter().any(|word| word.contains('\0')) {
                return Err(String::from("holds a NUL byte, which no program takes"));
            }
            if program.contains('/') && !program.starts_with('/') && hook.cwd.is_none() {
                return Err(format!(
                    "must name its program by an absolute path or by its name in PATH, not `{program}`"
                ));
            }
            Ok(HookCommand::Argv(words.clone()))
        }
        HookCommandOptions::Text(text) if takes_text => match text.trim() {
            "" => Err(String::from("is empty; name a program")),
            _ if text.contains('\0') => {
                Err(String::from("holds a NUL byte, which no program takes"))
            }
            _ => Ok(HookCommand::Shell(text.clone())),
        },
        HookCommandOptions::Text(_) => Err(String::from(
            "must be a list of words, such as [\"/usr/local/bin/check\", \"--strict\"]; a text goes to \
             a shell, and only hooks of Moltis, aionrs and Claude Code have that",
        )),
    }
}

/// Returns the default name of a hook.
fn name_of(command: &HookCommand) -> String {
    let first = match command {
        HookCommand::Argv(words) => words.first().cloned().unwrap_or_default(),
        HookCommand::Shell(text) => text.split_whitespace().next().unwrap_or_default().to_owned(),
    };
    first.rsplit('/').next().unwrap_or_default().to_owned()
}

/// Returns tool patterns, with operations in place of the tool names that mean them.
fn tools(written: &[String]) -> Vec<String> {
    let mut all = written.to_vec();
    let operations = sinew_dialects::operations(written);
    all.extend(operations.into_iter().filter(|operation| !written.contains(operation)));
    all
}

/// Returns warnings about a hook that may not do what its author expects.
pub fn warnings(hook: &HookOptions, origin: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    let names = sinew_dialects::names();
    for pattern in &hook.tools {
        // Names of servers' tools have two underscores in most dialects.
        let may_be_foreign = pattern.contains("__") || pattern.starts_with("mcp_");
        if !may_be_foreign && !names.iter().any(|name| sinew_tool::tool_matches(pattern, name)) {
            warnings.push(format!("{origin}: `tools` of a hook names no tool: `{pattern}`"));
        }
    }
    for name in hook.event.iter().chain(&hook.events) {
        let event = HOOK_FORMS.iter().find_map(|form| form.event(name));
        let blocks = hook.on_error.as_deref() == Some("block");
        if event.flatten().is_some_and(|event| blocks && !event.can_be_stopped()) {
            warnings.push(format!(
                "{origin}: `on_error` of a hook says nothing at `{name}`, where nothing can be stopped"
            ));
        }
        if event == Some(None) {
            warnings.push(format!(
                "{origin}: there is no `{name}` here, so the hook does not run at it"
            ));
        }
    }
    warnings
}

/// Returns why a hook does not run here. A client can remove variables and `PATH`, so under a client a hook
/// that requires them stays.
pub fn unmet(requires: &HookRequiresOptions, by_client: bool) -> Option<String> {
    if !requires.os.is_empty() && !requires.os.iter().any(|os| os == "linux") {
        return Some(format!("it is for {}", requires.os.join(", ")));
    }
    if let Some(key) = requires.config.first() {
        return Some(format!("it needs `{key}` in the configuration of another runtime"));
    }
    absent(requires).filter(|_| !by_client)
}

/// Returns the required variable or program that this process lacks.
pub fn absent(requires: &HookRequiresOptions) -> Option<String> {
    let set: Vec<_> = env_vars::all().map(|(name, _)| name).collect();
    if let Some(name) = requires.env.iter().find(|name| !set.iter().any(|set| *set == ***name)) {
        return Some(format!("the variable `{name}` is not set"));
    }
    let missing = requires.bins.iter().find(|name| !env_vars::has_program(name));
    missing.map(|name| format!("there is no program `{name}` in PATH"))
}

/// Returns the hooks in a value if its key is a hooks key.
pub(super) fn under(key: &str, value: &Value) -> Option<Value> {
    let rest = key.strip_prefix(KEY)?;
    match rest.strip_prefix('.') {
        Some(table) => Some(Value::Object(Map::from_iter([(table.to_owned(), value.clone())]))),
        None => rest.is_empty().then(|| value.clone()),
    }
}

/// Returns the key of the hook that an error is about.
pub(super) fn key_in(error: &ConfigError) -> Option<&str> {
    let key = error.0.strip_prefix('`')?.split(']').next()?;
    error.0.get(1..key.len() + 2)
}

/// Validates the hooks of one file; the error names the key in that file.
pub(super) fn check(tree: &Value) -> Result<(), ConfigError> {
    for (key, hook) in listed(tree.get(KEY).cloned().unwrap_or_default()) {
        let hook = serde_json::from_value(hook)
            .map_err(|error| ConfigError(format!("`{key}`: {error}")))?;
        read_one(&key, &hook)?;
    }
    Ok(())
}

/// Returns a hook as a layer value.
pub(super) fn as_written(hook: &HookOptions) -> Value {
    serde_json::to_value(hook).unwrap_or_else(|_| Value::Object(Map::new()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(toml: &str) -> Result<CommandHookSettings, String> {
        let hook: HookOptions = toml_edit::de::from_str(toml).map_err(|e| e.to_string())?;
        read_one("", &hook).map_err(|error| error.to_string())
    }

    #[test]
    fn a_name_of_an_event_says_which_form_is_meant() {
        for (toml, form, events, priority) in [
            ("event = \"before_tool_execute\"", "sinew", "before_tool_execute", 0),
            ("event = \"before_tool_call\"", "molf", "before_tool_execute=before_tool_call", 0),
            (
                "event = \"before_tool_execute\"\npayload = \"molf\"",
                "molf",
                "before_tool_execute",
                0,
            ),
            ("event = \"BeforeToolCall\"", "moltis", "before_tool_execute=BeforeToolCall", 0),
            (
                "event = \"BeforeToolCall\"\npayload = \"agentos\"",
                "agentos",
                "before_tool_execute=BeforeToolCall",
                100,
            ),
            (
                "events = [\"ToolResultPersist\", \"SessionStart\"]",
                "moltis",
                "persist=ToolResultPersist session_start=SessionStart",
                0,
            ),
            ("event = \"BeforePromptBuild\"", "agentos", "before_prompt=BeforePromptBuild", 100),
            ("event = \"pre_tool_use\"", "aionrs", "before_tool_execute=pre_tool_use", 0),
            ("event = \"persist\"\npayload = \"moltis\"", "moltis", "persist=ToolResultPersist", 0),
            ("event = \"GatewayStart\"", "moltis", "", 0),
            ("events = [\"persist\", \"approval\"]\npriority = 7", "sinew", "persist approval", 7),
        ] {
            let hook = of(&format!("{toml}\ncommand = [\"x\"]\n")).expect(toml);
            let told: Vec<String> = hook
                .events
                .iter()
                .map(|(event, name)| match event.as_str() == *name {
                    true => event.to_string(),
                    false => format!("{event}={name}"),
                })
                .collect();
            let found = (hook.form.name, told.join(" "), hook.priority);
            assert_eq!(found, (form, events.to_owned(), priority), "{toml}");
        }
    }

    #[test]
    fn what_cannot_be_a_hook_is_refused_by_its_key() {
        const EVENT: &str = "event = \"before_tool_execute\"\n";
        for (toml, named) in [
            ("command = [\"x\"]", "`event` is missing"),
            (
                "event = \"before_tool\"\ncommand = [\"x\"]",
                "names no event: `before_tool`; did you mean: ",
            ),
            ("event = \"zzzzzzzz\"\ncommand = [\"x\"]", "known: before_tool_execute, after"),
            (
                "events = [\"persist\", \"BeforeToolCall\"]\ncommand = [\"x\"]",
                "`events` names events of several runtimes",
            ),
            (
                "event = \"approval\"\npayload = \"molf\"\ncommand = [\"x\"]",
                "has no name for approval in the form `molf`",
            ),
            ("event = \"persist\"", "missing field `command`"),
            ("event = \"persist\"\ncommand = 7", "expected a list of words, or a text"),
            ("event = \"persist\"\ncommand = []", "`command` is empty"),
            ("event = \"persist\"\ncommand = \"x\"", "`command` must be a list of words"),
            ("event = \"persist\"\ncommand = [\"./x\"]", "by an absolute path or by its name"),
            ("event = \"persist\"\ncommand = [\"x\"]\nsurprise = 1", "unknown field `surprise`"),
        ] {
            let error = of(toml).expect_err(toml);
            assert!(error.contains(named), "{toml}: {error}");
        }
        for (more, named) in [
            ("payload = \"claude\"", "`payload` must be one of sinew, molf"),
            ("on_error = \"retry\"", "`on_error` must be block or continue"),
            ("timeout_ms = 0", "`timeout_ms` must be 1 ms to 1 h"),
            ("timeout = 3601", "`timeout` must be 1 ms to 1 h"),
            ("timeout = 1\ntimeout_ms = 1", "write one of them"),
            ("cwd = \"here\"", "`cwd` must be an absolute path"),
            ("name = \"a\\nb\"", "`name` must be a text of one line"),
            ("paths = [\"[\"]", "`paths` holds a glob that cannot be read: `[`"),
            ("env = { SINEW_X = \"1\" }", "`env` cannot hold `SINEW_X`"),
            ("env = { \"A=B\" = \"1\" }", "`env` cannot hold `A=B`"),
        ] {
            let toml = format!("{EVENT}command = [\"x\"]\n{more}\n");
            let error = of(&toml).expect_err(more);
            assert!(error.contains(named), "{more}: {error}");
        }
    }

    #[test]
    fn tables_of_other_runtimes_are_hooks_too() {
        for (toml, expected) in [
            ("[[hooks]]\nevent = \"persist\"\ncommand = [\"x\"]", Ok("persist")),
            ("[[hooks.hooks]]\nevents = [\"AfterToolCall\"]\ncommand = \"x\"", Ok("AfterToolCall")),
            ("[[hooks.pre_tool_use]]\nname = \"n\"\ncommand = \"x\"", Ok("pre_tool_use")),
            (
                "[[hooks.post_tool_use]]\ntool_match = [\"Edit\"]\ncommand = \"x\"",
                Ok("post_tool_use"),
            ),
            ("[[hooks.stop]]\nfile_match = [\"*.rs\"]\ncommand = \"x\"", Ok("stop")),
            ("[[hooks.other]]\ncommand = \"x\"", Err("unknown table `hooks.other`")),
            ("[[hooks.stop]]\nevent = \"x\"\ncommand = \"x\"", Err("no `event` of its own")),
            ("hooks = 7", Err("a list of hooks")),
        ] {
            let read = toml_edit::de::from_str::<super::super::Options>(toml);
            match (read, expected) {
                (Ok(options), Ok(name)) => {
                    let hooks = options.hooks.expect("hooks").0;
                    let names = hooks[0].event.iter().chain(&hooks[0].events);
                    assert_eq!(names.collect::<Vec<_>>(), [name], "{toml}");
                    let tree: Value = toml_edit::de::from_str(toml).expect("a tree");
                    assert!(check(&tree).is_ok(), "{toml}");
                    let listed = listed(tree[KEY].clone());
                    assert_eq!(listed.len(), 1, "{toml}");
                    let again: HookOptions =
                        serde_json::from_value(listed[0].1.clone()).expect("a hook");
                    assert_eq!(again, hooks[0], "{toml}");
                }
                (Err(error), Err(words)) => {
                    assert!(error.to_string().contains(words), "{toml}: {error}");
                }
                (read, _) => panic!("{toml}: {read:?}"),
            }
        }
    }

    #[test]
    fn what_a_hook_will_not_do_is_told() {
        let hook = |toml: &str| toml_edit::de::from_str::<HookOptions>(toml).expect(toml);
        let words = warnings(
            &hook(
                "events = [\"Command\", \"persist\", \"SessionStart\"]\non_error = \"block\"\ntools = [\"Wirte\", \"write_file\"]\ncommand = [\"x\"]",
            ),
            "here",
        );
        assert_eq!(
            words,
            [
                "here: `tools` of a hook names no tool: `Wirte`",
                "here: there is no `Command` here, so the hook does not run at it",
                "here: `on_error` of a hook says nothing at `SessionStart`, where nothing can be stopped"
            ]
        );
        let needs = |os: &str, bins: &str, env: &str| {
            let list =
                |name: &str| (!name.is_empty()).then(|| name.to_owned()).into_iter().collect();
            let requires = HookRequiresOptions {
                os: list(os),
                bins: list(bins),
                env: list(env),
                config: Vec::new(),
            };
            assert_eq!(unmet(&requires, true).is_some(), os == "darwin", "{requires:?}");
            unmet(&requires, false)
        };
        assert_eq!(needs("linux", "sh", "PATH"), None);
        assert_eq!(needs("darwin", "", ""), Some(String::from("it is for darwin")));
        assert!(needs("", "no-such-program", "").expect("why").contains("`no-such-program`"));
        let config = vec![String::from("tools.exec")];
        let of_another = HookRequiresOptions { config, ..HookRequiresOptions::default() };
        let why = unmet(&of_another, true).expect("why");
        assert!(why.contains("`tools.exec`"));
        assert!(needs("", "", "NO_SUCH_VARIABLE").expect("why").contains("is not set"));
    }
}
