//! Judges a new configuration of a git repository by its content, against the one before.
//!
//! Many keys make git execute a program, now or when the user next runs git on the host. So a command may
//! only set, change and remove keys of a [list](keys), to values that execute nothing. Other entries may stay
//! as they were. The parser is stricter than git's: what it cannot read is refused.

pub mod keys;

use std::collections::BTreeMap;

use keys::{Fate, KEYS, Values};

/// The largest configuration that is judged, in bytes.
pub const MAX_BYTES: usize = 256 * 1024;

/// Whose configuration it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigOf {
    /// A repository, with or without a working tree, or one of its working trees.
    Repository,
    /// The repository of a submodule, inside that of its superproject, so many levels above its working tree.
    Submodule { n_levels: usize },
    /// `.gitmodules`, a tracked file that names submodules.
    Gitmodules,
}

/// An entry: its key and its value, which is missing where only a name is written.
type Entry = (Key, Option<String>);

/// A key: section and name in lower case, with the subsection between them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    section: String,
    subsection: Option<String>,
    name: String,
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.subsection {
            Some(subsection) => write!(f, "{}.{subsection}.{}", self.section, self.name),
            None => write!(f, "{}.{}", self.section, self.name),
        }
    }
}

/// Returns why a configuration may not replace the one before, which is empty if there was none.
pub fn judge(before: &[u8], after: &[u8], of: ConfigOf) -> Result<(), String> {
    let after = parse(after)?;
    // What git itself cannot read has no effect yet, so every entry counts as new.
    let before = parse(before).unwrap_or_default();
    let (before, after) = (by_key(before), by_key(after));
    let context = Context { of, remotes: remotes(&after) };
    for key in after.keys().chain(before.keys().filter(|key| !after.contains_key(*key))) {
        let (old, new) = (before.get(key), after.get(key));
        if old == new {
            continue;
        }
        let fate =
            fate(key).ok_or_else(|| format!("`{key}` is not a key that commands may set"))?;
        let values = match fate {
            Fate::Allowed(values) => values,
            Fate::Executes => return Err(format!("`{key}` makes git execute a program")),
            Fate::Refused(why) => return Err(format!("`{key}` may not be set: {why}")),
        };
        let is_first = old.is_none_or(Vec::is_empty);
        // Removing an address only takes a remote away.
        let keeps = matches!(values, Values::Url | Values::RemoteName) && !is_first;
        if keeps && new.is_some_and(|new| !new.is_empty()) && of != ConfigOf::Gitmodules {
            return Err(format!(
                "`{key}` has a value already, and changing it sends work elsewhere"
            ));
        }
        let is_mirror = key.section == "remote" && key.name == "mirror";
        if is_mirror && before.contains_key(&Key { name: String::from("url"), ..key.clone() }) {
            return Err(format!("`{key}` of a remote that was there makes a push delete branches"));
        }
        for value in new.into_iter().flatten() {
            context.check(values, key, value.as_deref())?;
        }
    }
    Ok(())
}

/// Returns whether the options of a cherry-pick that is to go on name no program.
pub(crate) fn judge_sequencer_options(text: &[u8]) -> bool {
    parse(text).is_ok_and(|entries| {
        entries.iter().all(|(key, value)| {
            let is_strategy = value.as_deref().is_some_and(crate::guarded::is_strategy);
            key.section == "options" && (key.name != "strategy" || is_strategy)
        })
    })
}

/// Returns why a command may not set a key, written as git names it, to a value.
pub fn judge_value(key: &str, value: &str) -> Result<(), String> {
    let key = parse_key(key).ok_or_else(|| format!("`{key}` is not a key"))?;
    match fate(&key) {
        // Which remotes there are decides, and this is not known.
        Some(Fate::Allowed(Values::RemoteName)) => Ok(()),
        Some(Fate::Allowed(Values::Url)) => Err(format!("`{key}` may have a value already")),
        Some(Fate::Allowed(values)) => {
            let context = Context { of: ConfigOf::Repository, remotes: Vec::new() };
            context.check(values, &key, Some(value))
        }
        _ => Err(format!("`{key}` is not a key that commands may set")),
    }
}

