//! Imports molf: `permissions.jsonc`, where the last matching rule wins.
//!
//! sinew's rules have no order. So a rule excepts a later weaker one with `unless`; a later stronger rule
//! wins as it is. molf asks without a match, so each tool gets an ask rule unless another rule matches.
//!
//! An agent's file, `.agents/agents/NAME.md`, has permissions in its front matter. A deny there is a veto
//! and becomes a deny rule for that agent. Its ask and allow rules never win in molf, so none is imported.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;
use sinew_tool::name_matches;

use super::{Imported, pattern, rule};
use crate::front_matter;
use crate::{ConditionOptions, RuleOptions};

/// A rule in molf's form.
#[derive(Debug, Clone, PartialEq, Eq)]
struct MolfRule {
    /// A tool name pattern with `*`.
    permission: String,
    pattern: String,
    verdict: &'static str,
}

impl MolfRule {
    /// Returns whether the name has glob characters other than `*`.
    fn is_odd(&self) -> bool {
        self.permission.contains(SIGNS)
    }

    /// Returns whether a tool matches; a restriction matches every tool that it may mean.
    fn means(&self, tool: &str) -> bool {
        match (self.is_odd(), self.verdict) {
            (false, _) => name_matches(&self.permission, tool),
            (true, "allow") => false,
            (true, _) => name_matches(&self.widely(), tool),
        }
    }

    /// Returns whether the rule matches every tool name.
    fn means_all(&self) -> bool {
        match (self.is_odd(), self.verdict) {
            (false, _) => is_all(&self.permission),
            (true, "allow") => false,
            (true, _) => is_all(&self.widely()),
        }
    }

    /// Returns the name with `*` from the first to the last glob character.
    fn widely(&self) -> String {
        let name = &self.permission;
        let (Some(first), Some(last)) = (name.find(SIGNS), name.rfind(SIGNS)) else {
            return name.clone();
        };
        if name.starts_with('!') {
            // A negated name matches every other tool.
            return String::from("*");
        }
        let head = name.get(..first).unwrap_or_default();
        let tail = name.get(last + 1..).unwrap_or_default();
        format!("{head}*{tail}")
    }
}

/// Glob characters in names, other than `*`.
const SIGNS: &[char] = &['?', '[', ']', '{', '}', '(', ')', '!', '|', '\\', '+', '@', ','];

/// The part of a call that a pattern matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Matched {
    Path,
    Command,
    /// Only `*` matches.
    Nothing,
}

/// molf's tools that sinew has. sinew cannot match the pattern of `glob`.
const TOOLS: [(&str, Matched); 6] = [
    ("shell_exec", Matched::Command),
    ("read_file", Matched::Path),
    ("write_file", Matched::Path),
    ("edit_file", Matched::Path),
    ("glob", Matched::Nothing),
    ("grep", Matched::Path),
];

/// The verdicts, the weakest first.
const VERDICTS: [&str; 3] = ["allow", "ask", "deny"];

/// Imports permissions.
pub(super) fn read(tree: &Value, home: Option<&Path>) -> Result<Imported, String> {
    let mut imported = converted(&written(tree)?, home, "ask");
    if imported.options.rules.is_some() {
        imported.note("rules of agents and answers of a session are not in this file");
    }
    Ok(imported)
}

/// The permissions in an agent's front matter.
#[derive(Debug, Deserialize)]
struct Agent {
    name: String,
    #[serde(default)]
    permission: Option<Value>,
}

/// Imports the deny rules of an agent's file.
pub(super) fn read_agent(text: &str, home: Option<&Path>) -> Result<Imported, String> {
    let (front, _) = front_matter::parted(text)
        .ok_or("begin the file with front matter between lines of `---`")?;
    let Agent { name, permission } =
        serde_saphyr::from_str(front).map_err(|error| error.to_string())?;
    if name.is_empty() || name.contains('*') {
        return Err(format!("`name` must name one agent, not {name:?}"));
    }
    let mut imported = match &permission {
        Some(tree) => converted(&written(tree)?, home, "allow"),
        None => Imported::default(),
    };
    let mut rules = imported.options.rules.take().unwrap_or_default();
    rules.retain(|rule| rule.verdict == "deny");
    rules.iter_mut().for_each(|rule| rule.agents = Some(vec![name.clone()]));
    match rules.is_empty() {
        true => imported = Imported::default(),
        false => imported.options.rules = Some(rules),
    }
    imported.note(format!(
        "what the agent {name} asks or allows is left out: it gives way to every other rule there"
    ));
    Ok(imported)
}

