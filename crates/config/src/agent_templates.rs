//! Finds templates of sub-agents: Markdown files of the project, of the user and of this machine, and the built-in ones.
//!
//! A template is text that a model follows, so the project's ones count only while the user trusts the project with exactly
//! this content. Of two with a name the first found wins.
#![expect(
    clippy::disallowed_methods,
    reason = "this is one of the places that read files of the user"
)]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use sinew_tool::agents::is_template_name;

use super::files::read_up_to;
use super::trust::Known;
use crate::front_matter::{self, text};
use crate::skills::SkillPlaces;

/// The directory of a project, which trust covers, and of a home.
const AGENTS_DIR: &str = ".agents/agents";
/// The directory of the user's configuration directory.
const USER_DIR: &str = "agents";
/// Where packages install templates for every user.
const MACHINE_DIR: &str = "/usr/share/sinew/agents";
/// The most bytes of one file.
const MAX_BYTES: u64 = 64 << 10;
/// The most templates.
const MAX_TEMPLATES: usize = 200;
/// The longest description, in bytes.
const MAX_DESCRIPTION: usize = 1 << 10;
/// The most rounds of tool calls that a template may ask for.
const MAX_STEPS: u64 = 1_000;
/// The keys that are read and have no effect: they describe, or they are for other programs.
const DESCRIBING: [&str; 8] =
    ["version", "license", "author", "metadata", "color", "tags", "effort", "permissionMode"];

sinew_tool::word_enum! {
    /// Whose a template is.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum TemplateSource {
        /// The project's.
        Project = "project",
        /// The user's.
        User = "user",
        /// Installed for every user of this machine.
        Machine = "machine",
        /// Of sinew itself.
        BuiltIn = "built-in",
    }
}

/// A template of sub-agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentTemplate {
    /// Its name.
    pub name: String,
    /// Whose it is.
    pub source: TemplateSource,
    /// Its file; `None` if it is built in.
    pub path: Option<PathBuf>,
    /// What it is for.
    pub description: String,
    /// The only tools of its agents, as patterns; `None` leaves those of the agent above.
    pub tools: Option<Vec<String>>,
    /// The model; `None` is that of the agent above.
    pub model: Option<String>,
    /// How often its agents may call tools; `None` leaves it to the configuration.
    pub max_steps: Option<u32>,
    /// The instructions of its agents.
    pub body: String,
}

/// The templates that were found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundTemplates {
    /// The templates, by name.
    pub templates: Vec<AgentTemplate>,
    /// The omitted parts, and those read differently than they were meant, in words.
    pub problems: Vec<String>,
}

/// The tools of `explore`, by their operations.
const EXPLORE_TOOLS: [&str; 12] = [
    "Read",
    "ReadMany",
    "Glob",
    "Grep",
    "List",
    "Find",
    "Info",
    "WebFetch",
    "WebSearch",
    "MemoryRead",
    "AgentSend",
    "AgentInbox",
];

/// Returns the templates that are always there.
fn built_in() -> [AgentTemplate; 2] {
    let template =
        |name: &str, description: &str, tools: Option<Vec<String>>, body: &str| AgentTemplate {
            name: name.to_owned(),
            source: TemplateSource::BuiltIn,
            path: None,
            description: description.to_owned(),
            tools,
            model: None,
            max_steps: None,
            body: body.to_owned(),
        };
    [
        template(
            "explore",
            "finds things out; it reads and searches, and changes nothing",
            Some(EXPLORE_TOOLS.map(str::to_owned).to_vec()),
            "Find out what you are asked. Search first, then read the parts that matter. Answer with what you found: \
             facts, each with its file and line or its address, and what you could not find out.",
        ),
        template(
            "general",
            "works on a task with all tools",
            None,
            "Do what you are asked, and no more. Check what you did, for example by running tests. Answer with what you \
             did, which files you changed, and what is left.",
        ),
    ]
}

/// Finds the templates. `trusted` says what the user knows of the project.
pub fn agent_templates(
    places: &SkillPlaces,
    trusted: impl FnOnce(&Path) -> Known,
) -> FoundTemplates {
    let mut found = FoundTemplates::default();
    if let Some(project) = &places.project {
        found.add_project(project, trusted);
    }
    let own = places.config.iter().map(|dir| dir.join(USER_DIR));
    let homes = places.home.iter().map(|home| home.join(AGENTS_DIR));
    let user = own.chain(homes).map(|dir| (dir, TemplateSource::User));
    for (dir, source) in user.chain([(PathBuf::from(MACHINE_DIR), TemplateSource::Machine)]) {
        for path in markdown_files(&dir) {
            let read = read_up_to(&path, MAX_BYTES);
            found.add(path, source, read);
        }
    }
    for template in built_in() {
        if found.templates.iter().all(|known| known.name != template.name) {
            found.templates.push(template);
        }
    }
    found.templates.sort_by(|one, other| one.name.cmp(&other.name));
    found
}

