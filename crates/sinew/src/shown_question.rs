//! What a terminal shows of a question. It travels to the terminal of another process, so it is text alone.

use serde::{Deserialize, Serialize};
use sinew_runtime::question;
use sinew_tool::{Question, Scope};

/// The texts of a question.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShownQuestion {
    /// Which process asks, where a terminal shows questions of several: `sinew mcp in /home/ada/app`.
    pub(crate) of: Option<String>,
    /// The first three lines.
    head: [String; 3],
    /// Everything else that an answer covers, except the diff.
    details: String,
    /// Whether the details are shown before any key.
    must_be_read: bool,
    /// The change as a unified diff.
    diff: Option<String>,
    reason: String,
    /// The strongest warning about a yes, if there is one.
    warning: Option<String>,
    /// What an answer of each scope covers.
    covers: Vec<ShownCover>,
    is_denied_by_default: bool,
    /// Whether the command runs already, and waits for the answer. An older `sinew approve` does not know it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_running: bool,
}

/// What an answer of one scope covers.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ShownCover {
    scope: String,
    what: String,
}

/// What Enter answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum OnEnter {
    /// No.
    #[default]
    Denies,
    /// Yes: the person has just asked for the call.
    Runs,
    /// As an MCP client's dialog: yes, once, unless the question is denied by default.
    AsByDefault,
}

/// The keys of each scope; the first is shown.
const KEYS: [(&str, Scope); 4] =
    [("y", Scope::Call), ("e", Scope::Exact), ("s", Scope::Session), ("af", Scope::Forever)];

/// The most lines beyond the first three that are shown before any key.
const MAX_DETAILS: usize = 30;
/// The most lines of a diff that are shown before any key where Enter may be a yes. Behind a longer one it is a no.
const MAX_DIFF: usize = 20;

impl ShownQuestion {
    pub(crate) fn of(asked: &Question) -> Self {
        let is_running = asked.is_running;
        let cover = |(_, scope)| {
            let what = match scope {
                Scope::Call => String::from(if is_running { "yes" } else { "once" }),
                _ => question::covers(asked, scope)?,
            };
            Some(ShownCover { scope: scope.as_str().to_owned(), what })
        };
        let diff = asked.diff.as_ref().map(|_| {
            let mut diff = String::new();
            question::write_diff(&mut diff, asked);
            diff
        });
        let mut reason = String::new();
        question::write_reason(&mut reason, asked);
        Self {
            of: None,
            head: question::head(asked),
            details: question::details(asked),
            must_be_read: question::must_be_read(asked),
            diff,
            reason,
            warning: Some(question::warning(asked)).filter(|text| text != question::NO_WARNING),
            covers: KEYS.into_iter().filter_map(cover).collect(),
            is_denied_by_default: question::is_denied_by_default(asked),
            is_running,
        }
    }

    /// Returns what is shown before any key: the first three lines, and what they leave out. Where Enter may be a yes, also
    /// the warning and a short diff.
    pub(crate) fn first(&self, on_enter: OnEnter) -> String {
        let mut text = String::new();
        if let Some(of) = &self.of {
            text.push_str(&format!("{of}:\n"));
        }
        text.push_str(&self.head.join("\n"));
        text.push('\n');
        if on_enter == OnEnter::AsByDefault
            && let Some(warning) = &self.warning
        {
            text.push_str(&format!("{warning}\n"));
        }
        if self.must_be_read {
            let mut lines = self.details.lines();
            for line in lines.by_ref().take(MAX_DETAILS) {
                text.push_str(line);
                text.push('\n');
            }
            match lines.count() {
                0 => {}
                n => text.push_str(&format!("  … and {n} more lines: `?`\n")),
            }
        }
        if on_enter == OnEnter::AsByDefault && !self.has_long_diff() {
            text.push_str(self.diff.as_deref().unwrap_or_default());
        }
        text
    }

    /// Returns everything that an answer covers.
    pub(crate) fn words(&self) -> String {
        let diff = self.diff.as_deref().unwrap_or_default();
        format!("{}\n{}{diff}{}", self.head.join("\n"), self.details, self.reason)
    }

    pub(crate) fn diff(&self) -> Option<&str> {
        self.diff.as_deref()
    }

    /// Returns the first key and the scope of a key, if that scope is offered.
    pub(crate) fn scope_of(&self, key: u8) -> Option<(char, Scope)> {
        let is_key = |keys: &str| keys.bytes().any(|known| known == key.to_ascii_lowercase());
        let (keys, scope) = KEYS.into_iter().find(|(keys, _)| is_key(keys))?;
        self.what(scope)?;
        Some((keys.chars().next()?, scope))
    }

    /// Returns whether Enter is a yes.
    pub(crate) fn runs_on_enter(&self, on_enter: OnEnter) -> bool {
        match on_enter {
            OnEnter::Denies => false,
            OnEnter::Runs => true,
            OnEnter::AsByDefault => !self.is_denied_by_default && !self.has_long_diff(),
        }
    }

    fn has_long_diff(&self) -> bool {
        self.diff.as_ref().is_some_and(|diff| MAX_DIFF < diff.lines().count())
    }

    /// Returns the keys with what each covers. `window`: the columns and rows of the terminal. Where they do not show all from
    /// the first line on, the first two come once more.
    pub(crate) fn prompt(&self, on_enter: OnEnter, window: Option<(usize, usize)>) -> String {
        let keys = self.keys(on_enter);
        let Some((columns, rows)) = window.filter(|(columns, _)| *columns != 0) else {
            return keys;
        };
        let n_rows = |text: &str| -> usize {
            text.lines()
                .map(|line| line.chars().map(width).sum::<usize>().div_ceil(columns).max(1))
                .sum()
        };
        if n_rows(&self.first(on_enter)) + n_rows(&keys) <= rows {
            return keys;
        }
        let (keys, last) = keys.rsplit_once('\n').unwrap_or(("", &keys));
        let [asked, object, _] = &self.head;
        let of = self.of.as_ref().map_or_else(String::new, |of| format!("{of}:\n"));
        format!("{keys}\n{of}{asked}\n{object}\n{last}")
    }

    fn keys(&self, on_enter: OnEnter) -> String {
        let diff = if self.diff.is_some() { "  d  show the difference\n" } else { "" };
        if on_enter == OnEnter::Runs {
            return format!("{diff}  ?  show everything\nEnter runs it, any other key denies it: ");
        }
        let mut text = String::new();
        let mut letters = String::new();
        let runs = self.runs_on_enter(on_enter);
        for (keys, scope) in KEYS {
            let key = keys.get(..1).unwrap_or_default();
            if let Some(what) = self.what(scope) {
                text.push_str(&format!("  {key}  {what}\n"));
                let is_default = runs && scope == Scope::Call;
                let letter = if is_default { key.to_uppercase() } else { key.to_owned() };
                letters.push_str(&format!("{letter}/"));
            }
        }
        text.push_str("  n  no, with a reason\n");
        let d = if diff.is_empty() { "" } else { "d/" };
        let n = if runs { 'n' } else { 'N' };
        let asks = if self.is_running { "Go on?" } else { "Run it?" };
        format!("{text}{diff}  ?  show everything\n{asks} [{letters}{d}?/{n}] ")
    }

    fn what(&self, scope: Scope) -> Option<&str> {
        let cover = self.covers.iter().find(|cover| cover.scope == scope.as_str());
        cover.map(|cover| cover.what.as_str())
    }
}

/// Returns how many columns a character takes at most.
fn width(character: char) -> usize {
    match character {
        '\t' => 8,
        _ if character.is_ascii() => 1,
        _ => 2,
    }
}