/// Returns why a command may not remove a key, written as git names it.
pub fn judge_removal(key: &str) -> Result<(), String> {
    match fate_of(key) {
        Some(Fate::Allowed(_)) => Ok(()),
        _ => Err(format!("`{key}` is not a key that commands may remove")),
    }
}

/// Returns what happens to changes of a key written as git names it, such as `remote.origin.url`.
pub fn fate_of(key: &str) -> Option<Fate> {
    fate(&parse_key(key)?)
}

fn parse_key(key: &str) -> Option<Key> {
    let key = key.to_ascii_lowercase();
    let (section, rest) = key.split_once('.')?;
    let (subsection, name) = match rest.rsplit_once('.') {
        Some((subsection, name)) => (Some(subsection.to_owned()), name),
        None => (None, rest),
    };
    Some(Key { section: section.to_owned(), subsection, name: name.to_owned() })
}

fn fate(key: &Key) -> Option<Fate> {
    KEYS.iter().find(|(pattern, _)| is_meant(pattern, key)).map(|(_, fate)| *fate)
}

/// Returns whether a row of the list means a key.
fn is_meant(pattern: &str, key: &Key) -> bool {
    let mut parts = pattern.split('.');
    if parts.next() != Some(key.section.as_str()) {
        return false;
    }
    let is_named = |name: &str| match name.strip_suffix('*') {
        Some(start) => key.name.starts_with(start),
        None => key.name == name,
    };
    match (parts.next(), parts.next()) {
        (Some("**"), None) => true,
        (Some(name), None) => key.subsection.is_none() && is_named(name),
        (Some("*"), Some(name)) => key.subsection.is_some() && is_named(name),
        (Some(subsection), Some(name)) => {
            key.subsection.as_deref() == Some(subsection) && is_named(name)
        }
        (None, _) => false,
    }
}

fn by_key(entries: Vec<Entry>) -> BTreeMap<Key, Vec<Option<String>>> {
    let mut all: BTreeMap<Key, Vec<Option<String>>> = BTreeMap::new();
    for (key, value) in entries {
        all.entry(key).or_default().push(value);
    }
    all
}

/// Returns the names of the remotes that have an address.
fn remotes(entries: &BTreeMap<Key, Vec<Option<String>>>) -> Vec<String> {
    let of_remotes = entries.keys().filter(|key| key.section == "remote" && key.name == "url");
    of_remotes.filter_map(|key| key.subsection.clone()).collect()
}

/// What values are checked against.
struct Context {
    of: ConfigOf,
    remotes: Vec<String>,
}

impl Context {
    fn check(&self, values: Values, key: &Key, value: Option<&str>) -> Result<(), String> {
        let text = value.unwrap_or("true");
        let is_bool = |text: &str| {
            let words = ["true", "false", "yes", "no", "on", "off", ""];
            words.iter().any(|word| word.eq_ignore_ascii_case(text)) || text.parse::<i64>().is_ok()
        };
        let is_word = |words: &[&str]| words.iter().any(|word| word.eq_ignore_ascii_case(text));
        let is_ok = match values {
            Values::Any => true,
            Values::Bool => is_bool(text),
            Values::BoolOr(words) => is_bool(text) || is_word(words),
            Values::Word(words) => is_word(words),
            Values::Number => is_number(text),
            Values::Time => text.chars().all(|c| c.is_ascii_alphanumeric() || " .:+-".contains(c)),
            Values::OnlyFalse => is_word(&["false", "no", "off", "0"]),
            Values::Url => is_harmless_address(text),
            Values::RemoteName => text == "." || self.remotes.iter().any(|name| name == text),
            Values::Refspec => is_refspec(text),
            Values::Reference => text.starts_with("refs/"),
            Values::Module => match self.of {
                ConfigOf::Submodule { n_levels } => leads_inside(text, n_levels),
                ConfigOf::Repository | ConfigOf::Gitmodules => false,
            },
        };
        let has_control = text.chars().any(char::is_control);
        if is_ok && !has_control {
            return Ok(());
        }
        let about = match values {
            Values::RemoteName => "names a remote that is not there",
            Values::Module => "leads to another working tree",
            Values::Url => "has an address that may execute a program or hold what was planted",
            _ => "has a value that is not on the list of harmless ones",
        };
        Err(format!("`{key} = {}` {about}", text.escape_debug()))
    }
}

