use crate::cli::Form;
use std::path::Path;
use std::process::ExitCode;
pub(crate) fn run(_form: Form, _file: &Path, _out: Option<&Path>) -> anyhow::Result<ExitCode> {
    anyhow::bail!("x")
}
