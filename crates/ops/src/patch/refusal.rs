//! Errors for patches that cannot be read and hunks that do not fit, worded for a model.

use sinew_tool::{Kind, ToolError};

use crate::nearest::Region;

/// The most hunks that a message names.
const MAX_TOLD: usize = 5;

/// Why a text cannot be read as a patch. Lines are those of the patch, counted from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PatchError {
    /// Nothing in it is a patch.
    Empty,
    /// It changes a binary file.
    Binary { line: u64 },
    /// It is a diff against more than one parent.
    Combined { line: u64 },
    /// It is a diff of another format.
    Format { line: u64, found: &'static str },
    /// A name cannot be used, for this reason.
    Name { line: u64, problem: &'static str },
    /// A mode is neither of a file nor of a symbolic link.
    Mode { line: u64 },
    /// A file is named and no hunk follows.
    NoHunk { line: u64 },
    /// A hunk has no line that changes something.
    Hunk { line: u64 },
    /// The text ends within a hunk, before all the lines that its header counts.
    CutOff { line: u64 },
    /// A change is asked for in a second format, or outside the envelope.
    Outside { line: u64 },
    /// The header of a file contradicts itself, for this reason.
    Contradiction { line: u64, problem: &'static str },
    /// An envelope is not well formed.
    Envelope { line: u64, problem: &'static str },
    /// It has more files and hunks than can be taken.
    TooMany { line: u64 },
}

impl PatchError {
    /// Returns the error for the caller of a tool.
    pub fn to_error(&self) -> ToolError {
        let (message, hint) = match self {
            Self::Empty => (
                String::from("no patch was found in the text"),
                "send a unified diff (`--- a/x`, `+++ b/x`, `@@ -1,3 +1,4 @@` and lines that begin \
                 with ` `, `-`, `+`), or an envelope from `*** Begin Patch` to `*** End Patch`",
            ),
            Self::Binary { line } => (
                format!("line {line} of the patch changes a binary file"),
                "leave that file out; only text can be patched",
            ),
            Self::Combined { line } => (
                format!("line {line} of the patch begins a combined diff"),
                "send a unified diff against one parent, as `git diff -m -p` makes it",
            ),
            Self::Format { line, found } => (
                format!("line {line} of the patch is of a format that is not taken: {found}"),
                "send a unified diff, as `diff -u` and `git diff` make it",
            ),
            Self::Name { line, problem } => (
                format!("a file name at line {line} of the patch {problem}"),
                "write both names plainly, as in `--- a/src/x.rs` and `+++ b/src/x.rs`",
            ),
            Self::Mode { line } => (
                format!("the mode at line {line} of the patch is not of a file"),
                "use one of 100644, 100755 and 120000",
            ),
            Self::NoHunk { line } => (
                format!("line {line} of the patch names a file, and no hunk follows"),
                "begin each hunk with `@@` and its lines with ` `, `-` or `+`",
            ),
            Self::Hunk { line } => (
                format!("the hunk at line {line} of the patch changes nothing"),
                "begin removed lines with `-`, added ones with `+` and others with a blank",
            ),
            Self::CutOff { line } => (
                format!("the text ends within the hunk at line {line} of the patch"),
                "send the whole patch, with a line feed at its end",
            ),
            Self::Outside { line } => (
                format!("line {line} of the patch asks for a change that is not part of the rest"),
                "send one diff, or everything between one `*** Begin Patch` and its `*** End Patch`",
            ),
            Self::Contradiction { line, problem } => (
                format!("what line {line} of the patch and those below say of a file {problem}"),
                "write the same names in every line about a file, and do one thing with it",
            ),
            Self::Envelope { line, problem } => (
                format!("the envelope at line {line} of the patch {problem}"),
                "write `*** Begin Patch`, then each file after `*** Add File: `, \
                 `*** Update File: ` or `*** Delete File: `, then `*** End Patch`",
            ),
            Self::TooMany { line } => (
                format!("the patch has too many files and hunks, up to line {line}"),
                "send it in parts",
            ),
        };
        ToolError::new(Kind::InvalidArgs, message).hint(hint)
    }
}

/// Why nothing of a file was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rejected {
    /// These of its hunks do not fit, in their order.
    Hunks {
        /// How many hunks there are in all.
        n_hunks: usize,
        /// At least one.
        failures: Vec<Failure>,
    },
    /// The caller cancelled it.
    Unwanted,
    /// The patch makes a file, and there is content already.
    Exists,
    /// The patch deletes the file, and its hunks leave lines; this is the first one.
    Leaves {
        /// Counted from 1.
        line: u64,
    },
}

/// A hunk that does not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Its number in the file, counted from 1.
    pub number: usize,
    /// The line of the patch at which it begins, counted from 1.
    pub patch_line: u64,
    /// The reason.
    pub why: Why,
    /// The regions most like its old lines; searched for the first few failures only.
    pub nearest: Vec<Region>,
}

/// Why a hunk does not fit. Lines are those of the old content, counted from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// Its old lines are nowhere.
    NotFound,
    /// A line that its header names is nowhere.
    NoContext(String),
    /// It fits at each of these lines, and perhaps at more.
    Ambiguous(Vec<u64>),
    /// It wants to be behind the end of a content with this many lines.
    PastEnd(u64),
    /// Its old lines begin here, before the end of the hunk before it.
    Before(u64),
    /// Its new lines are at this line already.
    Applied(u64),
    /// It adds a line as the last one without a line feed, and more follow this one.
    NotEnd(u64),
    /// It only adds lines and does not say where.
    Unplaced,
    /// Looking for it would take too long.
    Costly,
}

