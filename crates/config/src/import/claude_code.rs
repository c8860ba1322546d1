//! Imports Claude Code: `permissions` of `settings.json`, with rules such as `Bash(npm run test:*)`.
//! In both programs deny beats ask beats allow, in any order.

use sinew_guard::HostPattern;
use std::path::Path;

use serde_json::Value;

use super::{Imported, claude_hooks, is_known, pattern, rule, texts};
use crate::RuleOptions;

/// The tools that the name `Read` covers: what may not be read may not be found either.
const READING: [&str; 4] = ["Read", "Grep", "Glob", "List"];
const EDITING: [&str; 2] = ["Edit", "Write"];
/// The prefix of sinew's tools in Claude Code.
pub(super) const OWN: &str = "mcp__sinew__";

/// Imports settings.
pub(super) fn read(tree: &Value, home: Option<&Path>) -> Result<Imported, String> {
    let mut imported = Imported::default();
    for key in
        ["enableAllProjectMcpServers", "enabledMcpjsonServers", "disabledMcpjsonServers", "sandbox"]
    {
        if tree.get(key).is_some() {
            imported.note(format!("`{key}` is not carried over"));
        }
    }
    if let Some(hooks) = tree.get("hooks") {
        let disabled = tree.get("disableAllHooks") == Some(&Value::Bool(true));
        claude_hooks::read(&mut imported, hooks, disabled)?;
    }
    let Some(permissions) = tree.get("permissions") else { return Ok(imported) };
    if permissions.get("disableBypassPermissionsMode").is_some() {
        imported.note(
            "`disableBypassPermissionsMode` is not carried over; `managed.approvals` in the system's file says \
             such a thing",
        );
    }
    let uses_sinew = uses_sinew(tree);
    for verdict in ["deny", "ask", "allow"] {
        for written in texts(permissions, verdict)?.into_iter().flatten() {
            // Settings that use sinew deny the client's own tools, so that sinew takes every call.
            let is_bare = !written.contains(['(', '*']) && !written.starts_with("mcp__");
            if uses_sinew && verdict == "deny" && is_bare {
                imported.note(format!(
                    "`{written}` is left out: it means the tool of Claude Code, beside which sinew serves its own"
                ));
                continue;
            }
            add(&mut imported, verdict, &written, home)?;
        }
    }
    match permissions.get("defaultMode").map(|mode| (mode, mode.as_str())) {
        None | Some((_, Some("default"))) => {}
        Some((_, Some("acceptEdits"))) => {
            let effects = Some(vec![String::from("change")]);
            imported.rule(RuleOptions { effects, ..rule("allow", &[]) });
        }
        Some((_, Some("plan"))) => imported.options.profile = Some(String::from("read-only")),
        Some((_, Some("dontAsk"))) => imported.options.approvals = Some(String::from("deny")),
        Some((_, Some("bypassPermissions"))) => imported.note(
            "`defaultMode` bypassPermissions is left out, because it allows every call; \
             `approvals = \"allow\"` says that",
        ),
        Some((mode, _)) => imported.note(format!("`defaultMode` {mode} is not known here")),
    }
    let more = texts(permissions, "additionalDirectories")?.unwrap_or_default();
    if !more.is_empty() {
        let mut roots = vec![".".into()];
        for dir in more {
            match (dir.strip_prefix("~/"), home) {
                (None, _) => roots.push(dir.into()),
                (Some(rest), Some(home)) => roots.push(home.join(rest)),
                (Some(_), None) => {
                    imported.note(format!("`{dir}`: the home directory is not known"))
                }
            }
        }
        imported.options.roots = Some(roots);
    }
    Ok(imported)
}

