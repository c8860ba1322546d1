//! The MCP clients that `sinew setup` knows: one row each.

use serde_json::{Value, json};

use super::base::{At, Base};
use super::item::{Item, Role, TextFormat};

/// The name under which sinew is registered.
pub(super) const NAME: &str = "sinew";

/// A client, and how sinew is registered there.
#[derive(Debug)]
pub(super) struct ClientRow {
    /// The name on the command line.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// Its programs; one in PATH means that it is installed.
    pub(super) programs: &'static [&'static str],
    /// Its directories; one that exists means so too.
    pub(super) dirs: &'static [At],
    /// The files that may hold the server: the first that exists, else the last.
    pub(super) files: &'static [At],
    pub(super) format: TextFormat,
    /// The table of servers in it.
    pub(super) servers: &'static [&'static str],
    pub(super) form: Form,
    /// Whether the client's own command writes the server.
    pub(super) by_verb: bool,
    /// The settings that switch the client's own tools off.
    pub(super) instead: &'static [Switch],
    /// The tools that the client keeps all the same, for the user.
    pub(super) keeps: &'static str,
    /// How the client shows sinew's questions, and asks its own, for the user.
    pub(super) questions: &'static str,
    /// Another row that holds from a version on.
    pub(super) later: Option<&'static Later>,
}

/// A row for later versions of a client.
#[derive(Debug)]
pub(super) struct Later {
    pub(super) major: u64,
    pub(super) client: &'static ClientRow,
}

/// The form of a server's entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// `command` and `args`.
    Plain,
    /// These with `type`.
    Stdio,
    /// These with an approval mode and a time-out.
    Codex,
    /// `command` with all words.
    Local,
    /// `Local` with `enabled`.
    LocalEnabled,
}

/// A setting that switches tools of the client off.
#[derive(Debug)]
pub(super) enum Switch {
    /// Elements of an array in a file of JSON.
    Elements { file: At, path: &'static [&'static str], elements: &'static [&'static str] },
    /// Properties of an object, each with the same value, in the file of the server.
    Same { path: &'static [&'static str], keys: &'static [&'static str], value: &'static str },
    /// A property that is off.
    Off { path: &'static [&'static str] },
    /// Rules of an array, one for each action, in the file of the server.
    Rules { path: &'static [&'static str], actions: &'static [&'static str] },
    /// A file of its own.
    File { file: At, text: &'static str },
}

/// The clients, in the order of the list.
pub(super) const CLIENTS: &[&ClientRow] =
    &[&CLAUDE, &CODEX, &GEMINI, &OPENCODE, &VSCODE, &CURSOR, &ZED];

const CLAUDE: ClientRow = ClientRow {
    name: "claude",
    title: "Claude Code",
    programs: &["claude"],
    dirs: &[At(Base::Claude, "")],
    files: &[At(Base::ClaudeState, ".claude.json")],
    format: TextFormat::Json,
    servers: &["mcpServers"],
    form: Form::Stdio,
    by_verb: true,
    instead: &[
        Switch::Elements {
            file: At(Base::Claude, "settings.json"),
            path: &["permissions", "allow"],
            elements: &["mcp__sinew"],
        },
        Switch::Elements {
            file: At(Base::Claude, "settings.json"),
            path: &["permissions", "deny"],
            elements: &[
                "Read",
                "Write",
                "Edit",
                "NotebookEdit",
                "Glob",
                "Grep",
                "Bash",
                "WebFetch",
                "WebSearch",
            ],
        },
    ],
    keeps: "Claude Code keeps its sub-agents, skills, worktrees and schedules; sub-agents have sinew's tools too",
    questions: "sinew's questions appear as a form; Enter, Enter takes the default",
    later: None,
};

const CODEX: ClientRow = ClientRow {
    name: "codex",
    title: "Codex",
    programs: &["codex"],
    dirs: &[At(Base::Codex, "")],
    files: &[At(Base::Codex, "config.toml")],
    format: TextFormat::Toml,
    servers: &["mcp_servers"],
    form: Form::Codex,
    by_verb: false,
    instead: &[Switch::Off { path: &["features", "shell_tool"] }],
    keeps: "Codex keeps its patch tool, web search and image viewer; `sandbox_mode = \"read-only\"` makes it ask before each patch",
    questions: "sinew's questions appear as a form; Codex itself does not ask before sinew's tools",
    later: None,
};

