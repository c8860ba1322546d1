//! Imports clawft: of its JSON configuration `tools.commandPolicy`, `tools.exec.timeout` and the endpoint of searches,
//! which sinew also has, and the blocked domains of `tools.urlPolicy`.
//!
//! A key that sinew does not know becomes a note, not an error: most of that file is about other things than tools.

use serde_json::{Map, Value};

use super::{Imported, is_known, mcp, texts};
use crate::server_entries::ServerEntries;
use crate::{
    CommandPolicyOptions, ExecOptions, PolicyOptions, RuleOptions, WebSearchOptions, url_policy,
};

/// The known keys of the file, `tools`, its command policy, `tools.exec`, `tools.web_search` and `tools.web.search`.
const KEYS: [&[&str]; 7] = [
    &["tools", "allowlist", "denylist", "restrictToWorkspace", "permissions"],
    &[
        "commandPolicy",
        "command_policy",
        "urlPolicy",
        "url_policy",
        "allowlist",
        "denylist",
        "restrictToWorkspace",
        "permissions",
        "exec",
        "web_search",
        "web",
        "mcp_servers",
    ],
    &["mode", "allowlist", "denylist"],
    &["timeout"],
    SEARCH_KEYS,
    &["search"],
    SEARCH_KEYS,
];

/// The known keys of a search: the page has them in `tools.web_search`, the program in `tools.web.search`.
const SEARCH_KEYS: &[&str] = &["endpoint", "api_key", "apiKey", "max_results", "maxResults"];

/// The most unknown keys that are named.
const MAX_UNKNOWN: usize = 50;

/// Imports a configuration.
pub(super) fn read(tree: &Value) -> Result<Imported, String> {
    let mut imported = Imported::default();
    let tools = tree.get("tools").unwrap_or(&Value::Null);
    let command_policy = tools.get("commandPolicy").or_else(|| tools.get("command_policy"));
    if let Some(policy) = command_policy {
        let mode = match policy.get("mode") {
            None => None,
            Some(mode) => match mode.as_str().map(str::to_lowercase).as_deref() {
                Some(word @ ("allowlist" | "denylist")) => Some(word.to_owned()),
                _ => return Err(format!("`mode` must be allowlist or denylist, not {mode}")),
            },
        };
        let options = CommandPolicyOptions {
            mode,
            allowlist: texts(policy, "allowlist")?,
            denylist: texts(policy, "denylist")?,
        };
        if options != CommandPolicyOptions::default() {
            imported.options.dialect = Some(String::from("clawft"));
            imported.options.tools.get_or_insert_default().command_policy = Some(options);
            imported.note(
                "the policy of commands counts in the dialect clawft, which is chosen with it",
            );
        }
    }
    if let Some(timeout) = tools.get("exec").and_then(|exec| exec.get("timeout")) {
        let timeout = Some(exec_timeout(timeout, &mut imported)?);
        imported.options.dialect = Some(String::from("clawft"));
        imported.options.tools.get_or_insert_default().exec = Some(ExecOptions { timeout });
        imported.note("`tools.exec.timeout` counts in the dialect clawft, which is chosen with it");
    }
    if let Some(policy) = tools.get("urlPolicy").or_else(|| tools.get("url_policy")) {
        url_policy(policy, &mut imported)?;
    }
    let list = |key: &str| match texts(tools, key)? {
        None => texts(tree, key),
        list => Ok(list),
    };
    let mut policy = PolicyOptions { allow: list("allowlist")?, deny: list("denylist")? };
    for name in policy.allow.iter().chain(&policy.deny).flatten().filter(|name| !is_known(name)) {
        imported.absent(name, format!("`{name}` names no tool that is here"));
    }
    if policy != PolicyOptions::default() {
        if policy.allow.as_ref().is_some_and(Vec::is_empty) {
            imported.note("`allowlist` is empty, so every tool is denied");
            policy = PolicyOptions { allow: None, deny: Some(vec![String::from("*")]) };
        }
        imported.options.tools.get_or_insert_default().policy = Some(policy);
    }
    if tools.get("restrictToWorkspace").or_else(|| tree.get("restrictToWorkspace")).is_some() {
        imported.note("`restrictToWorkspace`: nothing here leaves the roots, whatever it says");
    }
    if tools.get("permissions").or_else(|| tree.get("permissions")).is_some() {
        imported.note("`permissions`: levels are not carried over; write `[tools.policy]`");
    }
    let mut servers = ServerEntries::default();
    let written = tools.get("mcp_servers").and_then(Value::as_object);
    for (name, written) in written.into_iter().flatten() {
        let Some(written) = written.as_object() else { continue };
        let mut entry = Map::new();
        servers.add(name, written, &mut entry);
        servers.entries.insert(name.clone(), Value::Object(entry));
    }
    mcp::add(&servers, &mut imported)?;
    let command_policy = command_policy.unwrap_or(&Value::Null);
    let [exec, web_search, web] =
        ["exec", "web_search", "web"].map(|name| tools.get(name).unwrap_or(&Value::Null));
    let search = web.get("search").unwrap_or(&Value::Null);
    searching([web_search, search], &mut imported)?;
    let parts = [
        ("", tree),
        ("tools.", tools),
        ("tools.commandPolicy.", command_policy),
        ("tools.exec.", exec),
        ("tools.web_search.", web_search),
        ("tools.web.", web),
        ("tools.web.search.", search),
    ];
    note_unknown(parts, &mut imported);
    Ok(imported)
}

