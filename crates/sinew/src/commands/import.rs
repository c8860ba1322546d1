use std::path::Path;
use std::process::ExitCode;
use crate::cli::Form;
pub(crate) fn run(_form: Form, _file: &Path, _out: Option<&Path>) -> anyhow::Result<ExitCode> {
    anyhow::bail!("x")
}
