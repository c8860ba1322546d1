//! Names for the tools of other servers: as the dialect has them, of characters that every model API carries, and never
//! the name or the prefix of a tool of another owner.

use sinew_tool::ForeignNames;

/// The longest name, in bytes: that of the strictest model API.
pub(crate) const MAX_NAME: usize = 64;
/// How many digits of a hash set names apart.
const DIGITS: usize = 8;

/// What parts a namespace from a name in most dialects.
const NAMESPACED: &str = "__";

/// A tool of a server that wants a name in a catalog.
pub(crate) struct Wanted<'a> {
    pub(crate) names: ForeignNames,
    pub(crate) server: &'a str,
    pub(crate) tool: &'a str,
}

impl Wanted<'_> {
    /// Returns the first name that is free, best first. `has_prefix` says whether tools of sinew begin with a text.
    pub(crate) fn name(
        &self,
        is_free: impl Fn(&str) -> bool,
        has_prefix: impl Fn(&str) -> bool,
    ) -> Option<String> {
        let (server, tool) = (carried(self.server), carried(self.tool));
        let ForeignNames { prefix, separator, bare, .. } = self.names;
        let of = |prefix: &str, separator: &str| {
            let namespace = format!("{prefix}{server}{separator}");
            let name = format!("{namespace}{tool}");
            (!has_prefix(&namespace)).then_some(name)
        };
        // A name with a separator could be taken for that of another server's tool.
        let bare = (bare && !tool.contains(NAMESPACED)).then(|| tool.clone());
        let candidates = [bare, of(prefix, separator), of("mcp__", "__")];
        let candidates: Vec<String> =
            candidates.into_iter().flatten().map(|n| self.short(n)).collect();
        let apart = candidates.iter().map(|name| self.apart(name)).collect::<Vec<_>>();
        candidates.into_iter().chain(apart).find(|name| is_free(name))
    }

    /// Cuts a long name, with a hash in the place of its end.
    fn short(&self, name: String) -> String {
        if name.len() <= MAX_NAME { name } else { self.apart(&name) }
    }

    fn apart(&self, name: &str) -> String {
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.server.as_bytes()).update(&[0]).update(self.tool.as_bytes());
        let hash = hasher.finalize().to_hex();
        let kept = name.get(..MAX_NAME - DIGITS - 1).unwrap_or(name);
        format!("{kept}_{}", hash.get(..DIGITS).unwrap_or_default())
    }
}

/// Returns a name with `_` in place of characters that not every protocol carries.
fn carried(name: &str) -> String {
    let carried =
        |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    name.chars().map(carried).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MCP: ForeignNames = ForeignNames { prefix: "mcp__", ..ForeignNames::DEFAULT };
    const BARE: ForeignNames = ForeignNames { bare: true, ..MCP };
    const SINGLE: ForeignNames = ForeignNames { separator: "_", ..ForeignNames::DEFAULT };

    #[track_caller]
    fn check(names: ForeignNames, server: &str, tool: &str, taken: &[&str], expected: &str) {
        let wanted = Wanted { names, server, tool };
        let name = wanted.name(
            |name| !taken.contains(&name),
            |prefix| taken.iter().any(|name| name.starts_with(prefix)),
        );
        assert_eq!(name.as_deref(), Some(expected), "{server} {tool}");
    }

    #[test]
    fn names_are_free_short_and_plain() {
        let long = "a".repeat(70);
        let cut = format!("s__{}", "a".repeat(52));
        for (names, server, tool, taken, expected) in [
            (ForeignNames::DEFAULT, "web", "search", &[][..], "web__search"),
            (ForeignNames::DEFAULT, "web", "search", &["web__fetch"], "mcp__web__search"),
            (ForeignNames::DEFAULT, "a.b", "c d", &[], "a_b__c_d"),
            (ForeignNames::DEFAULT, "tооl", "x", &[], "t__l__x"),
            (SINGLE, "read", "file", &["read_file"], "mcp__read__file"),
            (SINGLE, "git", "log", &[], "git_log"),
            (BARE, "git", "log", &[], "log"),
            (BARE, "git", "log", &["log"], "mcp__git__log"),
            (MCP, "git", "log", &[], "mcp__git__log"),
            (BARE, "git", "other__log", &[], "mcp__git__other__log"),
        ] {
            check(names, server, tool, taken, expected);
        }
        let wanted = Wanted { names: ForeignNames::DEFAULT, server: "s", tool: &long };
        let name = wanted.name(|_| true, |_| false).expect("a name");
        assert!(name.starts_with(&cut) && name.len() == MAX_NAME, "{name}");
    }

    #[test]
    fn equal_names_are_set_apart() {
        let of = |tool| Wanted { names: ForeignNames::DEFAULT, server: "s", tool };
        let mut taken: Vec<String> = Vec::new();
        for tool in ["a.b", "a b", "a/b", "a:b"] {
            let name = of(tool).name(|name| taken.iter().all(|other| other != name), |_| false);
            taken.push(name.expect("a name"));
        }
        let [first, second, apart @ ..] = taken.as_slice() else { panic!("{taken:?}") };
        assert_eq!([first, second], ["s__a_b", "mcp__s__a_b"]);
        assert!(apart.iter().all(|name| name.starts_with("s__a_b_")), "{apart:?}");
        assert_ne!(apart[0], apart[1]);
        assert_eq!(of("a.b").name(|_| false, |_| false), None);
    }
}