/// Notes the keys that sinew does not know; each part has the start of their names.
fn note_unknown(parts: [(&str, &Value); 7], imported: &mut Imported) {
    let unknown = parts.into_iter().zip(KEYS).flat_map(|((prefix, part), known)| {
        let keys = part.as_object().into_iter().flat_map(|part| part.keys());
        keys.filter(|key| !known.contains(&key.as_str())).map(move |key| format!("{prefix}{key}"))
    });
    let unknown: Vec<String> = unknown.collect();
    for key in unknown.iter().take(MAX_UNKNOWN) {
        imported.note(format!("`{key}` is left out: sinew has no such key"));
    }
    if MAX_UNKNOWN < unknown.len() {
        let n_more = unknown.len() - MAX_UNKNOWN;
        imported.note(format!("{n_more} more keys are left out: sinew has no such keys"));
    }
}

/// Reads which hosts are fetched: blocked ones are denied here too, other exceptions are not taken over.
fn url_policy(policy: &Value, imported: &mut Imported) -> Result<(), String> {
    let either = |camel: &str, snake: &str| policy.get(camel).or_else(|| policy.get(snake));
    let blocked = match texts(policy, "blockedDomains")? {
        None => texts(policy, "blocked_domains")?,
        blocked => blocked,
    };
    let mut hosts: Vec<String> = Vec::new();
    for name in blocked.iter().flatten() {
        let patterns = url_policy::patterns(name);
        if patterns.is_empty() {
            imported.note(format!("`tools.urlPolicy`: `{name}` is not a host, and is left out"));
        }
        hosts.extend(patterns.iter().map(ToString::to_string));
    }
    if !hosts.is_empty() {
        let verdict = String::from("deny");
        imported.rule(RuleOptions { verdict, hosts: Some(hosts), ..RuleOptions::default() });
    }
    let is_there = |key: Option<&Value>| key.is_some_and(|value| *value != Value::Bool(false));
    if is_there(either("allowPrivate", "allow_private"))
        || is_there(either("allowedDomains", "allowed_domains"))
        || policy.get("enabled") == Some(&Value::Bool(false))
    {
        imported.note(
            "`tools.urlPolicy`: hosts that are not public are allowed one by one, with their ports, in \
             `tools.web_fetch.allow_hosts`",
        );
    }
    Ok(())
}