/// Converts permissions, with a default verdict for calls that none of them matches.
fn converted(written: &[MolfRule], home: Option<&Path>, unmatched: &'static str) -> Imported {
    let mut imported = Imported::default();
    for one in written {
        let is_here = TOOLS.iter().any(|(tool, _)| one.means(tool));
        if !is_here {
            imported.note(format!("`{}` names no tool that is here", one.permission));
        }
        if one.is_odd() {
            imported.note(match one.verdict {
                "allow" => format!(
                    "`{}`: {} is left out: such a name cannot be said as narrowly here",
                    one.permission, one.verdict
                ),
                verdict => {
                    format!("`{}`: {verdict} may mean more tools here than there", one.permission)
                }
            });
        }
    }
    if written.is_empty() {
        return imported;
    }
    for (tool, value) in TOOLS {
        let mut rules: Vec<&MolfRule> = Vec::new();
        for one in written.iter().filter(|one| one.means(tool)) {
            // A later rule that may not match the tool overrides nothing.
            let takes_back = |old: &&MolfRule| strength(one.verdict) < strength(old.verdict);
            if !one.is_odd() || !rules.iter().any(takes_back) {
                rules.push(one);
            }
        }
        // Rules before a catch-all rule never win.
        let everything = rules.iter().rposition(|one| is_all(&one.pattern));
        let base = everything.and_then(|at| rules.get(at)).map_or(unmatched, |one| one.verdict);
        rules.drain(..everything.map_or(0, |at| at + 1));
        match value {
            Matched::Nothing => whole(&mut imported, tool, base, &rules),
            Matched::Path => of_paths(&mut imported, tool, base, &rules, home),
            Matched::Command => of_commands(&mut imported, tool, base, &rules),
        }
    }
    // Rules for other names apply to every tool that `TOOLS` lacks.
    let mut of_others = None;
    for one in written.iter().filter(|one| one.means_all() && is_all(&one.pattern)) {
        if !one.is_odd() || of_others.and_then(strength) < strength(one.verdict) {
            of_others = Some(one.verdict);
        }
    }
    if let Some(verdict) = of_others.filter(|verdict| *verdict != "allow") {
        let names = TOOLS.iter().map(|(tool, _)| (*tool).to_owned()).collect();
        let but = ConditionOptions { tools: Some(names), ..ConditionOptions::default() };
        imported.rule(RuleOptions { unless: vec![but], ..rule(verdict, &["*"]) });
    }
    imported.options.dialect = Some(String::from("molf"));
    imported.note(
        "paths are matched where they really are, not as a model writes them, and what is matched is with all \
         beneath it",
    );
    imported
}

/// Parses either form: a table by tool, or a list of rules.
fn written(tree: &Value) -> Result<Vec<MolfRule>, String> {
    let mut all = Vec::new();
    let mut add = |permission: &str, pattern: &str, action: &Value| {
        let verdict = VERDICTS.into_iter().find(|verdict| action.as_str() == Some(verdict));
        let verdict = verdict.ok_or_else(|| {
            format!("`{permission}`, `{pattern}`: an action is allow, ask or deny, not {action}")
        })?;
        for permission in alternatives(permission) {
            all.push(MolfRule { permission, pattern: pattern.to_owned(), verdict });
        }
        Ok::<(), String>(())
    };
    match tree {
        Value::Object(table) => {
            for (permission, what) in table {
                match what {
                    Value::Object(patterns) => {
                        for (pattern, action) in patterns {
                            add(permission, pattern, action)?;
                        }
                    }
                    action => add(permission, "*", action)?,
                }
            }
        }
        Value::Array(list) => {
            for one in list {
                let text = |key: &str| {
                    let text = one.get(key).and_then(Value::as_str);
                    text.ok_or_else(|| {
                        format!("a rule has `{key}`, a text, and this one has none: {one}")
                    })
                };
                add(
                    text("permission")?,
                    text("pattern")?,
                    one.get("action").unwrap_or(&Value::Null),
                )?;
            }
        }
        other => return Err(format!("permissions are a table or a list, not {other}")),
    }
    Ok(all)
}

