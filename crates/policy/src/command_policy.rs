//! Allowlist of programs and denylist of texts for commands, in vocabularies that configure them.
//!
//! It checks every command of a line, [also those that other programs run](CommandList). A word that is only
//! known at run time is never on the allowlist.

use sinew_tool::{CommandLine, CommandList, Piece, Ruling, Verdict};

/// The name of the rule in its rulings.
const RULE: &str = "tools.commandPolicy";

/// Directories of system programs.
const SYSTEM: &[&str] = &["/bin/", "/usr/bin/"];

/// Allowlist and denylists of commands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommandPolicy {
    /// Texts that no command may hold, compared without case and runs of blanks.
    pub dangerous: Vec<String>,
    /// The programs that may run; `None` means all.
    pub allowed: Option<Vec<String>>,
    /// Further texts that no command may hold.
    pub denied: Vec<String>,
}

impl CommandPolicy {
    /// Returns the denial of a line, if it may not run.
    pub fn held(&self, line: &CommandLine, commands: &CommandList) -> Option<Ruling> {
        let whole = match line {
            CommandLine::Shell(_, text) => text.clone(),
            CommandLine::Argv(argv) => argv.join(" "),
        };
        let joined = |words: &Vec<Piece>| {
            let words = words.iter().map(|word| match word {
                Piece::Known(word) => word.as_str(),
                Piece::Open { raw, .. } => raw,
            });
            words.collect::<Vec<_>>().join(" ")
        };
        let texts = commands.all.iter().map(joined).chain([whole]).map(|text| normal(&text));
        let texts: Vec<String> = texts.collect();
        let holds = |pattern: &&String| {
            let pattern = normal(pattern);
            !pattern.trim().is_empty() && texts.iter().any(|text| text.contains(&pattern))
        };
        if let Some(pattern) = self.dangerous.iter().find(holds) {
            return denied(format!("it holds the dangerous pattern `{}`", pattern.trim()));
        }
        if let Some(pattern) = self.denied.iter().find(holds) {
            return denied(format!("it holds `{}`, which is denied", pattern.trim()));
        }
        let allowed = self.allowed.as_ref()?;
        let refused =
            commands.all.iter().filter_map(|words| words.first()).find_map(|first| match first {
                Piece::Known(name) if allowed.iter().any(|one| one == bare(name)) => None,
                Piece::Known(name) => Some(format!("`{name}` is not among the allowed commands")),
                Piece::Open { .. } => {
                    Some(String::from("which program it runs is only known when it does"))
                }
            });
        let unclear = || {
            let unclear = commands.unclear?;
            Some(format!("which programs it runs is not known: {unclear}"))
        };
        refused.or_else(unclear).and_then(denied)
    }
}

fn denied(why: String) -> Option<Ruling> {
    Some(Ruling { verdict: Verdict::Deny, rule: RULE, why: why.into(), origin: None })
}

/// Strips a system directory from a program; a program elsewhere keeps its path.
fn bare(name: &str) -> &str {
    let bare = SYSTEM.iter().find_map(|place| name.strip_prefix(place));
    bare.filter(|bare| !bare.contains('/')).unwrap_or(name)
}

/// Returns a text in lower case, with each run of blanks as one space.
fn normal(text: &str) -> String {
    let mut normal = String::with_capacity(text.len());
    for c in text.chars().flat_map(char::to_lowercase) {
        let c = if c.is_whitespace() { ' ' } else { c };
        if c != ' ' || !normal.ends_with(' ') {
            normal.push(c);
        }
    }
    normal
}
