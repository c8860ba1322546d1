//! Starts the command `sinew`.

use std::process::ExitCode;

fn main() -> ExitCode {
    sinew::main()
}
