//! Skills in memory: what a load returns is what a test gave.

use std::sync::Mutex;

use sinew_tool::sync::lock;
use sinew_tool::{
    BoxFuture, Kind, LoadedSkill, SkillCaller, SkillIndex, SkillInfo, SkillRequest, ToolError,
};

/// Skills that a test made.
#[derive(Debug, Default)]
pub struct MemorySkills {
    skills: Vec<(SkillInfo, LoadedSkill)>,
    /// The skill that narrowed the tools.
    loaded: Mutex<Option<String>>,
}

impl MemorySkills {
    /// Returns these skills.
    pub fn new(skills: Vec<(SkillInfo, LoadedSkill)>) -> Self {
        Self { skills, loaded: Mutex::default() }
    }
}

impl SkillIndex for MemorySkills {
    fn list(&self) -> Vec<SkillInfo> {
        self.skills.iter().map(|(info, _)| info.clone()).collect()
    }

    fn load<'a>(
        &'a self,
        _caller: SkillCaller<'a>,
        wanted: SkillRequest<'a>,
    ) -> BoxFuture<'a, Result<LoadedSkill, ToolError>> {
        let found = self.skills.iter().find(|(info, _)| info.name == wanted.name);
        let loaded = match (found, wanted.file) {
            (Some((info, loaded)), None) => {
                *lock(&self.loaded) = Some(info.name.clone());
                let text = loaded.text.replace("$ARGUMENTS", wanted.arguments);
                Ok(LoadedSkill { text, ..loaded.clone() })
            }
            (Some((_, loaded)), Some(file)) if loaded.files.iter().any(|known| known == file) => {
                let (name, text) = (loaded.name.clone(), format!("the text of {file}"));
                Ok(LoadedSkill { name, text, ..LoadedSkill::default() })
            }
            (Some(_), Some(file)) => Err(ToolError::new(
                Kind::FileNotFound,
                format!("no file of this skill has this name: {file}"),
            )),
            (None, _) => Err(ToolError::new(
                Kind::NotFound,
                format!("no skill of this name: {}", wanted.name),
            )),
        };
        Box::pin(std::future::ready(loaded))
    }

    fn release(&self, _session: &str) -> Option<String> {
        lock(&self.loaded).take()
    }
}
