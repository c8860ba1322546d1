//! clawft: `tools.commandPolicy` of its JSON configuration, which has the same name and meaning here.

use serde_json::Value;

use super::{Imported, texts};
use crate::config::{CommandPolicyOptions, ToolsOptions};

/// Reads a configuration.
pub(super) fn read(tree: &Value) -> Result<Imported, String> {
    let mut imported = Imported::default();
    let tools = tree.get("tools").unwrap_or(&Value::Null);
    let policy = tools.get("commandPolicy").or_else(|| tools.get("command_policy"));
    if let Some(policy) = policy {
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
            let command_policy = Some(options);
            imported.options.tools =
                Some(ToolsOptions { command_policy, ..ToolsOptions::default() });
            imported.note(
                "the policy of commands counts in the dialect clawft, which is chosen with it",
            );
        }
    }
    if tools.get("urlPolicy").or_else(|| tools.get("url_policy")).is_some() {
        imported.note("`tools.urlPolicy`: no tool here fetches addresses");
    }
    for key in ["denylist", "allowlist", "permissions"] {
        if tools.get(key).or_else(|| tree.get(key)).is_some() {
            imported.note(format!(
                "`{key}`: levels and lists of tools are not carried over; write `[tools.policy]`"
            ));
        }
    }
    Ok(imported)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
        ] {
            assert!(read(&tree).is_err(), "{tree}");
        }
        let notes = read(&json!({"tools": {"urlPolicy": {}}})).expect("a configuration").notes;
        assert!(notes.iter().any(|note| note.contains("urlPolicy")), "{notes:?}");
    }
}