/// Expands the braces of a name.
fn alternatives(name: &str) -> Vec<String> {
    let parts = name.split_once('{').and_then(|(head, rest)| {
        let (inner, tail) = rest.split_once('}')?;
        let is_plain = inner.contains(',') && !inner.contains(['{', '\\']) && !head.ends_with('\\');
        is_plain.then_some((head, inner, tail))
    });
    let Some((head, inner, tail)) = parts else { return vec![name.to_owned()] };
    inner.split(',').flat_map(|one| alternatives(&format!("{head}{one}{tail}"))).collect()
}

fn is_all(pattern: &str) -> bool {
    !pattern.is_empty() && pattern.chars().all(|sign| sign == '*')
}

fn strength(verdict: &str) -> Option<usize> {
    VERDICTS.iter().position(|known| *known == verdict)
}

/// Adds one rule for a whole tool: the strictest verdict, since its patterns cannot be matched here.
fn whole(imported: &mut Imported, tool: &str, base: &'static str, rules: &[&MolfRule]) {
    let all = rules.iter().map(|one| one.verdict).chain([base]);
    let verdict = all.max_by_key(|verdict| strength(verdict)).unwrap_or("ask");
    if !rules.is_empty() {
        imported.note(format!(
            "patterns for `{tool}` have no meaning here; the strictest of its rules, {verdict}, holds for \
             all of its calls"
        ));
    }
    imported.rule(rule(verdict, &[tool]));
}

