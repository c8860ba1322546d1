//! The difference that a setup makes to a file, without secrets: it has no lines around a change, and values beneath keys
//! such as `env`, `headers` and `token` are masked.

use similar::{DiffOp, group_diff_ops};
use sinew_guard::Redactor;
use sinew_ops::line_ops;

use super::item::TextFormat;
use super::{json_text, toml_text};
use crate::config::env_vars;

/// The text in place of a value.
const MASK: &str = "\"[redacted]\"";

/// Keys of tables with secrets, in lower case without `-` and `_`.
const TABLES: &[&str] = &["env", "environment", "headers", "httpheaders"];
/// Parts of keys with secrets.
const PARTS: &[&str] = &[
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "apikey",
    "authorization",
    "credential",
    "cookie",
    "bearer",
];

/// Returns the lines that change between two texts.
pub(super) fn masked_diff(format: TextFormat, old: &str, new: &str) -> String {
    let (old, new) = (masked(format, old), masked(format, new));
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let mut shown = String::new();
    for group in group_diff_ops(line_ops(&old, &new, None), 0) {
        shown.push_str(&header(&group));
        for change in group.iter().flat_map(|op| op.iter_changes(&old, &new)) {
            shown.extend([change.tag().to_string().as_str(), change.value(), "\n"]);
        }
    }
    Redactor::knowing(env_vars::all()).redact(&shown).into_owned()
}

fn header(group: &[DiffOp]) -> String {
    let (Some(first), Some(last)) = (group.first(), group.last()) else { return String::new() };
    let range = |start: usize, end: usize| match end - start {
        0 => format!("{start},0"),
        n => format!("{},{n}", start + 1),
    };
    let old = range(first.old_range().start, last.old_range().end);
    let new = range(first.new_range().start, last.new_range().end);
    format!("@@ -{old} +{new} @@\n")
}

/// Masks the values that may be secret.
fn masked(format: TextFormat, text: &str) -> String {
    let body = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut leaves = match format {
        TextFormat::Json => json_text::leaves(body),
        TextFormat::Toml => toml_text::leaves(body),
    };
    leaves.retain(|(path, _)| path.iter().any(|key| is_secret(key)));
    leaves.sort_by_key(|(_, range)| std::cmp::Reverse(range.start));
    let mut masked = body.to_owned();
    leaves.into_iter().for_each(|(_, range)| masked.replace_range(range, MASK));
    masked
}

fn is_secret(key: &str) -> bool {
    let key = key.to_lowercase().replace(['-', '_'], "");
    TABLES.contains(&key.as_str()) || PARTS.iter().any(|part| key.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diff_without_neighbours_and_secrets() {
        let old = "{\"a\": {\"env\": {\"K\": \"hush-1\", \"N\": 1234}, \"apiKey\": \"hush-2\", \"command\": \"x\"}}";
        let new = old.replace("}}", "}, \"b\": 1}");
        let diff = masked_diff(TextFormat::Json, old, &new);
        assert!(!diff.contains("hush") && !diff.contains("1234"), "{diff}");
        assert!(diff.contains("\"command\": \"x\"}, \"b\": 1}"), "{diff}");
        let old = "[a.env]\nK = \"hush\"\n[b]\nx = 1\nhttp_headers = { A = \"hush\" }\n";
        let new = format!("{old}y = 2\n");
        let diff = masked_diff(TextFormat::Toml, old, &new);
        assert_eq!(diff, "@@ -5,0 +6,1 @@\n+y = 2\n");
        let diff = masked_diff(TextFormat::Toml, "", old);
        assert!(!diff.contains("hush") && diff.contains("+http_headers"), "{diff}");
    }
}