/// Returns whether settings let Claude Code use sinew.
fn uses_sinew(tree: &Value) -> bool {
    let names = |list: Option<&Value>| -> Vec<String> {
        let all = list.and_then(Value::as_array).into_iter().flatten();
        all.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let allowed = names(tree.pointer("/permissions/allow"));
    let enabled = names(tree.get("enabledMcpjsonServers"));
    allowed.iter().any(|name| name.starts_with("mcp__sinew"))
        || enabled.iter().any(|name| name == "sinew")
}

fn add(
    imported: &mut Imported,
    verdict: &str,
    written: &str,
    home: Option<&Path>,
) -> Result<(), String> {
    let (name, what) = match written.split_once('(') {
        None => (written, None),
        Some((name, rest)) => {
            let what = rest.strip_suffix(')');
            let what = what.ok_or_else(|| format!("`{written}` has no `)` at its end"))?;
            (name, Some(what).filter(|what| !what.is_empty() && *what != "*" && *what != "**"))
        }
    };
    match (name, what) {
        ("Bash", Some(command)) => of_command(imported, verdict, written, command),
        ("Read", Some(path)) => of_path(imported, verdict, written, path, &READING, home),
        ("Edit" | "Write" | "MultiEdit", Some(path)) => {
            of_path(imported, verdict, written, path, &EDITING, home);
        }
        ("WebFetch", Some(what)) => match what.strip_prefix("domain:") {
            Some(host) if HostPattern::parse(host).is_err() => {
                imported.note(format!("`{written}` is left out: it names no host"));
            }
            Some(host) => {
                let hosts = Some(vec![host.to_owned()]);
                let tools: &[&str] = if verdict == "allow" { &["WebFetch"] } else { &[] };
                imported.rule(RuleOptions { hosts, ..rule(verdict, tools) });
            }
            None => imported.note(format!("`{written}` is left out: it names no domain")),
        },
        // In Claude Code `Read` also covers searching.
        ("Read", None) if verdict != "allow" => imported.rule(rule(verdict, &READING)),
        ("Edit" | "Write", None) if verdict != "allow" => imported.rule(rule(verdict, &EDITING)),
        // Every tool, or every tool of this server.
        ("*" | "mcp__sinew" | "mcp__sinew__*" | "mcp__*", what) if verdict != "allow" => {
            if what.is_some() {
                imported.note(format!("`{written}` means every call of every tool here"));
            }
            imported.rule(rule(verdict, &["*"]));
        }
        (name, what) => {
            let own = name.strip_prefix(OWN).unwrap_or(name);
            if own.is_empty() || own.starts_with('*') || !is_known(own) {
                imported.note(format!("`{written}` is left out: it names no tool that is here"));
                return Ok(());
            }
            match (what, verdict) {
                (None, _) => {}
                (Some(_), "allow") => {
                    imported.note(left_out(written));
                    return Ok(());
                }
                (Some(_), _) => imported.note(format!("`{written}` means every call of it here")),
            }
            imported.rule(rule(verdict, &[own]));
        }
    }
    Ok(())
}

fn left_out(written: &str) -> String {
    format!("`{written}` is left out: it cannot be said as narrowly here")
}

/// Imports a command rule; `npm run test:*` is a prefix match.
fn of_command(imported: &mut Imported, verdict: &str, written: &str, command: &str) {
    let begins = command.strip_suffix(":*");
    let is_variable = |word: &str| {
        let name = word.split_once('=').map(|(name, _)| name);
        name.is_some_and(|name| {
            !name.is_empty() && name.chars().all(|sign| sign.is_ascii_alphanumeric() || sign == '_')
        })
    };
    // Here deny and ask rules skip variables before a command; allow rules never match them.
    let bare: Vec<&str> = command.split_whitespace().skip_while(|word| is_variable(word)).collect();
    let bare = bare.join(" ");
    let has_variables = command.split_whitespace().next().is_some_and(is_variable);
    let (command, begins) = match verdict {
        "allow" => (command, begins),
        _ if has_variables => (&*bare, bare.strip_suffix(":*")),
        _ => (command, begins),
    };
    let command = match verdict {
        "allow" if has_variables => None,
        "allow" => {
            let narrow = pattern::command(begins.unwrap_or(command));
            match begins {
                Some(_) => narrow.map(|narrow| format!("{narrow} *")),
                None => narrow,
            }
        }
        _ => {
            // In Claude Code `git push:*` may match `git pushx`.
            let meant = begins.map_or_else(|| command.to_owned(), |begins| format!("{begins}*"));
            let meant = meant.split_whitespace().collect::<Vec<_>>().join(" ");
            let wide = pattern::wide_command(&meant);
            if wide != meant && wide != format!("{meant} *") {
                imported.note(format!("`{written}` means every `{wide}` here, which is more"));
            }
            Some(wide)
        }
    };
    match command {
        Some(command) => {
            imported.rule(RuleOptions { command: Some(command), ..rule(verdict, &["Bash"]) });
        }
        None => imported.note(left_out(written)),
    }
}

/// Paths have gitignore syntax; `//` begins an absolute path, `/` one beneath the project.
fn of_path(
    imported: &mut Imported,
    verdict: &str,
    written: &str,
    path: &str,
    tools: &[&str],
    home: Option<&Path>,
) {
    let glob = match (path.strip_prefix("//"), path.strip_prefix("~/")) {
        (Some(rest), _) => format!("/{rest}"),
        (None, Some(rest)) => match home.and_then(Path::to_str) {
            Some(home) => format!("{home}/{rest}"),
            None => return imported.note(format!("`{written}`: the home directory is not known")),
        },
        (None, None) if path == "~" => match home.and_then(Path::to_str) {
            Some(home) => home.to_owned(),
            None => return imported.note(format!("`{written}`: the home directory is not known")),
        },
        (None, None) => {
            let beneath = path.trim_start_matches("./").trim_start_matches('/');
            // As in gitignore, a bare name matches in any directory.
            let name = path.trim_end_matches('/');
            let is_name = !name.contains('/') && !name.is_empty() && name != ".";
            match is_name {
                true => format!("**/{beneath}"),
                false => beneath.to_owned(),
            }
        }
    };
    // In Claude Code braces are literal.
    let glob = glob.replace('{', "[{]").replace('}', "[}]");
    let is_odd = glob.is_empty()
        || glob == "."
        || glob.split('/').any(|part| part == "..")
        || glob.starts_with('!');
    match (is_odd, verdict) {
        (false, _) => {
            let paths = Some(vec![glob]);
            imported.rule(RuleOptions { paths, ..rule(verdict, tools) });
            if tools == READING && verdict != "allow" {
                imported.note(
                    "commands may still read what `Read` denies; `run.hide` hides absolute paths from them",
                );
            }
        }
        (true, "allow") => imported.note(left_out(written)),
        (true, _) => {
            imported.note(format!("`{written}` means every path here"));
            imported.rule(rule(verdict, tools));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(permissions: Value, options: Value, notes: &[&str]) {
        let tree = json!({ "permissions": permissions, "env": {} });
        let imported = read(&tree, Some(Path::new("/home/me"))).expect("settings");
        assert_eq!(serde_json::to_value(&imported.options).expect("JSON"), options, "{tree}");
        assert_eq!(imported.notes.len(), notes.len(), "{tree}: {:?}", imported.notes);
        for (note, expected) in imported.notes.iter().zip(notes) {
            assert!(note.contains(expected), "{tree}: {note}");
        }
    }

    #[test]
    fn rules_for_commands_keep_their_meaning() {
        for (written, narrow, wide) in [
            ("Bash(npm run test:*)", Some("npm run test *"), "npm run test* *"),
            ("Bash(git status)", Some("git status"), "git status"),
            ("Bash(git log *)", Some("git log * *"), "git log *"),
            ("Bash(rm -rf $HOME)", None, "rm -rf *"),
            ("Bash(FOO=1 git push)", None, "git push"),
            ("Bash(A=1 B=2 git push:*)", None, "git push* *"),
            ("Bash(git * --force)", Some("git * --force"), "git *"),
        ] {
            let rule = |verdict: &str, command: &str| json!({"rules": [{"verdict": verdict, "tools": ["Bash"], "command": command}]});
            match narrow {
                Some(narrow) => check(json!({"allow": [written]}), rule("allow", narrow), &[]),
                None => check(json!({"allow": [written]}), json!({}), &["is left out"]),
            }
            let is_more = written.contains("$HOME") || written.contains("--force");
            let notes = if is_more { &["here, which is more"][..] } else { &[] };
            check(json!({"deny": [written]}), rule("deny", wide), notes);
        }
    }

    #[test]
    fn rules_for_paths_keep_their_meaning() {
        for (written, glob) in [
            ("Edit(docs/**)", "docs/**"),
            ("Edit(./.env)", ".env"),
            ("Edit(.env)", "**/.env"),
            ("Edit(*.pem)", "**/*.pem"),
            ("Edit(/src/x)", "src/x"),
            ("Edit(//etc/x)", "/etc/x"),
            ("Edit(~/x)", "/home/me/x"),
            ("Edit(~)", "/home/me"),
            ("Edit(secrets/)", "**/secrets/"),
            ("Edit(/secrets/)", "secrets/"),
            ("Edit(./secrets/)", "secrets/"),
            ("Edit(a{b,c})", "**/a[{]b,c[}]"),
        ] {
            let rules = json!([{"verdict": "ask", "tools": ["Edit", "Write"], "paths": [glob]}]);
            check(json!({"ask": [written]}), json!({ "rules": rules }), &[]);
        }
        check(
            json!({"deny": ["Read(./.env)"]}),
            json!({"rules": [
                {"verdict": "deny", "tools": ["Read", "Grep", "Glob", "List"], "paths": [".env"]},
            ]}),
            &["commands may still read"],
        );
        check(json!({"allow": ["Edit(../x)"]}), json!({}), &["is left out"]);
        check(
            json!({"deny": ["Edit(../x)"]}),
            json!({"rules": [{"verdict": "deny", "tools": ["Edit", "Write"]}]}),
            &["means every path"],
        );
    }

    #[test]
    fn hooks_keep_their_events_and_matchers() {
        #[track_caller]
        fn check_hooks(hooks: Value, expected: Value, notes: &[&str]) {
            let imported = read(&json!({ "hooks": hooks }), None).expect("settings");
            let options = serde_json::to_value(&imported.options).expect("JSON");
            assert_eq!(options.get("hooks").cloned().unwrap_or(json!([])), expected, "{hooks}");
            assert_eq!(imported.notes.len(), notes.len(), "{hooks}: {:?}", imported.notes);
            for (note, expected) in imported.notes.iter().zip(notes) {
                assert!(note.contains(expected), "{hooks}: {note}");
            }
        }
        let group = |matcher: &str| json!([{"matcher": matcher, "hooks": [{"type": "command", "command": "/opt/guard -s"}]}]);
        let hook = |event: &str, tools: &[&str]| {
            let mut hook = json!({
                "event": event, "payload": "claude-code", "command": "/opt/guard -s", "timeout": 60,
            });
            if !tools.is_empty() {
                hook["tools"] = json!(tools);
            }
            json!([hook])
        };
        for (matcher, tools, notes) in [
            ("", &[][..], &[][..]),
            ("*", &[], &[]),
            ("Bash", &["Bash"], &[]),
            ("Bash|Read", &["Bash", "Read"], &[]),
            ("mcp__sinew__Glob", &["Glob"], &[]),
            ("mcp__.*", &[], &[]),
            ("mcp__.*__Write", &["Write"], &["does not see what `ApplyPatch`"]),
            ("Edit|Write", &["Edit", "Write"], &["does not see what `ApplyPatch`"]),
            ("Write|Task", &["Write"], &["`Task`", "`ApplyPatch`"]),
            ("^(Bash)$", &[], &["runs for every tool"]),
        ] {
            check_hooks(json!({"PreToolUse": group(matcher)}), hook("PreToolUse", tools), notes);
        }
        check_hooks(json!({"Stop": group("x")}), hook("Stop", &[]), &[]);
        check_hooks(
            json!({"SessionStart": group("startup|resume")}),
            hook("SessionStart", &[]),
            &[],
        );
        check_hooks(json!({"SessionStart": group("compact")}), json!([]), &["start anew"]);
        check_hooks(json!({"PreToolUse": group("Task")}), json!([]), &["names no tool"]);
        check_hooks(json!({"Notification": group("")}), json!([]), &["no such event"]);
        let prompt = json!([{"hooks": [{"type": "prompt", "prompt": "x"}]}]);
        check_hooks(json!({"Stop": prompt}), json!([]), &["only programs"]);
        let of_project = json!([{"hooks": [
            {"type": "command", "command": "$CLAUDE_PROJECT_DIR/.claude/hooks/x.sh", "timeout": 5},
        ]}]);
        check_hooks(
            json!({ "PostToolUse": of_project }),
            json!([{
                "event": "PostToolUse", "payload": "claude-code", "timeout": 5, "in_root": true,
                "command": "$CLAUDE_PROJECT_DIR/.claude/hooks/x.sh",
            }]),
            &["program of the project"],
        );
        let of_user = json!([{"hooks": [{"type": "command", "command": "~/.claude/hooks/x.sh"}]}]);
        check_hooks(
            json!({ "Stop": of_user }),
            json!([{
                "event": "Stop", "payload": "claude-code", "timeout": 60, "command": "~/.claude/hooks/x.sh",
            }]),
            &[],
        );
        let off = read(&json!({"disableAllHooks": true, "hooks": {"Stop": group("")}}), None);
        let off = off.expect("settings");
        assert!(off.options.hooks.is_none() && off.notes[0].contains("disableAllHooks"));
        for (hooks, said) in [
            (json!([]), "table of events"),
            (json!({"Stop": 1}), "must be a list"),
            (json!({"Stop": [{}]}), "no `hooks`"),
            (json!({"Stop": [{"hooks": [{"type": "command"}]}]}), "no `command`"),
            (
                json!({"Stop": [{"hooks": [{"type": "command", "command": "x", "timeout": 0}]}]}),
                "1 to 3,600",
            ),
        ] {
            let error = read(&json!({ "hooks": hooks }), None).expect_err("wrong");
            assert!(error.contains(said), "{hooks}: {error}");
        }
    }

    #[test]
    fn names_modes_and_directories_are_taken() {
        check(
            json!({"allow": ["Glob", "mcp__sinew__Write", "mcp__other__x", "mcp__sinew__*", "Nope(x)"]}),
            json!({"rules": [
                {"verdict": "allow", "tools": ["Glob"]}, {"verdict": "allow", "tools": ["Write"]},
            ]}),
            &["mcp__other__x", "mcp__sinew__*", "Nope(x)"],
        );
        check(
            json!({"deny": ["WebFetch(domain:x.org)", "WebFetch(y)", "Bash(*)", "Read"]}),
            json!({"rules": [
                {"verdict": "deny", "hosts": ["x.org"]}, {"verdict": "deny", "tools": ["Bash"]},
                {"verdict": "deny", "tools": ["Read", "Grep", "Glob", "List"]},
            ]}),
            &["`WebFetch(y)`"],
        );
        // The settings that sinew's own page gives: they locked its tools out.
        check(
            json!({
                "allow": ["mcp__sinew__Read"], "deny": ["Read", "Bash", "Edit(secrets/**)", "mcp__sinew__Write"],
            }),
            json!({"rules": [
                {"verdict": "deny", "tools": ["Edit", "Write"], "paths": ["secrets/**"]},
                {"verdict": "deny", "tools": ["Write"]}, {"verdict": "allow", "tools": ["Read"]},
            ]}),
            &["`Read` is left out", "`Bash` is left out"],
        );
        for every in ["*", "mcp__sinew", "mcp__sinew__*"] {
            check(
                json!({"deny": [every]}),
                json!({"rules": [{"verdict": "deny", "tools": ["*"]}]}),
                &[],
            );
            check(json!({"allow": [every]}), json!({}), &["is left out"]);
        }
        check(
            json!({"allow": ["WebFetch(domain:x.org)"]}),
            json!({"rules": [{"verdict": "allow", "tools": ["WebFetch"], "hosts": ["x.org"]}]}),
            &[],
        );
        check(
            json!({"disableBypassPermissionsMode": "disable"}),
            json!({}),
            &["managed.approvals"],
        );
        check(
            json!({"defaultMode": "acceptEdits"}),
            json!({"rules": [{"verdict": "allow", "effects": ["change"]}]}),
            &[],
        );
        check(json!({"defaultMode": "plan"}), json!({"profile": "read-only"}), &[]);
        check(json!({"defaultMode": "dontAsk"}), json!({"approvals": "deny"}), &[]);
        check(json!({"defaultMode": "bypassPermissions"}), json!({}), &["allows every call"]);
        check(json!({"defaultMode": "new"}), json!({}), &["not known"]);
        check(
            json!({"additionalDirectories": ["../x", "~/y"]}),
            json!({"roots": [".", "../x", "/home/me/y"]}),
            &[],
        );
        for (tree, said) in [
            (json!({"permissions": {"allow": "x"}}), "`allow` must be a list"),
            (json!({"permissions": {"deny": ["Bash(x"]}}), "`Bash(x` has no `)`"),
        ] {
            assert!(read(&tree, None).expect_err("wrong").contains(said), "{tree}");
        }
    }
}
