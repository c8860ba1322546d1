//! `sinew import`: converts another program's permissions to sinew's configuration.
#![expect(
    clippy::disallowed_methods,
    reason = "the file that a person names is read and written here"
)]

use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::ValueEnum as _;
use sinew_tool::{shown_line, shown_path};

use crate::config::import::Form;
use crate::config::import::{self, Imported};
use crate::config::{Options, Settings, env_vars};
use crate::screen::{self, say};

/// Converts a file and writes the result. Exit 1 if nothing could be imported.
pub(crate) fn run(form: Form, file: &Path, out: Option<&Path>) -> anyhow::Result<ExitCode> {
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let home = env_vars::home();
    let imported = import::read(form, file, &text, home.as_deref())
        .map_err(|problem| anyhow::anyhow!("{}: {}", file.display(), problem.trim_end()))?;
    // The output must be valid for sinew.
    Settings::resolve(&imported.options)
        .with_context(|| format!("{} comes to what cannot be used", file.display()))?;
    for note in &imported.notes {
        say(note);
    }
    if imported.options == Options::default() {
        say(&format!("nothing of {} could be carried over", shown_path(file)));
        return Ok(ExitCode::from(1));
    }
    let name = form.to_possible_value().map_or_else(String::new, |form| form.get_name().to_owned());
    let text = toml(&name, file, &imported)?;
    match out {
        None => screen::output_of_tools().write_all(text.as_bytes())?,
        Some(path) => {
            let created = std::fs::OpenOptions::new().write(true).create_new(true).open(path);
            let written = created.and_then(|mut file| file.write_all(text.as_bytes()));
            written.with_context(|| path.display().to_string())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the configuration file, with notes on missing entries at its head.
fn toml(form: &str, file: &Path, imported: &Imported) -> anyhow::Result<String> {
    // A line feed in the name would end the comment.
    let name = shown_path(file);
    let mut text = format!("# From {name} ({form}).\n");
    for note in &imported.notes {
        writeln!(text, "# {}", shown_line(note))?;
    }
    let body = toml_edit::ser::to_string_pretty(&imported.options)?;
    write!(text, "\n{body}")?;
    Ok(text)
}