fn is_number(text: &str) -> bool {
    let digits = text.trim_start_matches(['-', '+']);
    let digits = digits.strip_suffix(['k', 'K', 'm', 'M', 'g', 'G']).unwrap_or(digits);
    text == "auto" || (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

fn is_refspec(text: &str) -> bool {
    let is_plain = |part: &str| !part.starts_with('-') && !part.contains(char::is_whitespace);
    is_plain(text) && text.split(':').count() <= 2
}

/// Returns whether fetching from an address and pushing to it executes nothing on this host that a command
/// may have planted. Configuration and hooks of repositories in the roots are judged, but not of those in
/// directories that tools fill; temporary directories are the session's own.
fn is_harmless_address(url: &str) -> bool {
    // `TRANSPORT::ADDRESS` runs a remote helper, and a program takes a word with `-` for an option.
    if url.is_empty() || url.starts_with('-') || url.contains("::") {
        return false;
    }
    if let Some((scheme, rest)) = url.split_once("://") {
        let scheme = scheme.to_ascii_lowercase();
        return match scheme.as_str() {
            "https" | "http" | "git" => !rest.starts_with('-'),
            "ssh" | "git+ssh" | "ssh+git" => {
                let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
                !rest.starts_with('-') && !host.starts_with('-')
            }
            "file" => is_harmless_place(rest),
            _ => false,
        };
    }
    let is_host = |host: &str| !host.is_empty() && !host.contains('/');
    match url.split_once(':') {
        Some((host, _)) if is_host(host) => {
            let named = host.rsplit_once('@').map_or(host, |(_, host)| host);
            !named.starts_with('-')
        }
        _ => is_harmless_place(url),
    }
}

fn is_harmless_place(path: &str) -> bool {
    let is_of_session = ["/tmp", "/var/tmp", "/dev", "/proc", "/run"].iter().any(|place| {
        path.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    });
    !is_of_session && !path.split('/').any(crate::protected::is_filled_by_tools)
}

/// Returns whether a path leads from a submodule's repository to a working tree inside the superproject.
fn leads_inside(path: &str, n_levels: usize) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    let n_up = parts.iter().take_while(|part| **part == "..").count();
    let mut below = parts.iter().skip(n_up);
    n_up <= n_levels
        && n_up < parts.len()
        && below.all(|part| !matches!(*part, "" | "." | "..") && !part.eq_ignore_ascii_case(".git"))
}

/// Parses a configuration, stricter than git does.
fn parse(text: &[u8]) -> Result<Vec<Entry>, String> {
    if MAX_BYTES < text.len() {
        return Err(format!("a configuration of more than {} KiB is not judged", MAX_BYTES / 1024));
    }
    let text = std::str::from_utf8(text).map_err(|_| String::from("it is not UTF-8"))?;
    // Git reads a key up to its first NUL.
    if text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t')) {
        return Err(String::from("it holds control characters"));
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut entries = Vec::new();
    let mut section: Option<(String, Option<String>)> = None;
    let mut lines = text.split('\n').enumerate();
    while let Some((at, line)) = lines.next() {
        let unclear = |what: &str| format!("line {} cannot be read for sure: {what}", at + 1);
        let mut rest = line.strip_suffix('\r').unwrap_or(line).trim_start_matches([' ', '\t']);
        if let Some(header) = rest.strip_prefix('[') {
            let (named, behind) = parse_header(header).ok_or_else(|| unclear("its section"))?;
            section = Some(named);
            rest = behind.trim_start_matches([' ', '\t']);
        }
        if rest.is_empty() || rest.starts_with(['#', ';']) {
            continue;
        }
        let (section, subsection) = section.clone().ok_or_else(|| unclear("it has no section"))?;
        let n_name = rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'-').count();
        let (name, value) = rest.split_at(n_name);
        if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return Err(unclear("its key"));
        }
        let value = value.trim_start_matches([' ', '\t']);
        let value = match value.strip_prefix('=') {
            Some(value) => {
                // A backslash at the end continues the value on the next line.
                let mut whole = value.to_owned();
                loop {
                    match parse_value(&whole).ok_or_else(|| unclear("its value"))? {
                        Parsed::Whole(value) => break Some(value),
                        Parsed::Continues => {
                            let (_, next) = lines.next().ok_or_else(|| unclear("its end"))?;
                            whole.push('\n');
                            whole.push_str(next.strip_suffix('\r').unwrap_or(next));
                        }
                    }
                }
            }
            None if value.is_empty() || value.starts_with(['#', ';']) => None,
            None => return Err(unclear("its value")),
        };
        let key = Key { section, subsection, name: name.to_ascii_lowercase() };
        entries.push((key, value));
    }
    Ok(entries)
}