impl Why {
    fn words(&self) -> String {
        match self {
            Self::NotFound => String::from("was not found"),
            Self::NoContext(text) => {
                format!("was not found: its header names a missing line: {text}")
            }
            Self::Ambiguous(lines) => {
                let lines: Vec<String> = lines.iter().map(u64::to_string).collect();
                format!("fits in more than one place: lines {}", lines.join(", "))
            }
            Self::PastEnd(n_lines) => {
                format!("is behind the end of the file, which has {n_lines} lines")
            }
            Self::Before(line) => {
                format!("fits only at line {line}, which is before the end of the hunk before it")
            }
            Self::Applied(line) => format!("is applied already: its new lines are at line {line}"),
            Self::NotEnd(line) => {
                format!("says that the file ends with it, and lines follow line {line}")
            }
            Self::Unplaced => String::from("only adds lines and does not say where"),
            Self::Costly => String::from("could not be found in reasonable time"),
        }
    }

    /// Returns the next step for the model.
    fn step(&self) -> &'static str {
        match self {
            Self::NotFound | Self::NoContext(_) => "read the file again and send the hunk anew",
            Self::Ambiguous(_) => "add unchanged lines around the change until the place is unique",
            Self::PastEnd(_) => {
                "add unchanged lines around the change, or correct the line numbers"
            }
            Self::Before(_) => "put hunks in the order of the file, and join those that overlap",
            Self::Applied(_) => "leave the hunk out",
            Self::NotEnd(_) => "leave out `\\ No newline at end of file`, or remove what follows",
            Self::Unplaced => "add the unchanged lines before and after the place",
            Self::Costly => "correct the line numbers, or send fewer hunks at a time",
        }
    }
}

impl Rejected {
    /// Returns the error for the caller of a tool. `shown` is how the file is called.
    pub fn to_error(&self, shown: &str) -> ToolError {
        let (n_hunks, failures) = match self {
            Self::Hunks { n_hunks, failures } => (*n_hunks, failures),
            Self::Unwanted => return ToolError::new(Kind::Cancelled, "the call was cancelled"),
            Self::Exists => {
                let message = format!("the patch creates a file that is there already: {shown}");
                return ToolError::new(Kind::NoMatch, message)
                    .hint("change the file instead, or delete it first");
            }
            Self::Leaves { line } => {
                let message =
                    format!("the patch deletes {shown}, and line {line} would be left of it");
                return ToolError::new(Kind::NoMatch, message)
                    .hint("remove every line, or use `*** Delete File: `");
            }
        };
        let told = failures.iter().take(MAX_TOLD);
        let told: Vec<String> = told
            .map(|failure| {
                let (number, line) = (failure.number, failure.patch_line);
                format!("hunk #{number} (line {line} of the patch) {}", failure.why.words())
            })
            .collect();
        let n_more = failures.len() - told.len();
        let more = if n_more == 0 { String::new() } else { format!("; {n_more} more do not fit") };
        let message = match failures.len() {
            1 if n_hunks == 1 => format!("{}: {shown}", told.concat()),
            n => format!("{n} of {n_hunks} hunks do not fit {shown}: {}{more}", told.join("; ")),
        };
        let mut hints: Vec<String> = Vec::new();
        for failure in failures.iter().take(MAX_TOLD) {
            let regions = failure.nearest.iter().map(Region::words);
            let prefix = format!("hunk #{}: ", failure.number);
            let prefix = if n_hunks == 1 { "" } else { prefix.as_str() };
            hints.extend(regions.map(|words| format!("{prefix}{words}")));
        }
        let mut steps: Vec<&str> =
            failures.iter().take(MAX_TOLD).map(|failure| failure.why.step()).collect();
        steps.sort_unstable();
        steps.dedup();
        hints.extend(steps.into_iter().map(str::to_owned));
        ToolError::new(self.kind(), message).hint(hints.join("\n\n"))
    }

    fn kind(&self) -> Kind {
        let Self::Hunks { failures, .. } = self else { return Kind::NoMatch };
        let kinds = |why: &Why| match why {
            Why::Ambiguous(_) => Kind::NotUnique,
            Why::Costly => Kind::LimitReached,
            _ => Kind::NoMatch,
        };
        failures.first().map_or(Kind::NoMatch, |failure| kinds(&failure.why))
    }
}
