//! The key of a model: out of a variable, or from a program such as that of a keyring.

use std::time::Duration;

use anyhow::{Context as _, bail};
use sinew_guard::{OwnEnd, OwnProgram, OwnPrograms};
use sinew_tool::{ApiKey, shown_line};

use crate::config::{KeySource, env_vars};
use crate::hooks;
use crate::wiring::Loaded;

/// How long the program may take: it may ask the user to unlock a keyring.
const WITHIN: Duration = Duration::from_secs(60);
/// What such programs need beside the usual variables: the desktop's bus, its screen, and where keys are.
const VARIABLES: [&str; 9] = [
    "DBUS_SESSION_BUS_ADDRESS",
    "XDG_RUNTIME_DIR",
    "XDG_DATA_HOME",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "GNUPGHOME",
    "GPG_TTY",
    "PASSWORD_STORE_DIR",
];

/// Returns the key that `models.NAME` names.
pub(crate) async fn of(source: &KeySource, name: &str, loaded: &Loaded) -> anyhow::Result<ApiKey> {
    match source {
        KeySource::Env(variable) => env_vars::api_key(variable).with_context(|| {
            format!("the variable {variable}, which `models.{name}.key_env` names, is not set")
        }),
        KeySource::Command(argv) => {
            let key = printed(argv, loaded).await;
            key.with_context(|| format!("`models.{name}.key_command` gave no key"))
        }
    }
}

/// Returns the first line that the program prints.
async fn printed(argv: &[String], loaded: &Loaded) -> anyhow::Result<ApiKey> {
    let settings = hooks::program_settings(loaded, &VARIABLES.map(String::from))?;
    let program = OwnProgram {
        argv: argv.to_vec(),
        cwd: hooks::NOWHERE.into(),
        in_root: false,
        trusted: None,
        env: Vec::new(),
        told: Vec::new(),
        stdin: Vec::new(),
        timeout: WITHIN,
    };
    let ran = OwnPrograms::new(settings).run(program).await;
    let said = String::from_utf8_lossy(&ran.stderr);
    let said =
        said.lines().next().map(|line| format!(": {}", shown_line(line))).unwrap_or_default();
    match ran.end {
        OwnEnd::Code(0) => {}
        OwnEnd::Code(code) => bail!("it exits with {code}{said}"),
        OwnEnd::Signal(signal) => bail!("signal {signal} ended it{said}"),
        OwnEnd::TimedOut => bail!("it did not end within {} s", WITHIN.as_secs()),
        OwnEnd::TooMuch => bail!("it prints too much for a key"),
        OwnEnd::NotStarted(why) | OwnEnd::InRoot(why) => bail!("it did not start: {why}"),
        OwnEnd::Lost => bail!("how it ended is not known"),
    }
    let text = String::from_utf8(ran.stdout).ok().context("it prints no text")?;
    match text.lines().next().map(str::trim) {
        Some(key) if !key.is_empty() => Ok(ApiKey::new(key.to_owned())),
        _ => bail!("it prints nothing{said}"),
    }
}
