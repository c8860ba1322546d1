//! Skill: loads the instructions of a skill, which may leave the session only some tools.

use std::collections::BTreeMap;

use serde::Deserialize;
use sinew_tool::{
    Bound, Context, Cost, Facts, Kind, LoadedSkill, Operation, Param, ParamKind, Reply, Row,
    SkillCaller, SkillInfo, SkillRequest, Targets, ToolError,
};

/// Loads the instructions of a skill.
#[derive(Debug)]
pub struct Skill;

/// Arguments of Skill.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SkillArgs {
    /// The skill; without it the skills are listed.
    #[serde(default)]
    pub skill: Option<String>,
    /// The text for `$ARGUMENTS`.
    #[serde(default)]
    pub args: Option<String>,
    /// Values of its variables.
    #[serde(default)]
    pub variables: BTreeMap<String, String>,
    /// Another file of the skill.
    #[serde(default)]
    pub file: Option<String>,
    /// Gives back the tools that a skill took away.
    #[serde(default)]
    pub release: bool,
}

/// What happened.
#[derive(Debug)]
pub enum SkillOut {
    /// The skills.
    List(Vec<SkillInfo>),
    /// A skill, or one of its files.
    Loaded(LoadedSkill),
    /// All tools are back; the skill that had taken some away.
    Released(Option<String>),
}

/// The native row.
pub const NATIVE: Row<Skill> = Row {
    name: "Skill",
    description: "Loads the instructions of a skill for the task at hand. A skill may leave you only some tools, until \
                  another is loaded or it is released.",
    params: &[
        Param::optional(
            "skill",
            "skill",
            ParamKind::String,
            "the skill; without it all are listed",
        ),
        Param::optional("args", "args", ParamKind::String, "the text that the skill works on"),
        Param::optional("variables", "variables", ParamKind::Map, "values of its variables"),
        Param::optional("file", "file", ParamKind::String, "another file of the skill, to read it"),
        Param::optional(
            "release",
            "release",
            ParamKind::Boolean,
            "true gives back the tools that a skill took away",
        ),
    ],
    bound: Bound::HARD,
    skill_argument: Some("skill"),
    ..Row::<Skill>::shaped(|_, out, _| shaped(out, true))
};

impl Operation for Skill {
    const NAME: &'static str = "Skill";
    const FACTS: Facts = Facts { parallel: false, ..Facts::OBSERVES };
    type Args = SkillArgs;
    type Out = SkillOut;

    fn check(args: &SkillArgs) -> Result<(), ToolError> {
        if args.release && args.skill.is_some() {
            let words = "does not go with `skill`: another skill replaces the one that is loaded";
            return Err(ToolError::argument("release", words));
        }
        let has_more = args.args.is_some() || !args.variables.is_empty() || args.file.is_some();
        if args.skill.is_none() && has_more {
            return Err(ToolError::argument("skill", "names the skill that this is for"));
        }
        Ok(())
    }

    fn cost(_args: &SkillArgs, _targets: &Targets) -> Cost {
        Cost::Waits
    }

    async fn run(args: &SkillArgs, cx: &Context) -> Result<SkillOut, ToolError> {
        if args.release {
            return Ok(SkillOut::Released(cx.skills.release(cx.address())));
        }
        let Some(name) = &args.skill else { return Ok(SkillOut::List(cx.skills.list())) };
        let caller = SkillCaller {
            session: &cx.session,
            agent: cx.agent.as_deref(),
            turn: cx.turn.as_deref(),
            roots: cx.roots.as_deref(),
            deadline: cx.deadline,
            dialect: Some(cx.dialect),
            call_id: Some(&cx.call_id),
        };
        let variables: Vec<(String, String)> = args.variables.clone().into_iter().collect();
        let wanted = SkillRequest {
            name,
            arguments: args.args.as_deref().unwrap_or_default(),
            variables: &variables,
            file: args.file.as_deref(),
        };
        match cx.skills.load(caller, wanted).await {
            Ok(loaded) => Ok(SkillOut::Loaded(loaded)),
            Err(error) if error.kind == Kind::NotFound && args.file.is_none() => {
                let known: Vec<String> =
                    cx.skills.list().into_iter().map(|skill| skill.name).collect();
                Err(match known.is_empty() {
                    true => error,
                    false => error.hint(format!("known skills: {}", known.join(", "))),
                })
            }
            Err(error) => Err(error),
        }
    }
}

/// Returns the text of an outcome; `has_more` says whether the row takes `file` and `release`.
pub fn shaped(out: SkillOut, has_more: bool) -> Reply {
    match out {
        SkillOut::List(skills) if skills.is_empty() => Reply::text("There are no skills."),
        SkillOut::List(skills) => {
            let line = |skill: &SkillInfo| format!("- {}: {}", skill.name, skill.description);
            Reply::text(skills.iter().map(line).collect::<Vec<_>>().join("\n"))
        }
        SkillOut::Loaded(loaded) => Reply::text(loaded_text(loaded, has_more)),
        SkillOut::Released(Some(skill)) => {
            Reply::text(format!("The skill {skill} is released: all tools can be called again."))
        }
        SkillOut::Released(None) => Reply::text("No skill had taken tools away."),
    }
}

/// Returns the text of a loaded skill, with what a model needs to know beside it.
pub fn loaded_text(loaded: LoadedSkill, has_more: bool) -> String {
    let notes = notes(&loaded, has_more);
    notes.iter().fold(loaded.text, |text, note| format!("{}\n\n[{note}]", text.trim_end()))
}

/// Returns what a model needs to know of a loaded skill beside its text.
fn notes(loaded: &LoadedSkill, has_more: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if has_more && !loaded.files.is_empty() {
        let files = loaded.files.join(", ");
        notes.push(format!("other files of this skill, for the argument `file`: {files}"));
    }
    if let Some(tools) = &loaded.allowed_tools {
        let tools = if tools.is_empty() { String::from("none") } else { tools.join(", ") };
        let end = if has_more { "it is released" } else { "another one is loaded" };
        notes.push(format!(
            "while this skill is loaded, until {end}, only these tools can be called: {tools}"
        ));
    }
    notes
}
