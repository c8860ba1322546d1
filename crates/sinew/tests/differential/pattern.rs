//! The patterns: one case a line, in `patterns.txt`.
//!
//! A line is a deed with flags, ` | `, and the pattern as it is written. Deeds are `grep`, `glob`
//! and `cross` (a Glob whose star crosses slashes). Flags are those of ripgrep that have a parameter
//! here: `-i`, `-U`, `-g GLOB`, `-t TYPE`, `-A N`, `-B N`, `-C N`; and `-p PATH`, where the search
//! begins.

use std::path::Path;

use serde_json::{Value, json};

use super::exact::Mode;

/// What a case does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PatternOp {
    Grep,
    Glob { crosses: bool },
}

/// One line of the file.
#[derive(Debug, Clone)]
pub(super) struct Case {
    /// The line as it is written.
    pub(super) line: String,
    pub(super) deed: PatternOp,
    pub(super) pattern: String,
    pub(super) ignore_case: bool,
    pub(super) multiline: bool,
    pub(super) glob: Option<String>,
    pub(super) file_type: Option<String>,
    pub(super) path: Option<String>,
    /// Names and numbers of the flags for context.
    pub(super) context: Vec<(&'static str, u64)>,
}

/// Reads all cases.
pub(super) fn cases() -> Vec<Case> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/differential/patterns.txt");
    let text = std::fs::read_to_string(file).unwrap();
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let cases: Vec<Case> =
        lines.map(|line| case(line).unwrap_or_else(|| panic!("{line}"))).collect();
    let n_grep = cases.iter().filter(|case| case.deed == PatternOp::Grep).count();
    let n_glob = cases.len() - n_grep;
    assert!(150 <= n_grep && 40 <= n_glob && 200 <= cases.len(), "{n_grep} + {n_glob} patterns");
    cases
}

fn case(line: &str) -> Option<Case> {
    let (head, pattern) = line.split_once(" | ")?;
    let mut words = head.split_ascii_whitespace();
    let deed = match words.next()? {
        "grep" => PatternOp::Grep,
        "glob" => PatternOp::Glob { crosses: false },
        "cross" => PatternOp::Glob { crosses: true },
        _ => return None,
    };
    let mut case = Case {
        line: line.to_owned(),
        deed,
        pattern: pattern.to_owned(),
        ignore_case: false,
        multiline: false,
        glob: None,
        file_type: None,
        path: None,
        context: Vec::new(),
    };
    while let Some(word) = words.next() {
        let mut value = || words.next().map(str::to_owned);
        match word {
            "-i" => case.ignore_case = true,
            "-U" => case.multiline = true,
            "-g" => case.glob = Some(value()?),
            "-t" => case.file_type = Some(value()?),
            "-p" => case.path = Some(value()?),
            "-A" => case.context.push(("after", value()?.parse().ok()?)),
            "-B" => case.context.push(("before", value()?.parse().ok()?)),
            "-C" => case.context.push(("context", value()?.parse().ok()?)),
            _ => return None,
        }
    }
    Some(case)
}

impl Case {
    /// Returns the arguments of a call of Grep.
    pub(super) fn arguments(&self, mode: Mode, path: Option<&str>) -> Value {
        let mut arguments = json!({
            "pattern": self.pattern,
            "mode": mode.word(),
            "ignore_case": self.ignore_case,
            "multiline": self.multiline,
        });
        for (name, value) in
            [("glob", self.glob.as_deref()), ("type", self.file_type.as_deref()), ("path", path)]
        {
            if let Some(value) = value {
                arguments[name] = json!(value);
            }
        }
        for (name, number) in &self.context {
            arguments[*name] = json!(number);
        }
        arguments
    }

    /// Returns the flags of ripgrep.
    pub(super) fn flags(&self, mode: Mode) -> Vec<String> {
        let mut flags: Vec<String> = Vec::new();
        if self.ignore_case {
            flags.push("--ignore-case".into());
        }
        if self.multiline {
            flags.extend(["--multiline".into(), "--multiline-dotall".into()]);
        }
        if let Some(glob) = &self.glob {
            flags.push(format!("--glob={glob}"));
        }
        if let Some(name) = &self.file_type {
            flags.push(format!("--type={name}"));
        }
        match mode {
            Mode::Names => flags.push("--files-with-matches".into()),
            // Its own manual says that `--count` means this where matches may span lines.
            Mode::Count if self.multiline => flags.push("--count-matches".into()),
            Mode::Count => flags.push("--count".into()),
            Mode::Content => {
                flags.extend(["--line-number".into(), "--no-context-separator".into()]);
                let context = self.context.iter();
                flags.extend(context.map(|(name, number)| match *name {
                    "before" => format!("--before-context={number}"),
                    "after" => format!("--after-context={number}"),
                    _ => format!("--context={number}"),
                }));
            }
        }
        flags.push(format!("--regexp={}", self.pattern));
        flags
    }
}