/// Parses `section]` or `section "subsection"]`; returns the rest of the line.
fn parse_header(header: &str) -> Option<((String, Option<String>), &str)> {
    let is_name = |b: &u8| b.is_ascii_alphanumeric() || *b == b'-' || *b == b'.';
    let (name, rest) = header.split_at(header.bytes().take_while(is_name).count());
    if name.is_empty() {
        return None;
    }
    if let Some(rest) = rest.strip_prefix(']') {
        // The old form `[section.subsection]` has a subsection in lower case.
        let lower = name.to_ascii_lowercase();
        let named = match lower.split_once('.') {
            Some((section, subsection)) => (section.to_owned(), Some(subsection.to_owned())),
            None => (lower, None),
        };
        return Some((named, rest));
    }
    let quoted = rest.trim_start_matches([' ', '\t']).strip_prefix('"')?;
    let mut subsection = String::new();
    let mut chars = quoted.char_indices();
    loop {
        match chars.next()? {
            (at, '"') => {
                let rest = quoted.get(at + 1..)?.strip_prefix(']')?;
                let name = name.to_ascii_lowercase();
                return (!name.contains('.')).then_some(((name, Some(subsection)), rest));
            }
            (_, '\\') => subsection.push(chars.next()?.1),
            (_, c) => subsection.push(c),
        }
    }
}

/// The value of a line, or its beginning.
enum Parsed {
    Whole(String),
    /// The next line continues it.
    Continues,
}

/// Parses a value with quotes, escapes and comments. `None` if it is not well formed.
fn parse_value(text: &str) -> Option<Parsed> {
    let mut value = String::new();
    // Blanks that count only if something follows.
    let mut blanks = String::new();
    let mut in_quotes = false;
    let mut chars = text.trim_start_matches([' ', '\t']).chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => {
                value.push_str(&std::mem::take(&mut blanks));
                in_quotes = !in_quotes;
                continue;
            }
            '#' | ';' if !in_quotes => break,
            ' ' | '\t' if !in_quotes => {
                if !value.is_empty() {
                    blanks.push(c);
                }
                continue;
            }
            _ => {}
        }
        value.push_str(&std::mem::take(&mut blanks));
        match c {
            '\\' => match chars.next() {
                None => return Some(Parsed::Continues),
                Some('\n') => {}
                Some('n') => value.push('\n'),
                Some('t') => value.push('\t'),
                Some('b') => value.push('\u{8}'),
                Some(same @ ('\\' | '"')) => value.push(same),
                Some(_) => return None,
            },
            '\n' | '\r' | '\0' => return None,
            c => value.push(c),
        }
    }
    (!in_quotes).then_some(Parsed::Whole(value))
}

#[cfg(test)]
mod tests;