impl FoundTemplates {
    fn add_project(&mut self, project: &Path, trusted: impl FnOnce(&Path) -> Known) {
        if markdown_files(&project.join(AGENTS_DIR)).is_empty() {
            return;
        }
        let mut leave_out = |why: &str| {
            self.problems.push(format!(
                "the templates in {AGENTS_DIR} are left out {why}; `sinew trust` shows it"
            ));
        };
        let content = match trusted(project) {
            Known::Now(content) => content,
            Known::Never => return leave_out("until you trust the project"),
            Known::Before(None) => {
                return leave_out("since the project is another one than you trusted");
            }
            Known::Before(Some(why)) => {
                return leave_out(&format!("since the project's content cannot be read: {why}"));
            }
        };
        let is_template = |path: &Path| {
            path.parent() == Some(Path::new(AGENTS_DIR))
                && path.extension().is_some_and(|e| e == "md")
        };
        for (path, _) in content.files.iter().filter(|(path, _)| is_template(path)) {
            let read = content.text(project, path);
            self.add(project.join(path), TemplateSource::Project, read);
        }
    }

    fn add(&mut self, path: PathBuf, source: TemplateSource, read: io::Result<String>) {
        let mut problem = |why: &str| self.problems.push(format!("{}: {why}", path.display()));
        let left_out = |why: &str| format!("the template is left out: {why}");
        let text = match read {
            Ok(text) if text.len() as u64 <= MAX_BYTES => text,
            Ok(_) => return problem(&left_out("it has more than 64 KiB")),
            Err(error) => return problem(&left_out(&error.to_string())),
        };
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let (template, warnings) = match template_of(&text, &stem, source) {
            Ok(read) => read,
            Err(why) => return problem(&left_out(&why)),
        };
        for warning in warnings {
            problem(&warning);
        }
        if MAX_TEMPLATES <= self.templates.len() {
            return problem(&left_out(&format!("there are {MAX_TEMPLATES} already")));
        }
        let first = self.templates.iter().find(|known| known.name == template.name);
        if let Some(first) = first.and_then(|first| first.path.as_ref()) {
            let words = format!("{} has this name too", first.display());
            return problem(&left_out(&words));
        }
        self.templates.push(AgentTemplate { path: Some(path), ..template });
    }
}

/// Reads a template: what its front matter says, and its instructions.
fn template_of(
    content: &str,
    stem: &str,
    source: TemplateSource,
) -> Result<(AgentTemplate, Vec<String>), String> {
    let (members, body) = front_matter::read(content)?;
    let mut template = AgentTemplate {
        name: stem.to_owned(),
        source,
        path: None,
        description: String::new(),
        tools: None,
        model: None,
        max_steps: None,
        body: body.trim().to_owned(),
    };
    let warnings = template.fill(members.unwrap_or_default())?;
    if !is_template_name(&template.name) {
        return Err(String::from(
            "its name must have 1 to 64 lower-case letters, digits, `-` and `_`",
        ));
    }
    if template.body.is_empty() {
        return Err(String::from("it has no instructions: the text behind the front matter"));
    }
    if template.description.is_empty() {
        let line = template.body.lines().next().unwrap_or_default();
        template.description = sinew_tool::shown_line(line.trim_start_matches(['#', ' ']));
    }
    let end = template.description.floor_char_boundary(MAX_DESCRIPTION);
    template.description.truncate(end);
    Ok((template, warnings))
}

impl AgentTemplate {
    fn fill(&mut self, members: Map<String, Value>) -> Result<Vec<String>, String> {
        let mut warnings = Vec::new();
        for (key, value) in members {
            match key.as_str() {
                "name" => self.name = text(&key, &value)?,
                "description" => {
                    let words = text(&key, &value)?;
                    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
                    self.description = sinew_tool::shown_line(&words);
                }
                "tools" | "allowed-tools" | "allowed_tools" | "allowedTools" => {
                    if self.tools.is_some() {
                        return Err(format!("`{key}` is another list of the tools; write one"));
                    }
                    if value.is_null() {
                        warnings.push(format!(
                            "`{key}` has no value, and no effect; `[]` allows no tool"
                        ));
                        continue;
                    }
                    let (tools, more) = front_matter::tools(&key, &value)?;
                    self.tools = Some(tools);
                    warnings.extend(more);
                }
                "model" => {
                    let model = text(&key, &value)?;
                    self.model = Some(model).filter(|model| model != "inherit");
                }
                "max_steps" | "max-steps" | "maxSteps" | "max_turns" | "max-turns" | "maxTurns" => {
                    let steps = value.as_u64().filter(|steps| (1..=MAX_STEPS).contains(steps));
                    let steps = steps.and_then(|steps| u32::try_from(steps).ok());
                    self.max_steps = Some(
                        steps.ok_or_else(|| format!("`{key}` must be from 1 to {MAX_STEPS}"))?,
                    );
                }
                known if DESCRIBING.contains(&known) => {}
                unknown => {
                    let unknown = sinew_tool::shown_line(unknown);
                    warnings.push(format!("`{unknown}` is not known, and has no effect"));
                }
            }
        }
        Ok(warnings)
    }
}

