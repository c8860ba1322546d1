//! Imports agentos: the approval policy `{tools, timeoutMs}`, and the approval tiers by tool.

use serde_json::Value;

use super::{Imported, is_known, rule, texts};

/// Imports a policy.
pub(super) fn read(tree: &Value) -> Result<Imported, String> {
    let mut imported = Imported::default();
    let policy = tree.get("approvalPolicy").or_else(|| tree.get("approval")).unwrap_or(tree);
    for name in texts(policy, "tools")?.into_iter().flatten() {
        add(&mut imported, "ask", &name);
    }
    match policy.get("timeoutMs") {
        None => {}
        Some(timeout) => {
            let ms = timeout.as_u64().ok_or_else(|| {
                format!("`timeoutMs` must be a number of milliseconds, not {timeout}")
            })?;
            imported.options.approval_timeout_s = Some((ms / 1_000).max(1));
            if !ms.is_multiple_of(1_000) {
                imported.note(format!("`timeoutMs` {ms} is cut to whole seconds"));
            }
        }
    }
    let tiers = tree.get("tiers").and_then(Value::as_object);
    for (name, tier) in tiers.into_iter().flatten() {
        match tier.as_str() {
            Some("auto") => add(&mut imported, "allow", name),
            Some("async") => {
                imported.note(format!("`{name}`: an answer is waited for, as in the tier sync"));
                add(&mut imported, "ask", name);
            }
            Some("sync") => add(&mut imported, "ask", name),
            _ => {
                return Err(format!(
                    "the tier of `{name}` must be auto, async or sync, not {tier}"
                ));
            }
        }
    }
    for key in ["allowlist", "allowedBinaries", "programs"] {
        if tree.get(key).is_some() {
            imported.note(format!("`{key}`: the dialect agentos has its 40 programs built in"));
        }
    }
    Ok(imported)
}

fn add(imported: &mut Imported, verdict: &str, name: &str) {
    if !is_known(name) {
        return imported.note(format!("`{name}` names no tool that is here"));
    }
    if verdict == "allow" && name == "*" {
        return imported
            .note("a tier auto for every tool is left out; `approvals = \"allow\"` says that");
    }
    imported.rule(rule(verdict, &[name]));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tools_that_need_approval_ask() {
        for (tree, rules, notes) in [
            (
                json!({"tools": ["tool::file_write", "nope::x"], "timeoutMs": 60_500}),
                json!([{"verdict": "ask", "tools": ["tool::file_write"]}]),
                &["`nope::x` names no tool", "cut to whole seconds"][..],
            ),
            (json!({"tools": ["tool::*"]}), json!([{"verdict": "ask", "tools": ["tool::*"]}]), &[]),
            (json!({"tools": ["*"]}), json!([{"verdict": "ask", "tools": ["*"]}]), &[]),
            (
                json!({"tiers": {"tool::file_read": "auto", "tool::apply_patch": "async", "*": "auto"}}),
                json!([
                    {"verdict": "allow", "tools": ["tool::file_read"]},
                    {"verdict": "ask", "tools": ["tool::apply_patch"]},
                ]),
                &["an answer is waited for", "every tool is left out"],
            ),
            (json!({}), json!(null), &[]),
        ] {
            let imported = read(&tree).expect("a policy");
            assert_eq!(
                serde_json::to_value(&imported.options.rules).expect("JSON"),
                rules,
                "{tree}"
            );
            for (note, expected) in imported.notes.iter().zip(notes) {
                assert!(note.contains(expected), "{tree}: {note}");
            }
            assert_eq!(imported.notes.len(), notes.len(), "{tree}: {:?}", imported.notes);
        }
        let timeout = read(&json!({"timeoutMs": 60_500})).expect("a policy").options;
        assert_eq!(timeout.approval_timeout_s, Some(60));
        let short = read(&json!({"timeoutMs": 500})).expect("a policy").options;
        assert_eq!(short.approval_timeout_s, Some(1));
        for tree in [json!({"tools": 1}), json!({"timeoutMs": "x"}), json!({"tiers": {"x": "y"}})] {
            assert!(read(&tree).is_err(), "{tree}");
        }
    }
}
