//! The native dialect: sinew's own names. Its rows are defined with the operations.

use sinew_tool::{Conventions, Dialect, FileSettings};

/// The native dialect.
pub const NATIVE: Dialect = Dialect {
    name: "native",
    tools: sinew_ops::native,
    settings,
    approval_timeout_ms: 300_000,
    conventions: Conventions::DEFAULT,
};

fn settings() -> FileSettings {
    FileSettings { track_reads: true, ..FileSettings::default() }
}
