//! Reads the front matter of a `SKILL.md`: the keys of every known form, and a warning for each other one.

use serde_json::{Map, Value};

use crate::front_matter::{self, names, text};

/// The longest description, in bytes.
const MAX_DESCRIPTION: usize = 4 << 10;
/// The keys that are read and have no effect: they describe, or they are for other programs.
const DESCRIBING: [&str; 12] = [
    "version",
    "license",
    "author",
    "metadata",
    "compatibility",
    "argument-hint",
    "model",
    "effort",
    "tags",
    "emoji",
    "homepage",
    "category",
];

/// What the front matter of a skill says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SkillHead {
    /// Its name; without one its directory names it.
    pub name: Option<String>,
    /// When to load it.
    pub description: String,
    /// The only tools while it is loaded, as patterns; `None` leaves all.
    pub allowed_tools: Option<Vec<String>>,
    /// Its variables.
    pub variables: Vec<SkillVariable>,
    /// The globs of the files that it is for.
    pub paths: Vec<String>,
    /// Whether a model may load it.
    pub for_model: bool,
    /// Whether a person may load it by its name.
    pub for_user: bool,
    /// The parts read differently than they were meant, in words.
    pub warnings: Vec<String>,
}

/// A variable of a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillVariable {
    /// Its name.
    pub name: String,
    /// Its value where none is given; `None` needs one.
    pub default: Option<String>,
}

/// Reads a file: what its front matter says, and its instructions. Without front matter all of it is instructions.
pub(super) fn read(text: &str) -> Result<(SkillHead, &str), String> {
    let mut head = SkillHead { for_model: true, for_user: true, ..SkillHead::default() };
    let (members, body) = front_matter::read(text)?;
    if let Some(members) = members {
        head.fill(members)?;
    }
    if head.description.is_empty() {
        head.description = first_line(body);
    }
    Ok((head, body))
}

impl SkillHead {
    fn fill(&mut self, members: Map<String, Value>) -> Result<(), String> {
        for (key, value) in members {
            match key.as_str() {
                "name" => self.name = Some(text(&key, &value)?),
                "description" | "when_to_use" | "when-to-use" => {
                    let said = text(&key, &value)?.split_whitespace().collect::<Vec<_>>().join(" ");
                    let parts = [self.description.as_str(), said.as_str()];
                    let parts: Vec<&str> =
                        parts.into_iter().filter(|part| !part.is_empty()).collect();
                    self.description = sinew_tool::shown_line(&parts.join(" "));
                    let end = self.description.floor_char_boundary(MAX_DESCRIPTION);
                    self.description.truncate(end);
                }
                "allowed-tools" | "allowed_tools" | "allowedTools" | "tools" => {
                    if self.allowed_tools.is_some() {
                        return Err(format!(
                            "`{key}` is another list of the allowed tools; write one"
                        ));
                    }
                    if value.is_null() {
                        self.warnings.push(format!(
                            "`{key}` has no value, and no effect; `[]` allows no tool"
                        ));
                        continue;
                    }
                    let (tools, warnings) = front_matter::tools(&key, &value)?;
                    self.warnings.extend(warnings);
                    self.allowed_tools = Some(tools);
                }
                "variables" => self.variables = variables(&value)?,
                "paths" => {
                    let paths = names(&key, &value)?;
                    self.paths = paths.iter().map(|path| sinew_tool::shown_line(path)).collect();
                }
                "disable-model-invocation" => self.for_model = !flag(&key, &value)?,
                "user-invocable" => self.for_user = flag(&key, &value)?,
                known if DESCRIBING.contains(&known) => {}
                unknown => {
                    let unknown = sinew_tool::shown_line(unknown);
                    self.warnings.push(format!("`{unknown}` is not known, and has no effect"));
                }
            }
        }
        Ok(())
    }
}

fn flag(key: &str, value: &Value) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| format!("`{key}` must be true or false"))
}

/// Returns variables: a list of names, or names with their defaults.
fn variables(value: &Value) -> Result<Vec<SkillVariable>, String> {
    let fail = || String::from("`variables` must be a list of names, or names with their defaults");
    let variables: Vec<SkillVariable> = match value {
        Value::Null => Vec::new(),
        Value::Array(all) => {
            let variable = |value: &Value| match value {
                Value::String(name) => Some(SkillVariable { name: name.clone(), default: None }),
                Value::Object(members) => Some(SkillVariable {
                    name: members.get("name")?.as_str()?.to_owned(),
                    default: members.get("default").and_then(default),
                }),
                _ => None,
            };
            all.iter().map(variable).collect::<Option<_>>().ok_or_else(fail)?
        }
        Value::Object(members) => {
            let variable = |(name, value): (&String, &Value)| {
                let default = match value {
                    Value::Object(members) => members.get("default").and_then(default),
                    value => default(value),
                };
                SkillVariable { name: name.clone(), default }
            };
            members.iter().map(variable).collect()
        }
        _ => return Err(fail()),
    };
    let is_name = |name: &str| {
        !name.is_empty() && name.chars().all(|char| char.is_ascii_alphanumeric() || char == '_')
    };
    match variables.iter().find(|variable| !is_name(&variable.name)) {
        Some(_) => Err(String::from("the names of `variables` must have letters, digits and `_`")),
        None => Ok(variables),
    }
}

fn default(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    }
}

/// Returns the first line with words, without the signs of a heading.
fn first_line(text: &str) -> String {
    let line =
        text.lines().map(|line| line.trim_start_matches('#').trim()).find(|line| !line.is_empty());
    let line = line.unwrap_or_default();
    let end = line.floor_char_boundary(MAX_DESCRIPTION);
    sinew_tool::shown_line(line.get(..end).unwrap_or_default())
}
