//! The arguments of `sinew setup`.

use clap::{Args, ValueEnum};

/// `sinew setup`.
#[derive(Debug, Args)]
pub struct SetupArgs {
    /// The client; without one, the clients are listed with what a setup would do, and nothing changes.
    pub client: Option<SetupClient>,
    /// Leave the client's own tools on: sinew is added beside them.
    #[arg(long, requires = "client", conflicts_with = "undo")]
    pub beside: bool,
    /// Remove what an earlier setup wrote, as far as it is unchanged.
    #[arg(long, requires = "client")]
    pub undo: bool,
    /// Show the commands and differences, and change nothing; the client need not be installed.
    #[arg(long)]
    pub dry_run: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// The clients of `sinew setup`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SetupClient {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// Gemini CLI.
    Gemini,
    /// opencode.
    Opencode,
    /// VS Code, in the current project.
    Vscode,
    /// Cursor.
    Cursor,
    /// Zed.
    Zed,
}

impl SetupClient {
    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
            Self::Vscode => "vscode",
            Self::Cursor => "cursor",
            Self::Zed => "zed",
        }
    }
}
