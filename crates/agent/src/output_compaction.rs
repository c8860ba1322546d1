//! Shortens the output of commands before a model reads it, as aionrs does.
//!
//! Output of commands only: the text of a file that a tool read stays byte for byte, because edits must match it.

use sinew_tool::word_enum;

word_enum! {
    /// How much of a command's output is left out.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub enum OutputCompaction {
        /// Nothing.
        Off = "off",
        /// Escape sequences, text that a carriage return overwrites, blanks at line ends and repeated empty lines.
        #[default]
        Safe = "safe",
        /// The same, and runs of similar lines.
        Full = "full",
    }
}

/// Runs of at least so many similar lines are folded.
const MIN_RUN: usize = 3;

impl OutputCompaction {
    /// Shortens an output.
    pub fn apply(self, output: &str) -> String {
        match self {
            Self::Off => output.to_owned(),
            Self::Safe => safe(output),
            Self::Full => folded(&safe(output)),
        }
    }
}

fn safe(output: &str) -> String {
    let mut kept = String::with_capacity(output.len());
    let mut was_empty = false;
    for line in output.split_inclusive('\n') {
        let end = if line.ends_with('\n') { "\n" } else { "" };
        let line = without_escapes(line.trim_end_matches(['\n', '\r']));
        let line = line.rsplit('\r').next().unwrap_or_default().trim_end();
        if line.is_empty() && was_empty {
            continue;
        }
        was_empty = line.is_empty();
        kept.push_str(line);
        kept.push_str(end);
    }
    kept
}

/// Returns a line without control sequences (CSI and OSC) and other escapes.
fn without_escapes(line: &str) -> String {
    let mut kept = String::with_capacity(line.len());
    let mut chars = line.chars().peekable();
    while let Some(char) = chars.next() {
        if char != '\u{1b}' {
            kept.push(char);
            continue;
        }
        match chars.next() {
            Some('[') => {
                // A sequence ends with a character from `@` to `~`.
                let _ = chars.by_ref().find(|char| ('@'..='~').contains(char));
            }
            Some(']') => {
                // A string ends with BEL or `ESC \`.
                let end = chars.by_ref().find(|char| ['\u{7}', '\u{1b}'].contains(char));
                if end == Some('\u{1b}') {
                    chars.next_if_eq(&'\\');
                }
            }
            _ => {}
        }
    }
    kept
}

/// Folds runs of similar lines into the first, a count and the last.
fn folded(output: &str) -> String {
    let lines: Vec<&str> = output.lines().collect();
    let mut kept = Vec::with_capacity(lines.len());
    let mut rest = lines.as_slice();
    while let Some((first, after)) = rest.split_first() {
        let n_like = after.iter().take_while(|line| is_similar(first, line)).count();
        let (run, behind) = rest.split_at(n_like + 1);
        match run {
            [first, middle @ .., last] if MIN_RUN <= run.len() => {
                kept.push((*first).to_owned());
                kept.push(format!("[{} similar lines]", middle.len()));
                kept.push((*last).to_owned());
            }
            run => kept.extend(run.iter().map(|line| (*line).to_owned())),
        }
        rest = behind;
    }
    let mut text = kept.join("\n");
    if output.ends_with('\n') {
        text.push('\n');
    }
    text
}

/// Returns whether the common prefix of two lines is at least half of the longer one.
fn is_similar(one: &str, other: &str) -> bool {
    let n_common = one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count();
    let longer = one.len().max(other.len());
    0 < longer && longer <= 2 * n_common
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(compaction: OutputCompaction, output: &str, expected: &str) {
        assert_eq!(compaction.apply(output), expected, "{output:?}");
    }

    #[test]
    fn safe_removes_what_a_terminal_would_not_show() {
        use OutputCompaction::{Off, Safe};
        for (output, expected) in [
            ("a\nb\n", "a\nb\n"),
            ("\u{1b}[1;31merror\u{1b}[0m: x", "error: x"),
            ("\u{1b}]8;;https://x\u{1b}\\link\u{1b}]8;;\u{7}!", "link!"),
            ("10%\r50%\r100%\ndone", "100%\ndone"),
            ("a  \r\nb\t\n", "a\nb\n"),
            ("a\n\n\n\nb", "a\n\nb"),
            ("  indented\n", "  indented\n"),
            ("cut \u{1b}[3", "cut"),
            ("cut \u{1b}", "cut"),
            ("", ""),
        ] {
            check(Safe, output, expected);
            check(Off, output, output);
        }
    }

    #[test]
    fn full_folds_similar_lines() {
        use OutputCompaction::Full;
        for (output, expected) in [
            (
                "Compiling a\nCompiling b\nCompiling c\nCompiling d\ndone\n",
                "Compiling a\n[2 similar lines]\nCompiling d\ndone\n",
            ),
            ("Compiling a\nCompiling b\nx\n", "Compiling a\nCompiling b\nx\n"),
            ("x\ny\nz", "x\ny\nz"),
        ] {
            check(Full, output, expected);
        }
    }

    proptest! {
        #[test]
        fn no_output_grows_or_loses_its_last_line(output in "[a-c \\r\\n\u{1b}\\[m0-9é]{0,60}") {
            for compaction in OutputCompaction::ALL {
                let short = compaction.apply(&output);
                if compaction != OutputCompaction::Full {
                    prop_assert!(short.len() <= output.len());
                }
                // Once more changes nothing, where no lines are folded.
                if compaction == OutputCompaction::Safe && !output.contains('\u{1b}') {
                    prop_assert_eq!(compaction.apply(&short), short);
                }
            }
        }
    }
}
