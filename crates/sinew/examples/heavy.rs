//! The command `sinew` in a process that holds 512 MiB, as one has that embeds it.
//!
//! What starting a command costs must not grow with the process that starts it; the rows of the
//! benchmark whose names end with `512m` measure this program.

use std::hint::black_box;
use std::process::ExitCode;

/// How much is held.
const N_BYTES: usize = 512 << 20;

fn main() -> ExitCode {
    // The helper of commands is this program too, and holds nothing.
    sinew::helper_main();
    let held = black_box(vec![1_u8; N_BYTES]);
    let code = sinew::main();
    drop(black_box(held));
    code
}