/// Returns the tools of a rule. A file that may not be read may not be searched either.
fn tools_of(tool: &'static str, verdict: &str) -> Vec<&'static str> {
    match tool {
        "read_file" if verdict != "allow" => vec![tool, "grep"],
        _ => vec![tool],
    }
}

fn of_paths(
    imported: &mut Imported,
    tool: &'static str,
    base: &'static str,
    rules: &[&MolfRule],
    home: Option<&Path>,
) {
    let exceptions = |imported: &mut Imported, from: usize, verdict: &str| {
        let weaker =
            rules.iter().skip(from).filter(|one| strength(one.verdict) < strength(verdict));
        let mut globs = Vec::new();
        for one in weaker {
            match pattern::paths(&one.pattern, home) {
                Some(paths) => globs.extend(paths),
                None => imported.note(not_meant(tool, one)),
            }
        }
        globs
    };
    let add = |imported: &mut Imported,
               verdict,
               paths: Option<Vec<String>>,
               but: Vec<String>,
               tools: &[&str]| {
        // sinew's exception includes everything beneath a path; molf's does not.
        let guard: Vec<String> = but
            .iter()
            .filter(|glob| !glob.ends_with('*'))
            .map(|glob| format!("{}/*", glob.trim_end_matches('/')))
            .collect();
        let unless = match but.is_empty() {
            true => Vec::new(),
            false => vec![ConditionOptions { paths: Some(but), ..ConditionOptions::default() }],
        };
        let has_some = !unless.is_empty();
        let paths = paths.or_else(|| has_some.then(|| vec![String::from("**")]));
        imported.rule(RuleOptions { paths, unless, ..rule(verdict, tools) });
        if !guard.is_empty() {
            imported.rule(RuleOptions { paths: Some(guard), ..rule(verdict, tools) });
        }
    };
    let but = match base {
        "allow" => Vec::new(),
        base => exceptions(imported, 0, base),
    };
    add(imported, base, None, but, &[tool]);
    for (at, one) in rules.iter().enumerate() {
        let tools = tools_of(tool, one.verdict);
        if one.verdict == "allow" {
            match pattern::paths(&one.pattern, home) {
                Some(paths) => add(imported, one.verdict, Some(paths), Vec::new(), &tools),
                None => imported.note(not_meant(tool, one)),
            }
            continue;
        }
        if pattern::paths(&one.pattern, home).is_none() {
            imported.note(wider(tool, one));
        }
        let but = exceptions(imported, at + 1, one.verdict);
        add(imported, one.verdict, Some(pattern::wide_paths(&one.pattern, home)), but, &tools);
    }
}

fn of_commands(
    imported: &mut Imported,
    tool: &'static str,
    base: &'static str,
    rules: &[&MolfRule],
) {
    let add = |imported: &mut Imported, from: usize, verdict: &str, command: String| {
        let mut unless = Vec::new();
        let mut guard = Vec::new();
        for one in rules.iter().skip(from).filter(|one| strength(one.verdict) < strength(verdict)) {
            match pattern::command(&one.pattern) {
                Some(command) => {
                    guard.extend(pattern::besides(&command));
                    let command = Some(command);
                    unless.push(ConditionOptions { command, ..ConditionOptions::default() });
                }
                None => imported.note(not_meant(tool, one)),
            }
        }
        imported.rule(RuleOptions { command: Some(command), unless, ..rule(verdict, &[tool]) });
        for command in guard {
            imported.rule(RuleOptions { command: Some(command), ..rule(verdict, &[tool]) });
        }
    };
    match base {
        "allow" => imported.rule(rule(base, &[tool])),
        base => add(imported, 0, base, String::from("*")),
    }
    for (at, one) in rules.iter().enumerate() {
        if one.verdict == "allow" {
            match pattern::command(&one.pattern) {
                Some(command) => imported
                    .rule(RuleOptions { command: Some(command), ..rule(one.verdict, &[tool]) }),
                None => imported.note(not_meant(tool, one)),
            }
            continue;
        }
        let command = pattern::wide_command(&one.pattern);
        if pattern::command(&one.pattern).as_deref() != Some(&*command) {
            imported.note(wider(tool, one));
        }
        add(imported, at + 1, one.verdict, command);
    }
    imported.note(
        "a command by its path, with options before the words of a rule, with redirections, or run by another \
         program is held back where molf would have allowed it",
    );
}

fn not_meant(tool: &str, one: &MolfRule) -> String {
    format!(
        "`{tool}`: {} for `{}` is left out: its pattern cannot be said as narrowly here",
        one.verdict, one.pattern
    )
}

fn wider(tool: &str, one: &MolfRule) -> String {
    format!("`{tool}`: {} for `{}` means more here than there", one.verdict, one.pattern)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(tree: Value, expected: &[&str]) {
        let imported = read(&tree, None).expect("permissions");
        let rules = imported.options.rules.unwrap_or_default();
        let text = |rule: &RuleOptions| {
            let but = rule.unless.iter().map(|but| {
                let paths = but.paths.clone().unwrap_or_default();
                format!(" unless {}", but.command.clone().unwrap_or_else(|| paths.join(" ")))
            });
            format!(
                "{} {} {}{}",
                rule.verdict,
                rule.tools.clone().unwrap_or_default().join("+"),
                rule.command.clone().unwrap_or_else(|| rule
                    .paths
                    .clone()
                    .unwrap_or_default()
                    .join(" ")),
                but.collect::<String>()
            )
        };
        let found: Vec<String> = rules.iter().map(text).collect();
        let found: Vec<&str> = found.iter().map(|rule| rule.trim_end()).collect();
        let others = [
            "ask glob",
            "ask grep",
            "ask edit_file",
            "ask write_file",
            "ask shell_exec *",
            "ask read_file",
        ];
        let found: Vec<&&str> = found.iter().filter(|rule| !others.contains(rule)).collect();
        assert_eq!(found, expected.iter().collect::<Vec<_>>(), "{tree}");
    }

    #[test]
    fn what_an_agent_may_not_do_is_a_veto_for_that_agent() {
        for (front, expected) in [
            (
                "name: explore\ndescription: looks\npermission:\n  write_file: deny\n",
                &["write_file "] as &[_],
            ),
            (
                "name: explore\npermission:\n  shell_exec:\n    'git push*': deny\n    'git *': allow\n",
                &["shell_exec */git * *", "shell_exec git push* * unless git * *"],
            ),
            (
                "name: explore\npermission:\n  shell_exec: { 'git *': allow, 'git push*': deny }\n",
                &["shell_exec git push* *"],
            ),
            (
                "name: explore\npermission:\n  '*': deny\n  read_file: allow\n  grep: allow\n",
                &["shell_exec *", "write_file ", "edit_file ", "glob ", "* "],
            ),
            ("name: explore\npermission:\n  read_file: ask\n  glob: allow\n", &[]),
            ("name: explore\n", &[]),
        ] {
            let text = format!("---\n{front}---\nYou look.\n");
            let imported = read_agent(&text, None).expect(front);
            let rules = imported.options.rules.unwrap_or_default();
            for rule in &rules {
                assert_eq!(rule.verdict, "deny", "{front}");
                assert_eq!(rule.agents.as_deref(), Some(&[String::from("explore")] as &[_]));
            }
            let said = |rule: &RuleOptions| {
                let tools = rule.tools.clone().unwrap_or_default().join("+");
                let but = rule.unless.iter().filter_map(|but| but.command.as_ref());
                let but: String = but.map(|command| format!(" unless {command}")).collect();
                format!("{tools} {}{but}", rule.command.clone().unwrap_or_default())
            };
            let mut found: Vec<String> = rules.iter().map(said).collect();
            found.sort();
            let mut expected: Vec<String> = expected.iter().map(ToString::to_string).collect();
            expected.sort();
            assert_eq!(found, expected, "{front}");
            assert!(imported.notes.iter().any(|note| note.contains("the agent explore")));
        }
        for (text, words) in [
            ("You look.", "front matter"),
            ("---\nname: x\n", "front matter"),
            ("---\npermission: {}\n---\n", "name"),
            ("---\nname: '*'\n---\n", "must name one agent"),
            ("---\nname: x\npermission: {a: perhaps}\n---\n", "allow, ask or deny"),
            ("---\nname: [x\n---\n", ""),
        ] {
            let error = read_agent(text, None).expect_err(text);
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn the_last_rule_that_matches_wins() {
        check(json!({"read_file": "allow"}), &["allow read_file"]);
        check(
            json!({"read_file": {"*": "allow", "*.env": "deny", "*.env.example": "allow"}}),
            &[
                "allow read_file",
                "deny read_file+grep **/*.env unless **/*.env.example",
                "deny read_file+grep **/*.env.example/*",
                "allow read_file **/*.env.example",
            ],
        );
        check(json!({"read_file": {"*.env": "deny", "*": "allow"}}), &["allow read_file"]);
        check(
            json!({"write_file": {"a/*": "allow", "*.md": "deny"}}),
            &["ask write_file ** unless a/*", "allow write_file a/*", "deny write_file **/*.md"],
        );
        check(
            json!({"shell_exec": {"git *": "allow", "git push *": "deny"}}),
            &[
                "ask shell_exec * unless git * *",
                "ask shell_exec */git * *",
                "allow shell_exec git * *",
                "deny shell_exec git push *",
            ],
        );
        check(
            json!([{"permission": "*_file", "pattern": "*", "action": "deny"},
                   {"permission": "grep", "pattern": "*", "action": "allow"}]),
            &["deny read_file", "deny write_file", "deny edit_file", "allow grep"],
        );
        check(json!({"glob": {"*": "allow", "x": "deny"}}), &["deny glob"]);
        check(
            json!({"*": "allow", "{write,edit}_file": "deny", "shell_exe?": "deny"}),
            &[
                "deny shell_exec *",
                "allow read_file",
                "deny write_file",
                "deny edit_file",
                "allow glob",
                "allow grep",
            ],
        );
        check(
            json!({"*": "allow", "[rw]*_file": "deny", "!grep": "ask"}),
            &["deny read_file", "deny write_file", "deny edit_file", "ask *  unless"],
        );
        check(json!({"grep": "deny", "!grep": "ask"}), &["deny grep", "ask *  unless"]);
        check(
            json!({"*": "deny"}),
            &[
                "deny shell_exec *",
                "deny read_file",
                "deny write_file",
                "deny edit_file",
                "deny glob",
                "deny grep",
                "deny *  unless",
            ],
        );
        check(json!({}), &[]);
    }

    #[test]
    fn what_is_no_permission_is_told() {
        for (tree, said) in [
            (json!({"read_file": "perhaps"}), "allow, ask or deny, not \"perhaps\""),
            (json!({"read_file": {"a": 1}}), "`read_file`, `a`"),
            (json!([{"permission": "x"}]), "`pattern`"),
            (json!([1]), "`permission`"),
            (json!(1), "a table or a list"),
        ] {
            let error = read(&tree, None).expect_err("no permission");
            assert!(error.contains(said), "{tree}: {error}");
        }
        let notes =
            read(&json!({"skill": "ask", "read_file": {"a?": "allow"}}), None).expect("some").notes;
        assert!(notes.iter().any(|note| note.contains("`skill` names no tool")), "{notes:?}");
        assert!(notes.iter().any(|note| note.contains("allow for `a?` is left out")), "{notes:?}");
    }
}