const GEMINI: ClientRow = ClientRow {
    name: "gemini",
    title: "Gemini CLI",
    programs: &["gemini"],
    dirs: &[At(Base::Gemini, "")],
    files: &[At(Base::Gemini, "settings.json")],
    format: TextFormat::Json,
    servers: &["mcpServers"],
    form: Form::Plain,
    by_verb: false,
    instead: &[Switch::File { file: At(Base::Gemini, "policies/sinew.toml"), text: GEMINI_POLICY }],
    keeps: "Gemini CLI keeps its plan mode, sub-agents, skills and to-do list",
    questions: "Gemini CLI shows no questions of servers, so what sinew would ask is refused; it asks by itself before each call",
    later: None,
};

/// Denied without a pattern of arguments, a tool is not shown to the model.
const GEMINI_POLICY: &str = "\
# Written by `sinew setup gemini`: sinew's tools take the place of these. `sinew setup gemini --undo` removes the file.
[[rule]]
toolName = [
  \"run_shell_command\",
  \"read_file\",
  \"read_many_files\",
  \"write_file\",
  \"replace\",
  \"glob\",
  \"grep_search\",
  \"list_directory\",
  \"web_fetch\",
  \"google_web_search\",
]
decision = \"deny\"
priority = 900
";

const OPENCODE_1: ClientRow = ClientRow {
    name: "opencode",
    title: "opencode",
    programs: &["opencode"],
    dirs: &[At(Base::Config, "opencode")],
    files: &[
        At(Base::Config, "opencode/opencode.jsonc"),
        At(Base::Config, "opencode/opencode.json"),
    ],
    format: TextFormat::Json,
    servers: &["mcp"],
    form: Form::LocalEnabled,
    by_verb: false,
    instead: &[Switch::Same {
        path: &["permission"],
        keys: &["read", "edit", "bash", "glob", "grep", "list", "webfetch", "websearch"],
        value: "deny",
    }],
    keeps: "opencode keeps its to-do list, tasks and skills",
    questions: "opencode itself does not ask before sinew's tools; a question of sinew that it cannot show is a refusal",
    later: None,
};

/// Version 2 reads the form of version 1 as well.
const OPENCODE_2: ClientRow = ClientRow {
    servers: &["mcp", "servers"],
    form: Form::Local,
    instead: &[Switch::Rules {
        path: &["permissions"],
        actions: &["read", "edit", "shell", "glob", "grep", "webfetch", "websearch"],
    }],
    ..OPENCODE_1
};

const OPENCODE: ClientRow =
    ClientRow { later: Some(&Later { major: 2, client: &OPENCODE_2 }), ..OPENCODE_1 };

const VSCODE: ClientRow = ClientRow {
    name: "vscode",
    title: "VS Code",
    programs: &["code", "code-insiders", "codium"],
    dirs: &[
        At(Base::Config, "Code"),
        At(Base::Home, ".vscode-server"),
        At(Base::Project, ".vscode"),
    ],
    files: &[At(Base::Project, ".vscode/mcp.json")],
    format: TextFormat::Json,
    servers: &["servers"],
    form: Form::Stdio,
    by_verb: false,
    instead: &[],
    keeps: "VS Code keeps its own tools: it has no setting that removes them; a custom agent with `tools: [\"sinew/*\"]` has \
            sinew's alone",
    questions: "sinew's questions appear as a quick pick",
    later: None,
};

const CURSOR: ClientRow = ClientRow {
    name: "cursor",
    title: "Cursor",
    programs: &["cursor", "cursor-agent"],
    dirs: &[At(Base::Home, ".cursor")],
    files: &[At(Base::Home, ".cursor/mcp.json")],
    format: TextFormat::Json,
    servers: &["mcpServers"],
    form: Form::Plain,
    by_verb: false,
    instead: &[],
    keeps: "Cursor keeps its own tools: the editor has no setting that removes them; its command line denies them in \
            `cli-config.json`",
    questions: "Cursor asks before each call; a question of sinew that it cannot show is a refusal",
    later: None,
};

