//! Imports aionrs: `auto_approve` and `allow_list` of its TOML configuration.

use serde_json::Value;

use super::{Imported, is_known, rule, texts};

/// Imports a configuration.
pub(super) fn read(text: &str) -> Result<Imported, String> {
    let tree: Value = toml_edit::de::from_str(text).map_err(|error| error.to_string())?;
    let mut imported = Imported::default();
    let tools = tree.get("tools").unwrap_or(&tree);
    for name in texts(tools, "allow_list")?.into_iter().flatten() {
        if name.contains('*') || !is_known(&name) {
            imported.note(format!("`{name}` of `allow_list` names no tool that is here"));
            continue;
        }
        imported.rule(rule("allow", &[&name]));
    }
    match tools.get("auto_approve") {
        None | Some(Value::Bool(false)) => {}
        Some(Value::Bool(true)) => imported.note(
            "`auto_approve = true` is left out, because it allows every call; `approvals = \"allow\"` says \
             that",
        ),
        Some(other) => return Err(format!("`auto_approve` must be true or false, not {other}")),
    }
    if tree.get("hooks").is_some() {
        imported.note("`hooks` are not carried over");
    }
    Ok(imported)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn listed_tools_are_allowed() {
        for (text, rules, n_notes) in [
            (
                "[tools]\nallow_list = [\"Read\", \"Grep\", \"Spawn\", \"*\"]\n",
                json!([
                    {"verdict": "allow", "tools": ["Read"]},
                    {"verdict": "allow", "tools": ["Grep"]},
                    {"verdict": "allow", "tools": ["Spawn"]},
                ]),
                1,
            ),
            ("[tools]\nauto_approve = true\n", json!(null), 1),
            ("auto_approve = false\nallow_list = []\n", json!(null), 0),
            ("[[hooks.pre_tool_use]]\nname = \"x\"\n", json!(null), 1),
        ] {
            let imported = read(text).expect(text);
            assert_eq!(
                serde_json::to_value(&imported.options.rules).expect("JSON"),
                rules,
                "{text}"
            );
            assert_eq!(imported.notes.len(), n_notes, "{text}: {:?}", imported.notes);
        }
        for (text, said) in [
            ("allow_list = 1", "`allow_list`"),
            ("auto_approve = 1", "`auto_approve`"),
            ("x = \n", "line 1, column"),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