/// Returns the Markdown files in a directory, by name. Links of the user are followed.
fn markdown_files(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let paths = entries.filter_map(Result::ok).map(|entry| entry.path());
    let is_template =
        |path: &PathBuf| path.extension().is_some_and(|e| e == "md") && path.is_file();
    let mut found: Vec<PathBuf> = paths.filter(is_template).collect();
    found.sort();
    found.truncate(MAX_TEMPLATES);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a template; `expected` is a part of its debug form, or of its error.
    fn check(content: &str, expected: Result<(&str, &[&str]), &str>) {
        let read = template_of(content, "stem", TemplateSource::User);
        match (read, expected) {
            (Ok((template, warnings)), Ok((part, expected))) => {
                let shown = format!("{template:?}");
                assert!(shown.contains(part), "{content}: {shown}");
                assert_eq!(warnings.len(), expected.len(), "{content}: {warnings:?}");
                for (warning, part) in warnings.iter().zip(expected) {
                    assert!(warning.contains(part), "{content}: {warning}");
                }
            }
            (Err(error), Err(part)) => assert!(error.contains(part), "{content}: {error}"),
            (read, _) => panic!("{content}: {read:?}"),
        }
    }

    #[test]
    fn templates_are_read() {
        check(
            "Look.\nMore",
            Ok((r#"name: "stem", source: User, path: None, description: "Look.""#, &[])),
        );
        check(
            "---\nname: reviewer\ntools: Read, Grep\n---\nLook.",
            Ok((r#"tools: Some(["Read", "Grep"])"#, &[])),
        );
        check(
            "---\nname: reviewer\nmodel: inherit\nmax_steps: 7\n---\nLook.",
            Ok(("model: None, max_steps: Some(7)", &[])),
        );
        check(
            "---\nmodel: fast\ncolour: red\ntools: [\"Bash(git:*)\"]\n---\nx",
            Ok(("model: Some(\"fast\")", &["`colour`", "limits arguments"])),
        );
        check("---\ntools: []\n---\nx", Ok(("tools: Some([])", &[])));
        check("---\nname: Up/../x\n---\nx", Err("lower-case letters"));
        check("---\nname: a\n---\n  \n", Err("no instructions"));
        check("---\nname: [a\n---\nx", Err("line 2"));
        check("---\nname: a", Err("does not end"));
        check("---\nmax_steps: 0\n---\nx", Err("from 1 to 1000"));
        check("---\ntools: [a]\nallowed-tools: [b]\n---\nx", Err("write one"));
    }

    #[test]
    fn first_of_a_name_wins() {
        let dir = tempfile::tempdir().expect("directory");
        let (config, home) = (dir.path().join("config"), dir.path().join("home"));
        for (place, text) in [
            (config.join("agents/general.md"), "Mine."),
            (config.join("agents/large.md"), &*"x".repeat(65 << 10)),
            (home.join(".agents/agents/general.md"), "Other."),
            (home.join(".agents/agents/broken.md"), "---\n: [\n---\nx"),
        ] {
            fs::create_dir_all(place.parent().expect("parent")).expect("directory");
            fs::write(place, text).expect("file");
        }
        let project = dir.path().join("project");
        fs::create_dir_all(project.join(AGENTS_DIR)).expect("directory");
        fs::write(project.join(AGENTS_DIR).join("p.md"), "P.").expect("file");
        let places = SkillPlaces { project: Some(project), config: Some(config), home: Some(home) };
        let found = agent_templates(&places, |_| Known::Never);
        let names: Vec<_> =
            found.templates.iter().map(|one| (one.name.as_str(), one.source.as_str())).collect();
        assert_eq!(names, [("explore", "built-in"), ("general", "user")]);
        for part in ["until you trust", "large.md", "has this name too", "broken.md"] {
            assert!(found.problems.iter().any(|one| one.contains(part)), "{part}: {found:?}");
        }
    }
}