const ZED: ClientRow = ClientRow {
    name: "zed",
    title: "Zed",
    programs: &["zed", "zeditor"],
    dirs: &[At(Base::Config, "zed")],
    files: &[At(Base::Config, "zed/settings.json")],
    format: TextFormat::Json,
    servers: &["context_servers"],
    form: Form::Plain,
    by_verb: false,
    instead: &[],
    keeps: "Zed keeps its own tools; a profile of the agent panel switches them off one by one",
    questions: "Zed shows no questions of servers, so what sinew would ask is refused; it asks by itself before each call",
    later: None,
};

impl ClientRow {
    /// Returns whether its file belongs to a project.
    pub(super) fn is_of_project(&self) -> bool {
        self.files.iter().all(|file| file.0 == Base::Project)
    }

    /// Returns the item that registers a program.
    pub(super) fn server(&self, program: &str, is_beside: bool) -> Item {
        let words = [program, "mcp"];
        let args = ["mcp"];
        let value = match self.form {
            Form::Plain => json!({ "command": program, "args": args }),
            Form::Stdio if self.by_verb && !is_beside => {
                // Without the last key the tools wait behind a search.
                json!({ "type": "stdio", "command": program, "args": args, "alwaysLoad": true })
            }
            Form::Stdio => json!({ "type": "stdio", "command": program, "args": args }),
            Form::Codex => json!({
                "command": program, "args": args,
                "default_tools_approval_mode": "approve", "tool_timeout_sec": 600,
            }),
            Form::Local => json!({ "type": "local", "command": words }),
            Form::LocalEnabled => json!({ "type": "local", "command": words, "enabled": true }),
        };
        let path = self.servers.iter().copied().chain([NAME]).map(String::from).collect();
        Item { path, value, role: Role::Server }
    }
}

impl Switch {
    /// Returns the file in which the switch is, if it is not that of the server.
    pub(super) fn file(&self) -> Option<At> {
        match self {
            Self::Elements { file, .. } | Self::File { file, .. } => Some(*file),
            Self::Same { .. } | Self::Off { .. } | Self::Rules { .. } => None,
        }
    }

    /// Returns the values that it needs.
    pub(super) fn items(&self) -> Vec<Item> {
        let owned = |path: &[&str]| path.iter().copied().map(String::from).collect::<Vec<_>>();
        match self {
            Self::Elements { path, elements, .. } => {
                let item = |one: &&str| Item {
                    path: owned(path),
                    value: Value::from(*one),
                    role: Role::Element,
                };
                elements.iter().map(item).collect()
            }
            Self::Same { path, keys, value } => {
                let item = |key: &&str| Item {
                    path: owned(path).into_iter().chain([String::from(*key)]).collect(),
                    value: Value::from(*value),
                    role: Role::Setting,
                };
                keys.iter().map(item).collect()
            }
            Self::Off { path } => {
                vec![Item { path: owned(path), value: Value::Bool(false), role: Role::Setting }]
            }
            Self::Rules { path, actions } => {
                let rule = |action: &&str| Item {
                    path: owned(path),
                    value: json!({ "action": action, "resource": "*", "effect": "deny" }),
                    role: Role::Element,
                };
                actions.iter().map(rule).collect()
            }
            Self::File { .. } => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_row_has_a_name_a_place_and_words() {
        let names: BTreeSet<&str> = CLIENTS.iter().map(|client| client.name).collect();
        assert_eq!(names.len(), CLIENTS.len());
        for client in CLIENTS {
            assert!(!client.programs.is_empty() && !client.dirs.is_empty(), "{}", client.name);
            assert!(!client.files.is_empty() && !client.servers.is_empty(), "{}", client.name);
            assert!(!client.keeps.is_empty() && !client.questions.is_empty(), "{}", client.name);
            // `toml_text` adds items that are two keys deep.
            let items = client.instead.iter().flat_map(Switch::items);
            let items = items.chain([client.server("/bin/sinew", false)]);
            let is_shallow = items.map(|item| item.path.len()).all(|n| n == 2);
            assert!(client.format == TextFormat::Json || is_shallow, "{}", client.name);
        }
    }
}
