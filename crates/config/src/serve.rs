//! Matches tools against the words of `serve`.

use sinew_tool::{Effects, Tool};

/// The words for groups of tools.
const WORDS: [&str; 7] = ["all", "core", "read", "edit", "run", "web", "agents"];

/// Returns whether a word of `serve` matches a tool.
pub fn serves(word: &str, tool: &dyn Tool) -> bool {
    let effects = tool.facts().effects;
    let executes = effects.contains(Effects::EXECUTE);
    let is_of_agents = effects.contains(Effects::DELEGATE) && !executes;
    let is_web = effects.contains(Effects::NETWORK) && !executes && !is_of_agents;
    match word {
        "all" => true,
        "core" => tool.core(),
        "read" => effects.contains(Effects::OBSERVE) && !is_web,
        "edit" => effects.contains(Effects::CHANGE) && !is_web,
        "run" => executes || (effects.contains(Effects::SESSION) && !is_of_agents),
        "web" => is_web,
        "agents" => is_of_agents,
        pattern => sinew_tool::tool_matches(pattern, tool.name()),
    }
}

/// Returns whether a word matches a tool of any dialect.
pub(super) fn is_known(word: &str) -> bool {
    WORDS.contains(&word) || sinew_dialects::tools().any(|tool| serves(word, &*tool))
}

/// Returns whether a name, with `*`, may be that of a tool of one of these MCP servers.
pub(super) fn may_be_foreign<'a>(
    pattern: &str,
    servers: impl IntoIterator<Item = &'a String>,
) -> bool {
    servers.into_iter().any(|server| {
        let server = server.replace('.', "_");
        pattern.starts_with("mcp_") || pattern.contains(&format!("{server}_"))
    })
}

/// Returns whether `new` matches only tools of `old`; without `old`, only tools that every surface serves
/// or that only read.
pub(super) fn narrows(old: Option<&[&str]>, new: &[&str]) -> bool {
    let old = old.unwrap_or(&["core", "read"]);
    let means = |words: &[&str], tool: &dyn Tool| words.iter().any(|word| serves(word, tool));
    // Of tools that are not known here only the whole words that have them say something.
    let has =
        |word: &&str| old.contains(word) || ["all", "core"].iter().any(|all| old.contains(all));
    new.iter().filter(|word| !is_known(word)).all(has)
        && sinew_dialects::tools().all(|tool| means(old, &*tool) || !means(new, &*tool))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_narrow_by_what_they_mean() {
        for (old, new, narrow) in [
            (None, &["core"][..], true),
            (None, &["Read", "Gl*"], true),
            (None, &["read"], true),
            (None, &["CheckpointRestore"], false),
            (None, &[], true),
            (None, &["all"], false),
            (None, &["*"], false),
            (None, &["edit"], false),
            (None, &["MultiEdit"], false),
            (Some(&["all"][..]), &["edit"], true),
            (Some(&["read"]), &["Read", "Grep"], true),
            (Some(&["read"]), &["Read", "Write"], false),
            (Some(&["read", "edit"]), &["WebFetch"], false),
            (Some(&["web"]), &["WebFetch"], true),
            (None, &["fx__a"], true),
            (Some(&["all"]), &["fx__a"], true),
            (Some(&["fx__a"]), &["fx__a"], true),
            (Some(&["read"]), &["fx__a"], false),
        ] {
            assert_eq!(narrows(old, new), narrow, "{old:?} {new:?}");
        }
    }

    #[test]
    fn tools_of_servers_have_the_names_of_servers() {
        let servers = [String::from("git.hub")];
        for pattern in ["git_hub__list_*", "mcp__git_hub__x", "git_hub_x", "mcp_*"] {
            assert!(may_be_foreign(pattern, &servers), "{pattern}");
            assert!(!may_be_foreign(pattern, &[]), "{pattern}");
        }
        assert!(!may_be_foreign("Wirte", &servers));
    }

    #[test]
    fn words_that_mean_nothing_are_known_as_such() {
        for word in ["all", "core", "read", "edit", "run", "web", "agents", "Read", "G*"] {
            assert!(is_known(word), "{word}");
        }
        for word in ["net", "Raed", ""] {
            assert!(!is_known(word), "{word}");
        }
    }
}
