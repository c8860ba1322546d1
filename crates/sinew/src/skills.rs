//! The skills of a session: found in their directories, loaded with the output of their commands, and the tools that
//! they leave.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use serde_json::json;
use sinew_runtime::{CallOptions, Runtime};
use sinew_tool::sync::lock;
use sinew_tool::{
    Block, BoxFuture, Kind, LoadedSkill, Reply, Request, SkillCaller, SkillIndex, SkillInfo,
    SkillRequest, ToolError, shown_line,
};

use crate::agent::instructions::may_read;
use crate::config::agent_templates::{FoundTemplates, agent_templates};
use crate::config::skills::{self, FoundSkills, Piece, SkillFile, SkillPlaces, TemplateValues};
use crate::config::trust::{Known, Trusted};
use crate::wiring::{self, Loaded, Places};

/// How often the directories are polled for changes, and after how many polls their files are read again in any case.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
const MAX_POLLS: u32 = 30;
/// The most bytes that one command of a skill adds.
const MAX_OUTPUT: usize = 32 << 10;

/// The skills.
struct Skills {
    own: Weak<Self>,
    runtime: Weak<Runtime>,
    finder: SkillFinder,
    /// The found skills: first those of the first call that asks, then those of the thread that polls.
    found: OnceLock<Mutex<Arc<FoundSkills>>>,
}

/// Gives a runtime its skills.
pub(crate) fn add(loaded: &Loaded, runtime: &Arc<Runtime>) {
    let (finder, weak) = (SkillFinder::new(loaded), Arc::downgrade(runtime));
    let skills: Arc<dyn SkillIndex> = Arc::new_cyclic(|own: &Weak<Skills>| Skills {
        own: Weak::clone(own),
        runtime: weak,
        finder,
        found: OnceLock::new(),
    });
    runtime.set_skills(&skills);
}

/// Where skills are, and where the user's trust is stored.
#[derive(Debug, Clone)]
pub(crate) struct SkillFinder {
    places: SkillPlaces,
    user: Places,
}

impl SkillFinder {
    pub(crate) fn new(loaded: &Loaded) -> Self {
        let user = loaded.said.places.clone();
        let places = SkillPlaces {
            project: loaded.roots.first().cloned(),
            config: user.config(),
            home: user.homes().into_iter().next(),
        };
        Self { places, user }
    }

    /// Finds the skills.
    pub(crate) fn find(&self) -> FoundSkills {
        skills::skills(&self.places, |project| self.known(project))
    }

    /// Finds the templates of sub-agents.
    pub(crate) fn find_templates(&self) -> FoundTemplates {
        agent_templates(&self.places, |project| self.known(project))
    }

    fn signature(&self) -> u64 {
        skills::signature(&self.places, self.user.state().as_deref())
    }

    fn known(&self, project: &Path) -> Known {
        let Some(state) = self.user.state() else { return Known::Never };
        match Trusted::read(&state) {
            Ok(trusted) => trusted.of_project(project),
            Err(error) => Known::Before(Some(error.to_string())),
        }
    }
}

impl fmt::Debug for Skills {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Skills").field("finder", &self.finder).finish_non_exhaustive()
    }
}

impl Skills {
    /// Returns the skills as they were found last.
    fn found(&self) -> Arc<FoundSkills> {
        let found = self.found.get_or_init(|| {
            self.spawn_poller();
            Mutex::new(Arc::new(self.finder.find()))
        });
        Arc::clone(&lock(found))
    }

    /// Starts the thread that polls the directories. It ends with the runtime.
    fn spawn_poller(&self) {
        let (own, mut last) = (Weak::clone(&self.own), self.finder.signature());
        let poll = move || {
            let mut n_polls = 0;
            loop {
                std::thread::sleep(POLL_INTERVAL);
                let Some(skills) = own.upgrade() else { return };
                let now = skills.finder.signature();
                n_polls += 1;
                if now != last || MAX_POLLS <= n_polls {
                    (last, n_polls) = (now, 0);
                    skills.rescan();
                }
            }
        };
        // Without a thread the skills stay those that were found first.
        let _ = std::thread::Builder::new().name(String::from("skills")).spawn(poll);
    }

    /// Reads the skills again, and tells clients if the list changed.
    fn rescan(&self) {
        let Some(found) = self.found.get() else { return };
        let now = Arc::new(self.finder.find());
        let was = std::mem::replace(&mut *lock(found), Arc::clone(&now));
        if let Some(runtime) = self.runtime.upgrade().filter(|_| infos(&was) != infos(&now)) {
            runtime.tell_tools_changed();
        }
    }

    /// Returns another file of a skill.
    fn of_file(skill: &SkillFile, file: &str) -> Result<LoadedSkill, ToolError> {
        let text = skill.text(file).map_err(|error| {
            let kind = match error.kind() {
                std::io::ErrorKind::NotFound => Kind::FileNotFound,
                _ => Kind::Unavailable,
            };
            ToolError::new(kind, error.to_string())
        })?;
        Ok(LoadedSkill { name: skill.name.clone(), text, ..LoadedSkill::default() })
    }

