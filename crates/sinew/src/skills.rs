//! The skills of a session: found in their directories, loaded with the output of their commands, and the tools that
//! they leave.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sinew_runtime::{CallOptions, Narrowing, Runtime};
use sinew_tool::{
    Block, BoxFuture, Kind, LoadedSkill, Reply, Request, SkillCaller, SkillIndex, SkillInfo,
    SkillRequest, ToolError, shown_line,
};

use crate::config::skills::{self, FoundSkills, Piece, SkillFile, SkillPlaces, TemplateValues};
use crate::config::trust::{Known, Trusted};
use crate::wiring::{Loaded, Places};

/// How long found skills count, before their directories are looked at again.
const FRESH: Duration = Duration::from_secs(2);
/// The most bytes that one command of a skill adds.
const MAX_OUTPUT: usize = 32 << 10;

/// The skills.
struct Skills {
    runtime: Weak<Runtime>,
    finder: SkillFinder,
    found: Mutex<Option<(Instant, Arc<FoundSkills>)>>,
}

/// Gives a runtime its skills.
pub(crate) fn add(loaded: &Loaded, runtime: &Arc<Runtime>) {
    let (finder, weak) = (SkillFinder::new(loaded), Arc::downgrade(runtime));
    let skills: Arc<dyn SkillIndex> =
        Arc::new(Skills { runtime: weak, finder, found: Mutex::default() });
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
    /// Returns the skills, which are looked for again after a while. Clients hear of another list.
    fn found(&self) -> Arc<FoundSkills> {
        let mut cached = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, found)) = &*cached
            && at.elapsed() < FRESH
        {
            return Arc::clone(found);
        }
        let found = Arc::new(self.finder.find());
        let was = cached.replace((Instant::now(), Arc::clone(&found)));
        drop(cached);
        let is_other = was.is_some_and(|(_, was)| infos(&was) != infos(&found));
        if let Some(runtime) = self.runtime.upgrade().filter(|_| is_other) {
            runtime.tell_tools_changed();
        }
        found
    }

    async fn loaded(
        &self,
        caller: SkillCaller<'_>,
        wanted: SkillRequest<'_>,
    ) -> Result<LoadedSkill, ToolError> {
        let found = self.found();
        let skill = found.skills.iter().find(|skill| skill.name == wanted.name);
        // A person loads by name too what no model may.
        let skill = skill.filter(|skill| match caller.call_id {
            "" => skill.head.for_user,
            _ => skill.head.for_model,
        });
        let Some(skill) = skill else {
            let name = shown_line(wanted.name);
            let error = ToolError::new(Kind::NotFound, format!("no skill of this name: {name}"));
            return Err(match found.problems.as_slice() {
                [] => error,
                [first, ..] => error.hint(first.clone()),
            });
        };
        if let Some(file) = wanted.file {
            return of_file(skill, file);
        }
        let values = TemplateValues { arguments: wanted.arguments, variables: wanted.variables };
        let pieces =
            skill.pieces(values).map_err(|(argument, why)| ToolError::argument(argument, why))?;
        let runtime = self
            .runtime
            .upgrade()
            .ok_or_else(|| ToolError::new(Kind::Unavailable, "this server ends"))?;
        // A skill replaces the one before, also for its own commands.
        runtime.widen_tools(caller.session);
        let mut text = String::new();
        let mut n_commands = 0;
        for piece in pieces {
            match piece {
                Piece::Text(piece) => text.push_str(&piece),
                Piece::Command(command) => {
                    n_commands += 1;
                    text.push_str(&output(&runtime, caller, n_commands, &command).await);
                }
            }
        }
        let allowed = skill.head.allowed_tools.clone();
        if let Some(tools) = &allowed {
            let mut tools = tools.clone();
            tools.extend(sinew_dialects::operations(&tools));
            let narrowing = Narrowing { skill: skill.name.clone(), tools };
            runtime.narrow_tools(caller.session, narrowing)?;
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

/// Returns what a command of a skill prints. It runs as a call of the session: by its rules, with its approvals, and in
/// its ledger.
async fn output(
    runtime: &Arc<Runtime>,
    caller: SkillCaller<'_>,
    number: usize,
    command: &str,
) -> String {
    let catalogs = runtime.catalogs();
    let catalog = catalogs.iter().find(|catalog| catalog.name() == caller.dialect);
    let tool = catalog.or_else(|| catalogs.first()).and_then(|catalog| {
        let name = catalog.does("Bash")?;
        catalog.all_tools().find(|info| info.name == name)
    });
    let Some(tool) = tool else {
        return String::from("[not run: no tool runs commands here]");
    };
    let takes_text = tool.parameters.pointer("/properties/command").is_some();
    let arguments = match takes_text {
        true => json!({ "command": command }),
        false => json!({ "argv": ["sh", "-c", command] }),
    };
    let Value::Object(arguments) = arguments else { return String::new() };
    let request = Request {
        session: caller.session.to_owned(),
        agent: caller.agent.map(str::to_owned),
        parent: (!caller.call_id.is_empty()).then(|| caller.call_id.to_owned()),
        dialect: Some(caller.dialect.to_owned()).filter(|dialect| !dialect.is_empty()),
        ..Request::new(format!("{}-skill-{number}", caller.call_id), tool.name, arguments)
    };
    let reply = runtime.call(request, CallOptions::default()).await;
    let text = said(&reply);
    match reply.ok {
        true => text,
        false => format!("[the command of the skill failed: {text}]"),
    }
}

fn said(reply: &Reply) -> String {
    let texts = reply.content.iter().filter_map(|block| match block {
        Block::Text { text } => Some(text.as_str()),
        _ => None,
    });
    let mut text = texts.collect::<Vec<_>>().join("\n");
    let end = text.floor_char_boundary(MAX_OUTPUT);
    if end < text.len() {
        text.truncate(end);
        text.push_str("\n[cut]");
    }
    text.trim_end().to_owned()
}
