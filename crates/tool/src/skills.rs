//! Skills: instructions that a model loads when a task needs them, and which tools they leave it.

use std::fmt::Debug;
use std::path::PathBuf;
use std::time::Instant;

use crate::{BoxFuture, Kind, ToolError, agents, shown_line};

/// A skill as a model finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillInfo {
    /// Its name.
    pub name: String,
    /// When to load it.
    pub description: String,
}

/// Who loads a skill: a call of a session, in one dialect.
#[derive(Debug, Clone, Copy, Default)]
pub struct SkillCaller<'a> {
    /// The session, which has the tools of the skill from then on.
    pub session: &'a str,
    /// The agent, if there are several.
    pub agent: Option<&'a str>,
    /// The turn, if the caller counts turns.
    pub turn: Option<&'a str>,
    /// The roots to which the call is narrowed.
    pub roots: Option<&'a [PathBuf]>,
    /// When the caller stops waiting.
    pub deadline: Option<Instant>,
    /// The dialect, whose tools run the commands of the skill; `None` is the first.
    pub dialect: Option<&'a str>,
    /// The id of the call that loads the skill; `None` where a person does.
    pub call_id: Option<&'a str>,
}

impl<'a> SkillCaller<'a> {
    /// Returns the address of the agent or session that gets the tools of the skill; see [`agents::address`].
    pub fn address(&self) -> &'a str {
        agents::address(self.session, self.agent)
    }
}

/// A request for a skill or one of its files.
#[derive(Debug, Clone, Copy)]
pub struct SkillRequest<'a> {
    /// The name of the skill.
    pub name: &'a str,
    /// The text for `$ARGUMENTS`, whose words are `$1`, `$2` and so on.
    pub arguments: &'a str,
    /// Values of its variables.
    pub variables: &'a [(String, String)],
    /// Another file of the skill, relative to its directory; `None` loads the skill.
    pub file: Option<&'a str>,
}

/// A skill that was loaded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoadedSkill {
    /// Its name.
    pub name: String,
    /// Its instructions, with arguments and the output of its commands in their places, or the text of its file.
    pub text: String,
    /// Its other files, relative to its directory.
    pub files: Vec<String>,
    /// The only tools that the session can call now, as patterns; `None` leaves all.
    pub allowed_tools: Option<Vec<String>>,
}

/// The skills of a runtime.
pub trait SkillIndex: Debug + Send + Sync {
    /// Returns the skills that a model may load, in the order of their names.
    fn list(&self) -> Vec<SkillInfo>;

    /// Loads a skill. Its commands run as calls of the session.
    fn load<'a>(
        &'a self,
        caller: SkillCaller<'a>,
        wanted: SkillRequest<'a>,
    ) -> BoxFuture<'a, Result<LoadedSkill, ToolError>>;

    /// Gives an agent the tools again that a skill had taken; returns the skill.
    fn release(&self, address: &str) -> Option<String>;
}

/// No skills.
#[derive(Debug, Clone, Copy)]
pub struct NoSkills;

impl SkillIndex for NoSkills {
    fn list(&self) -> Vec<SkillInfo> {
        Vec::new()
    }

    fn load<'a>(
        &'a self,
        _caller: SkillCaller<'a>,
        wanted: SkillRequest<'a>,
    ) -> BoxFuture<'a, Result<LoadedSkill, ToolError>> {
        let name = shown_line(wanted.name);
        let error = ToolError::new(Kind::NotFound, format!("no skill of this name: {name}"));
        Box::pin(std::future::ready(Err(error.hint("there are no skills here"))))
    }

    fn release(&self, _session: &str) -> Option<String> {
        None
    }
}