/// Reads who answers searches; of two places, the first that names an endpoint.
fn searching(places: [&Value; 2], imported: &mut Imported) -> Result<(), String> {
    let endpoints = places.into_iter().filter_map(|place| place.get("endpoint"));
    let mut endpoint = None;
    for written in endpoints.filter(|written| !written.is_null()) {
        let text = written.as_str().ok_or_else(|| {
            format!("the `endpoint` of a search must be an address, not {written}")
        })?;
        endpoint = endpoint.or_else(|| Some(text.to_owned()).filter(|text| !text.is_empty()));
    }
    if endpoint.is_some() {
        let tools = imported.options.tools.get_or_insert_default();
        tools.web_search = Some(WebSearchOptions { endpoint, ..WebSearchOptions::default() });
    }
    let is_there = |key: &str| {
        places.into_iter().filter_map(|place| place.get(key)).any(|value| !value.is_null())
    };
    if is_there("api_key") || is_there("apiKey") {
        imported.note(
            "the key of a search is left out: endpoints are asked without one; that of Brave goes into the variable \
             `BRAVE_API_KEY`, for other dialects",
        );
    }
    if is_there("max_results") || is_there("maxResults") {
        imported.note("how many results a search has is left out: calls say it, 5 if they do not");
    }
    Ok(())
}

