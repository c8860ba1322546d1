//! `sinew completions` and `sinew man`: what shells and `man` know of the command line.
#![expect(clippy::disallowed_methods, reason = "writes manual pages where a person says")]

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::CommandFactory as _;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::cli::Cli;

/// Prints the completions of a shell.
pub(crate) fn completions(shell: Shell) -> anyhow::Result<ExitCode> {
    // It panics where the output is closed, so it writes to memory.
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "sinew", &mut text);
    io::stdout().lock().write_all(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the manual page of one command.
pub(crate) fn page(words: &[String]) -> anyhow::Result<ExitCode> {
    let mut found = &Cli::for_help();
    let mut name = String::from("sinew");
    for word in words {
        let Some(next) = found.find_subcommand(word) else {
            bail!("`{name}` has no command `{word}`; `sinew help` lists the commands");
        };
        found = next;
        name = format!("{name}-{word}");
    }
    io::stdout().lock().write_all(&rendered(found, &name)?)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the manual page of every command to a directory.
pub(crate) fn write(dir: &Path) -> anyhow::Result<ExitCode> {
    if !dir.is_dir() {
        bail!("there is no directory {}; make it first", dir.display());
    }
    let n_pages = write_pages(&Cli::for_help(), "sinew", dir)?;
    writeln!(io::stdout(), "wrote {n_pages} pages to {}", dir.display())?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the pages of a command and of those below it; returns how many.
fn write_pages(command: &clap::Command, name: &str, dir: &Path) -> anyhow::Result<usize> {
    let path = dir.join(format!("{name}.1"));
    let page = rendered(command, name)?;
    fs::write(&path, page).with_context(|| format!("{} could not be written", path.display()))?;
    let below = command.get_subcommands().filter(|below| below.get_name() != "help");
    let pages = below.map(|below| write_pages(below, &format!("{name}-{}", below.get_name()), dir));
    pages.sum::<anyhow::Result<usize>>().map(|n_below| n_below + 1)
}

fn rendered(command: &clap::Command, name: &str) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    Man::new(command.clone()).title(name).render(&mut text)?;
    Ok(text)
}