    async fn loaded(
        &self,
        caller: SkillCaller<'_>,
        wanted: SkillRequest<'_>,
    ) -> Result<LoadedSkill, ToolError> {
        let found = self.found();
        let skill = found.skills.iter().find(|skill| skill.name == wanted.name);
        // A person loads by name too what no model may, and then the model reads its files.
        let skill = skill.filter(|skill| match (caller.call_id, wanted.file) {
            (None, _) => skill.head.for_user,
            (Some(_), Some(_)) => true,
            (Some(_), None) => skill.head.for_model,
        });
        let Some(skill) = skill else {
            let name = shown_line(wanted.name);
            let error = ToolError::new(Kind::NotFound, format!("no skill of this name: {name}"));
            return Err(match found.problems.as_slice() {
                [] => error,
                [first, ..] => error.hint(first.clone()),
            });
        };
        let runtime = self
            .runtime
            .upgrade()
            .ok_or_else(|| ToolError::new(Kind::Unavailable, "this server ends"))?;
        let file = wanted.file.unwrap_or(skills::FILE);
        if skill.has(file) && !may_read(&runtime, &skill.dir.join(file)) {
            let words = "the rules do not let you read this file of the skill unasked";
            return Err(ToolError::new(
                Kind::PolicyDenied,
                format!("{words}: {}", shown_line(file)),
            ));
        }
        if let Some(file) = wanted.file {
            return Self::of_file(skill, file);
        }
        let values = TemplateValues { arguments: wanted.arguments, variables: wanted.variables };
        let pieces =
            skill.pieces(values).map_err(|(argument, why)| ToolError::argument(argument, why))?;
        let text = text_of(&runtime, caller, pieces).await?;
        let allowed = skill.head.allowed_tools.clone();
        let address = caller.address();
        match &allowed {
            Some(tools) => {
                let mut tools = tools.clone();
                tools.extend(sinew_dialects::operations(&tools));
                runtime.narrow_tools(address, &skill.name, tools)?;
            }
            // A skill replaces the one before.
            None => drop(runtime.widen_tools(address)),
        }
        let (name, files) = (skill.name.clone(), skill.files.clone());
        Ok(LoadedSkill { name, text, files, allowed_tools: allowed })
    }
}

impl SkillIndex for Skills {
    fn list(&self) -> Vec<SkillInfo> {
        infos(&self.found())
    }

    fn load<'a>(
        &'a self,
        caller: SkillCaller<'a>,
        wanted: SkillRequest<'a>,
    ) -> BoxFuture<'a, Result<LoadedSkill, ToolError>> {
        Box::pin(self.loaded(caller, wanted))
    }

    fn release(&self, session: &str) -> Option<String> {
        self.runtime.upgrade()?.widen_tools(session)
    }
}

/// Returns the skills that a model may load.
fn infos(found: &FoundSkills) -> Vec<SkillInfo> {
    let info = |skill: &SkillFile| {
        let mut description = skill.head.description.clone();
        if !skill.head.paths.is_empty() {
            description.push_str(&format!(" For files: {}.", skill.head.paths.join(", ")));
        }
        SkillInfo { name: skill.name.clone(), description }
    };
    found.skills.iter().filter(|skill| skill.head.for_model).map(info).collect()
}

/// Returns the text of a skill, with the output of its commands.
async fn text_of(
    runtime: &Arc<Runtime>,
    caller: SkillCaller<'_>,
    pieces: Vec<Piece>,
) -> Result<String, ToolError> {
    let id = match caller.call_id {
        Some(id) => id.to_owned(),
        None => wiring::new_session().map_err(|error| {
            ToolError::new(Kind::Unavailable, "the load has no id").source(error.to_string())
        })?,
    };
    let (mut text, mut n_commands) = (String::new(), 0);
    for piece in pieces {
        match piece {
            Piece::Text(piece) => text.push_str(&piece),
            Piece::Command(command) => {
                n_commands += 1;
                let id = format!("{id}-skill-{n_commands}");
                text.push_str(&output(runtime, caller, id, &command).await);
            }
        }
    }
    Ok(text)
}

/// Returns what a command of a skill prints. It runs as a call of the session: by its rules, with its approvals, and in
/// its ledger.
async fn output(
    runtime: &Arc<Runtime>,
    caller: SkillCaller<'_>,
    call_id: String,
    command: &str,
) -> String {
    let catalogs = runtime.catalogs();
    let catalog = catalogs.iter().find(|catalog| Some(catalog.name()) == caller.dialect);
    let tool = catalog.or_else(|| catalogs.first()).and_then(|catalog| {
        let name = catalog.does("Bash")?;
        catalog.all_tools().find(|info| info.name == name)
    });
    let Some((tool, arguments)) = tool.and_then(|tool| {
        let takes = |name: &str| tool.parameters.pointer(&format!("/properties/{name}")).is_some();
        let arguments = match (takes("command"), takes("args"), takes("argv")) {
            (true, false, _) => json!({ "command": command }),
            (true, true, _) => json!({ "command": "sh", "args": ["-c", command] }),
            (false, _, true) => json!({ "argv": ["sh", "-c", command] }),
            (false, _, false) => return None,
        };
        Some((tool.name, arguments.as_object()?.clone()))
    }) else {
        return String::from("[not run: no tool runs commands here]");
    };
    let request = Request {
        session: caller.session.to_owned(),
        agent: caller.agent.map(str::to_owned),
        turn: caller.turn.map(str::to_owned),
        parent: caller.call_id.map(str::to_owned),
        roots: caller.roots.map(<[_]>::to_vec),
        deadline: caller.deadline,
        dialect: caller.dialect.map(str::to_owned),
        ..Request::new(call_id, tool, arguments)
    };
    let options = CallOptions { loads_skill: true, ..CallOptions::default() };
    let reply = runtime.call(request, options).await;
    let text = said(&reply);
    match reply.ok {
        true => text,
        false => format!("[the command of the skill failed: {text}]"),
    }
}

/// Returns the text of a reply, cut.
fn said(reply: &Reply) -> String {
    let texts: Vec<&str> = reply.content.iter().filter_map(Block::as_text).collect();
    let mut text = texts.join("\n");
    let end = text.floor_char_boundary(MAX_OUTPUT);
    if end < text.len() {
        text.truncate(end);
        text.push_str("\n[cut]");
    }
    text.trim_end().to_owned()
}
