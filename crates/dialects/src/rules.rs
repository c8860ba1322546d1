//! Resolves tool names in rules to operations.

use std::collections::BTreeSet;

use sinew_tool::{name_matches, tool_matches};

use crate::tools;

/// Operations that a rule about another one includes: a denied Edit also denies MultiEdit.
const FAMILIES: &[(&str, &[&str])] =
    &[("Edit", &["Edit", "MultiEdit"]), ("Read", &["Read", "ReadMany"])];

/// Names of other programs for several operations, which no tool has.
const GROUPS: &[(&str, &[&str])] = &[("browser", &[]), ("memory", &["MemoryRead", "MemoryWrite"])];

/// Operations that can do what another one does and more. Deny rules extend to them; allow rules do not.
///
/// Moving and creating write names too. Find lists all names of Glob and List. Failed changes, previews,
/// searches and checkpoints reveal content, so they count as reads; so does the memory. Terminals run commands.
const STRONGER: &[(&str, &[&str])] = &[
    ("Edit", &["ApplyPatch"]),
    ("Write", &["ApplyPatch", "MakeDirectory", "MemoryWrite", "Move"]),
    (
        "Read",
        &[
            "ApplyPatch",
            "CheckpointDiff",
            "CheckpointRestore",
            "Edit",
            "Grep",
            "MemoryRead",
            "MultiEdit",
            "Undo",
        ],
    ),
    ("Bash", &["Terminal"]),
    ("Glob", &["Find"]),
    ("List", &["Find"]),
];

/// Resolves the names of a deny rule as [`operations`] does, plus the operations that can do the same.
pub fn forbidden(names: &[String]) -> Vec<String> {
    let mut all: BTreeSet<String> = operations(names).into_iter().collect();
    for (weaker, stronger) in STRONGER {
        if all.iter().any(|pattern| name_matches(pattern, weaker)) {
            all.extend(stronger.iter().map(ToString::to_string));
        }
    }
    all.into_iter().collect()
}

/// Resolves tool names of any dialect to operations. A pattern means every operation with a matching name. It
/// stays in the result for custom tools, as do unknown names.
pub fn operations(names: &[String]) -> Vec<String> {
    let tools: Vec<_> = tools().collect();
    let mut operations = BTreeSet::new();
    for name in names {
        // `*` alone covers every tool.
        if let Some((_, members)) = GROUPS.iter().find(|(group, _)| group == name) {
            operations.extend(members.iter().map(ToString::to_string));
        }
        let found: BTreeSet<String> = tools
            .iter()
            .filter(|_| name != "*")
            .filter(|tool| tool_matches(name, tool.name()) || name_matches(name, tool.operation()))
            .map(|tool| tool.operation().to_owned())
            .collect();
        // A custom tool may have the name of a group.
        if found.is_empty() || name.contains('*') {
            operations.insert(name.clone());
        }
        for operation in found {
            let family = FAMILIES.iter().find(|(head, _)| *head == operation);
            match family {
                Some((_, members)) => operations.extend(members.iter().map(ToString::to_string)),
                None => drop(operations.insert(operation)),
            }
        }
    }
    operations.into_iter().collect()
}

/// Returns all tool names for rules, of dialects and operations.
pub fn names() -> BTreeSet<String> {
    let names = tools().flat_map(|tool| [tool.name().to_owned(), tool.operation().to_owned()]);
    names.chain(GROUPS.iter().map(|(group, _)| (*group).to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stands_for_its_operation() {
        for (names, expected) in [
            (vec!["Write"], vec!["Write"]),
            (vec!["Edit", "Glob"], vec!["Edit", "Glob", "MultiEdit"]),
            (vec!["browser", "brow*"], vec!["brow*", "browser"]),
            (vec!["memory"], vec!["MemoryRead", "MemoryWrite", "memory"]),
            (vec!["memory_w*"], vec!["MemoryWrite", "memory_w*"]),
            (vec!["*"], vec!["*"]),
            (vec!["Edi*"], vec!["Edi*", "Edit", "MultiEdit"]),
            (vec!["shell_e*"], vec!["Bash", "shell_e*"]),
            (vec!["tool__shell_exec"], vec!["Bash"]),
            (vec!["tool__shell_*"], vec!["Bash", "tool__shell_*"]),
        ] {
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            assert_eq!(operations(&names), expected);
        }
    }

    #[test]
    fn names_of_other_programs_are_known() {
        let names = names();
        for known in ["browser", "memory", "Spawn", "tool::agent_spawn", "memory_read"] {
            assert!(names.contains(known), "{known}");
        }
        assert!(!names.contains("canvas"));
    }

    #[test]
    fn what_is_denied_is_denied_by_other_names_too() {
        for (names, expected) in [
            (vec!["Write"], vec!["ApplyPatch", "MakeDirectory", "MemoryWrite", "Move", "Write"]),
            (
                vec!["write_file"],
                vec!["ApplyPatch", "MakeDirectory", "MemoryWrite", "Move", "Write"],
            ),
            (vec!["List"], vec!["Find", "List"]),
            (vec!["Edit"], vec!["ApplyPatch", "Edit", "MultiEdit"]),
            (
                vec!["Read"],
                vec![
                    "ApplyPatch",
                    "CheckpointDiff",
                    "CheckpointRestore",
                    "Edit",
                    "Grep",
                    "MemoryRead",
                    "MultiEdit",
                    "Read",
                    "ReadMany",
                    "Undo",
                ],
            ),
            (vec!["shell_exec"], vec!["Bash", "Terminal"]),
            (vec!["Bash*"], vec!["Bash", "Bash*", "BashOutput", "Terminal"]),
            (vec!["List", "ApplyPatch"], vec!["ApplyPatch", "Find", "List"]),
            (vec!["Edit*"], vec!["ApplyPatch", "Edit", "Edit*", "MultiEdit"]),
            (
                vec!["write_f*"],
                vec!["ApplyPatch", "MakeDirectory", "MemoryWrite", "Move", "Write", "write_f*"],
            ),
            (
                vec!["*"],
                vec![
                    "*",
                    "ApplyPatch",
                    "CheckpointDiff",
                    "CheckpointRestore",
                    "Edit",
                    "Find",
                    "Grep",
                    "MakeDirectory",
                    "MemoryRead",
                    "MemoryWrite",
                    "Move",
                    "MultiEdit",
                    "Terminal",
                    "Undo",
                ],
            ),
            (vec!["Gre*"], vec!["Gre*", "Grep"]),
        ] {
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            assert_eq!(forbidden(&names), expected);
        }
    }
}
