//! `sinew config show`: prints every value and its origin.

use std::io::Write;
use std::process::ExitCode;

use serde_json::{Value, json};
use sinew_tool::shown_line;

use crate::config;
use crate::wiring::Loaded;

/// Prints the configuration.
pub(crate) fn show(loaded: &Loaded, as_json: bool) -> anyhow::Result<ExitCode> {
    super::warn(loaded);
    let mut out = std::io::stdout().lock();
    let mut rows: Vec<(String, Value, String)> = loaded
        .layered
        .origins
        .iter()
        .map(|(key, (value, origin))| (key.clone(), value.clone(), origin.to_string()))
        .collect();
    rows.extend(resolved(loaded));
    let unset = config::keys().into_iter().filter(|key| rows.iter().all(|(row, ..)| row != key));
    let unset: Vec<_> = unset.map(|key| (key, Value::Null, String::from("not set"))).collect();
    rows.extend(unset);
    rows.sort_by(|(a, ..), (b, ..)| a.cmp(b));
    if as_json {
        for (key, value, origin) in rows {
            writeln!(out, "{}", json!({ "key": key, "value": value, "origin": origin }))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    // A key or value from a repository must not start a line.
    let assignment =
        |(key, value, _): &(String, Value, String)| shown_line(&format!("{key} = {value}"));
    let width = rows.iter().map(|row| assignment(row).chars().count()).max().unwrap_or(0);
    for row in &rows {
        writeln!(out, "{:<width$}  # {}", assignment(row), shown_line(&row.2))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the unset values that depend on the dialect or the place.
fn resolved(loaded: &Loaded) -> Vec<(String, Value, String)> {
    let settings = &loaded.settings;
    let files = &settings.files;
    let dialect = format!("dialect {}", settings.dialect.name);
    let roots: Vec<_> = loaded.roots.iter().map(|root| root.to_string_lossy()).collect();
    let rows = [
        ("roots", json!(roots), String::from("current directory")),
        ("approval_timeout_s", json!(settings.approval_timeout.as_secs()), dialect.clone()),
        ("files.glob_limit", json!(files.glob_limit), dialect.clone()),
        ("files.grep_limit", json!(files.grep_limit), dialect.clone()),
        ("files.list_limit", json!(files.list_limit), dialect.clone()),
        ("files.search_timeout_ms", json!(files.search_timeout_ms), dialect.clone()),
        ("tools.fs.require_approval", json!(files.require_approval), dialect.clone()),
        (
            "tools.fs.checkpoint_before_mutation",
            json!(files.checkpoint_before_mutation),
            dialect.clone(),
        ),
        ("tools.fs.max_read_bytes", json!(files.max_read_bytes), dialect),
    ];
    rows.into_iter()
        .filter(|(key, ..)| !loaded.layered.origins.contains_key(*key))
        .map(|(key, value, origin)| (key.to_owned(), value, origin))
        .collect()
}