/// Returns the time limit of commands in seconds; one above the maximum is cut, with a note.
fn exec_timeout(timeout: &Value, imported: &mut Imported) -> Result<u64, String> {
    let max = sinew_dialects::CLAWFT_MAX_TIMEOUT_S.cast_unsigned();
    match timeout.as_u64() {
        Some(seconds) if max < seconds => {
            imported.note(format!(
                "`tools.exec.timeout` was cut from {seconds} to the maximum of {max} seconds"
            ));
            Ok(max)
        }
        Some(seconds) if seconds != 0 => Ok(seconds),
        _ => Err(format!(
            "`tools.exec.timeout` must be a whole number of seconds of at least 1, not {timeout}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn servers_are_carried_over() {
        let tree = json!({"tools": {"mcp_servers": {
            "my_server": {"command": "npx", "args": ["-y", "my-mcp-server"], "internal_only": false},
            "other": {"command": "x", "transport": "stdio", "retries": 3},
        }}});
        let imported = read(&tree).expect("it is read");
        let servers = imported.options.tools.and_then(|tools| tools.mcp_servers).expect("servers");
        assert_eq!(servers["my_server"].internal_only, Some(false));
        assert_eq!(servers["other"].internal_only, None, "hidden, as there");
        assert!(
            imported.notes.iter().any(|note| note.contains("`other.retries`")),
            "{:?}",
            imported.notes
        );
    }

    #[test]
    fn the_policy_of_commands_is_taken_as_it_is() {
        let policy = |tree: &Value| {
            let options = read(tree).expect("a configuration").options;
            serde_json::to_value(options.tools.and_then(|tools| tools.command_policy))
                .expect("JSON")
        };
        for (tree, expected) in [
            (
                json!({"tools": {"commandPolicy": {"mode": "denylist", "denylist": ["rm"]}}}),
                json!({"mode": "denylist", "denylist": ["rm"]}),
            ),
            (
                json!({"tools": {"commandPolicy": {"mode": "Allowlist", "allowlist": ["ls"]}}}),
                json!({"mode": "allowlist", "allowlist": ["ls"]}),
            ),
            (json!({"tools": {"commandPolicy": {}}}), json!(null)),
            (json!({}), json!(null)),
        ] {
            assert_eq!(policy(&tree), expected, "{tree}");
        }
        for tree in [
            json!({"tools": {"commandPolicy": {"mode": "x"}}}),
            json!({"tools": {"commandPolicy": {"allowlist": "ls"}}}),
            json!({"tools": {"commandPolicy": {"denylist": [1]}}}),
            json!({"tools": {"exec": {"timeout": 0}}}),
            json!({"tools": {"exec": {"timeout": 1.5}}}),
            json!({"tools": {"exec": {"timeout": "60"}}}),
        ] {
            assert!(read(&tree).is_err(), "{tree}");
        }
        let lists = json!({"tools": {"allowlist": ["read_file", "x"], "denylist": ["write_file"]}});
        let imported = read(&lists).expect("a configuration");
        let policy = imported.options.tools.and_then(|tools| tools.policy).expect("a policy");
        let policy = serde_json::to_value(policy).expect("JSON");
        assert_eq!(policy, json!({"allow": ["read_file", "x"], "deny": ["write_file"]}));
        assert!(imported.notes.iter().any(|note| note.contains("`x` names no tool")));
        let none = read(&json!({"tools": {"allowlist": []}})).expect("a configuration");
        let policy = none.options.tools.and_then(|tools| tools.policy).expect("a policy");
        assert_eq!(serde_json::to_value(policy).expect("JSON"), json!({"deny": ["*"]}));
        assert!(none.notes.iter().any(|note| note.contains("every tool is denied")));
        let policy = json!({"allowPrivate": true, "blockedDomains": ["x.org", "*.y.org", "10.0.0.1", "a b"]});
        let read = read(&json!({"tools": {"urlPolicy": policy}})).expect("a configuration");
        assert!(read.notes.iter().any(|note| note.contains("urlPolicy")), "{:?}", read.notes);
        let rules = read.options.rules.expect("rules");
        let hosts = rules[0].hosts.as_deref().expect("hosts");
        assert_eq!(hosts, ["*.x.org", "x.org", "*.y.org", "y.org", "10.0.0.1"]);
        assert_eq!(rules[0].verdict, "deny");
    }

    #[test]
    fn either_endpoint_is_read() {
        for (tree, expected, n_notes) in [
            (json!({"web_search": {"endpoint": "https://x.test/s"}}), Some("https://x.test/s"), 0),
            (
                json!({"web": {"search": {"endpoint": "http://y/", "max_results": 3}}}),
                Some("http://y/"),
                1,
            ),
            (
                json!({"web_search": {"endpoint": ""}, "web": {"search": {"endpoint": "http://y/"}}}),
                Some("http://y/"),
                0,
            ),
            (json!({"web": {"search": {"api_key": "k", "endpoint": null}}}), None, 1),
        ] {
            let imported = read(&json!({ "tools": tree })).expect("a configuration");
            let search = imported.options.tools.and_then(|tools| tools.web_search);
            let endpoint = search.and_then(|search| search.endpoint);
            assert_eq!(endpoint.as_deref(), expected, "{tree}");
            assert_eq!(imported.notes.len(), n_notes, "{tree}: {:?}", imported.notes);
        }
        let wrong = read(&json!({"tools": {"web_search": {"endpoint": 1}}}));
        assert!(wrong.is_err_and(|error| error.contains("must be an address")));
    }

    #[test]
    fn unknown_keys_are_notes() {
        let tree = json!({
            "agents": {"x": 1},
            "tools": {
                "exec": {"timeout": 45, "shell": "zsh"},
                "web": {"x": {}},
                "commandPolicy": {"level": 1},
            },
        });
        let imported = read(&tree).expect("a configuration");
        assert_eq!(
            imported.notes,
            [
                "`tools.exec.timeout` counts in the dialect clawft, which is chosen with it",
                "`agents` is left out: sinew has no such key",
                "`tools.commandPolicy.level` is left out: sinew has no such key",
                "`tools.exec.shell` is left out: sinew has no such key",
                "`tools.web.x` is left out: sinew has no such key",
            ]
        );
        assert_eq!(imported.options.dialect.as_deref(), Some("clawft"));
        let exec = imported.options.tools.and_then(|tools| tools.exec).expect("a time limit");
        assert_eq!(exec.timeout, Some(45));
        let many: Value = (0..60).map(|n| (format!("k{n}"), Value::Null)).collect();
        let notes = read(&many).expect("a configuration").notes;
        assert_eq!(notes.len(), 51);
        assert_eq!(notes[50], "10 more keys are left out: sinew has no such keys");
        let long = read(&json!({"tools": {"exec": {"timeout": 900}}})).expect("a configuration");
        assert!(long.notes[0].contains("cut from 900 to the maximum of 300"), "{:?}", long.notes);
    }
}
