//! Finds the rules that a path matches by one look at each of its names: there are over a hundred rules, and every call of a
//! command that changes a name is judged.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::table::{ELSEWHERE, ON_THIS_HOST, RUN_LATER};
use super::{OF_GIT, OWN_BENEATH, Protection};

/// A rule that a path matches.
#[derive(Debug, Clone, Copy)]
pub(super) struct Match {
    pub(super) rule: &'static NameRule,
    /// The index of the component at which the match begins.
    pub(super) at: usize,
}

/// A rule with its parts.
#[derive(Debug)]
pub(super) struct NameRule {
    /// The name in the table.
    pub(super) name: &'static str,
    /// The place among all rules.
    pub(super) order: usize,
    pub(super) list: List,
    parts: Box<[Part]>,
    /// Whether everything beneath the name matches too.
    pub(super) is_dir: bool,
}

/// What a rule is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum List {
    /// The name is protected.
    Protected(Protection),
    /// The user's own commands execute the name later.
    RunLater,
    /// A protected name is beneath.
    LeadsTo,
}

/// A component of a rule, folded.
#[derive(Debug)]
enum Part {
    Whole(Box<str>),
    Start(Box<str>),
    End(Box<str>),
}

impl Part {
    fn of(text: &str) -> Self {
        let whole = text.trim_matches('*').to_ascii_lowercase().into_boxed_str();
        match (text.starts_with('*'), text.ends_with('*')) {
            (false, false) => Self::Whole(whole),
            (true, _) => Self::End(whole),
            (false, true) => Self::Start(whole),
        }
    }

    fn means(&self, name: &str) -> bool {
        match self {
            Self::Whole(whole) => name == &**whole,
            Self::Start(start) => name.len() > start.len() && name.starts_with(&**start),
            Self::End(end) => name.len() > end.len() && name.ends_with(&**end),
        }
    }
}

/// The rules by their first component.
struct Index {
    whole: HashMap<&'static str, Vec<&'static NameRule>>,
    /// Rules whose first component has a `*`.
    others: Vec<&'static NameRule>,
}

static RULES: LazyLock<Vec<NameRule>> = LazyLock::new(|| {
    let mut rules = Vec::new();
    let mut add = |name: &'static str, text: &str, list, is_dir| {
        let parts = text.trim_end_matches('/').split('/').map(Part::of).collect();
        rules.push(NameRule { name, order: rules.len(), list, parts, is_dir });
    };
    let executed = ON_THIS_HOST.iter().map(|row| (row.name, Protection::Executes));
    let elsewhere = ELSEWHERE.iter().map(|row| (row.name, Protection::Elsewhere));
    let protected: Vec<_> =
        executed.chain(elsewhere).chain([(OWN_BENEATH, Protection::Closed)]).collect();
    for &(name, protection) in &protected {
        add(name, name, List::Protected(protection), name.ends_with('/'));
    }
    for row in RUN_LATER {
        add(row.name, row.name, List::RunLater, row.name.ends_with('/'));
    }
    let names = protected.iter().map(|(name, _)| *name).filter(|name| !OF_GIT.contains(name));
    for name in names.chain(OF_GIT) {
        for (at, _) in name.trim_end_matches('/').match_indices('/') {
            add(name, name.get(..at).unwrap_or_default(), List::LeadsTo, false);
        }
    }
    rules
});

static INDEX: LazyLock<Index> = LazyLock::new(|| {
    let (mut whole, mut others) = (HashMap::<_, Vec<_>>::new(), Vec::new());
    for rule in RULES.iter() {
        match rule.parts.first() {
            Some(Part::Whole(name)) => whole.entry(&**name).or_default().push(rule),
            _ => others.push(rule),
        }
    }
    Index { whole, others }
});

/// Returns the matches of folded names, of which the first `n_above` are above the root's, in the order of their places.
pub(super) fn matches(all: &[String], n_above: usize) -> Vec<Match> {
    let index = &*INDEX;
    let mut found = Vec::new();
    for (at, name) in all.iter().enumerate() {
        let whole = index.whole.get(name.as_str()).into_iter().flatten();
        for &rule in whole.chain(&index.others) {
            let end = at + rule.parts.len();
            let is_match = n_above < end
                && (rule.is_dir || end == all.len())
                && all.get(at..end).is_some_and(|names| {
                    names.iter().zip(&rule.parts).all(|(name, part)| part.means(name))
                });
            if is_match {
                found.push(Match { rule, at });
            }
        }
    }
    found
}
