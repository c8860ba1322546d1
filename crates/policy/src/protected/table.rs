//! Lists the protected names: when a program acts on each of them without being told to, and how.
//!
//! The names of the first list act on this host, those of the second one on other machines, once they are
//! pushed. Those of the third one are not protected: the user runs them by name, so a change is only reported.
//! `docs/protected-names.md` is made from these lists, and the end-to-end suite `protected` makes the programs
//! act on the names.

use std::fmt;

use self::When::{Agent, Cd, Editor, Git, Login, Push, Shell, Sinew, Tool};

/// When a program acts on a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// A command of git runs.
    Git,
    /// A shell enters the directory.
    Cd,
    /// A shell starts or ends, or reads a line.
    Shell,
    /// The user logs in.
    Login,
    /// An editor opens a file or the directory.
    Editor,
    /// An agent starts in the directory.
    Agent,
    /// A tool runs for another purpose, such as a build.
    Tool,
    /// sinew starts.
    Sinew,
    /// A commit is pushed.
    Push,
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Git => "git runs",
            Cd => "a shell enters the directory",
            Shell => "a shell starts, ends or reads a line",
            Login => "the user logs in",
            Editor => "an editor opens a file or the directory",
            Agent => "an agent starts in the directory",
            Tool => "a tool runs",
            Sinew => "sinew starts",
            Push => "a commit is pushed",
        })
    }
}

/// A name: one component, several with `/`, and `/` at the end for everything beneath. `*` at the start or end of a
/// component means any characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProtectedName {
    pub name: &'static str,
    pub when: When,
    /// Which program does what with it.
    pub what: &'static str,
}

const fn row(name: &'static str, when: When, what: &'static str) -> ProtectedName {
    ProtectedName { name, when, what }
}

const AGENTS: &str = "agents take it as instructions";
const CURSOR: &str = "Cursor takes it as instructions";
const DEVCONTAINER: &str = "it names commands that run before the container is made";
const IDE: &str = "it names tasks and programs that the editor runs";
const LEFTHOOK: &str = "hooks of Lefthook run its commands";
const MISE: &str = "mise sets variables and runs hooks from it";
const OPENCODE: &str = "opencode starts the servers and plugins that it names";
const CRUSH: &str = "Crush starts the servers that it names";
const RUST_ANALYZER: &str = "rust-analyzer runs the commands that it names";
const RUST_PROJECT: &str = "rust-analyzer runs the compiler that it names";
const RUSTUP: &str = "rustup runs the toolchain that it names";
const CARGO: &str = "cargo runs the compiler, wrappers and runners that it names";
const BASH_LOGIN: &str = "a login shell of bash executes it";
const VIM: &str = "Vim executes it";
const NEOVIM: &str = "Neovim executes it";
const EMACS: &str = "Emacs executes it";
const ZSH: &str = "zsh executes it";
const ZSH_LOGIN: &str = "a login shell of zsh executes it";
const GDB: &str = "GDB executes it";
const TCSH: &str = "tcsh executes it";

/// Names that programs on this host execute or obey. The first match is reported. `.gitattributes` is absent
/// on purpose: its filters run only if configured elsewhere.
pub const ON_THIS_HOST: &[ProtectedName] = &[
    row(".git/hooks/", Git, "git executes it"),
    row(".git/config", Git, "its keys name programs that git executes"),
    row(".git/", Git, "git executes the steps of a rebase that continues"),
    row(".gitmodules", Git, "git fetches submodules from where it says"),
    row(".gitconfig", Git, "its keys name programs that git executes"),
    row(".config/git/", Git, "its keys name programs that git executes"),
    row(".husky/", Git, "hooks of husky execute it"),
    row(".pre-commit-config.yaml", Git, "hooks of pre-commit run its commands"),
    row("lefthook.yml", Git, LEFTHOOK),
    row(".lefthook.yml", Git, LEFTHOOK),
    row("lefthook.yaml", Git, LEFTHOOK),
    row(".lefthook.yaml", Git, LEFTHOOK),
    row(".mcp.json", Agent, "agents start the servers that it names"),
    row(".vscode/", Editor, IDE),
    row(".idea/", Editor, IDE),
    row(".zed/", Editor, IDE),
    row(".devcontainer/", Editor, DEVCONTAINER),
    row(".devcontainer.json", Editor, DEVCONTAINER),
    row(".vimrc", Editor, VIM),
    row(".exrc", Editor, "Vim executes it where the option `exrc` is on"),
    row(".vim/", Editor, VIM),
    row(".config/nvim/", Editor, NEOVIM),
    row(
        ".nvim.lua",
        Editor,
        "Neovim executes it where the option `exrc` is on and the user trusts its content",
    ),
    row(
        ".nvimrc",
        Editor,
        "Neovim executes it where the option `exrc` is on, since 0.9 if the user trusts its content",
    ),
    row(".helix/", Editor, "Helix starts the language servers that it names"),
    row(".emacs", Editor, EMACS),
    row(".emacs.d/", Editor, EMACS),
    row(".dir-locals.el", Editor, "Emacs evaluates its expressions"),
    row(".editorconfig", Editor, "editors change files by it when they save them"),
    row("*.code-workspace", Editor, IDE),
    row("rust-analyzer.toml", Editor, RUST_ANALYZER),
    row("rust-project.json", Editor, RUST_PROJECT),
    row(".rust-project.json", Editor, RUST_PROJECT),
    row(".envrc", Cd, "direnv executes it"),
    row(".direnv/", Cd, "direnv puts programs in it into the search path"),
    row(".tool-versions", Cd, "asdf and mise choose programs by it"),
    row("mise.toml", Cd, MISE),
    row(".mise.toml", Cd, MISE),
    row(".mise/", Cd, MISE),
    row(".config/mise/", Cd, MISE),
    row(".ssh/", Tool, "ssh executes commands of its configuration and trusts its keys"),
    row(".bashrc", Shell, "bash executes it"),
    row(".bash_profile", Login, BASH_LOGIN),
    row(".bash_login", Login, BASH_LOGIN),
    row(".bash_logout", Shell, BASH_LOGIN),
    row(".bash_aliases", Shell, "the `.bashrc` of Debian executes it"),
    row(".profile", Login, "login shells execute it"),
    row(".zshrc", Shell, ZSH),
    row(".zprofile", Login, ZSH_LOGIN),
    row(".zshenv", Shell, ZSH),
    row(".zlogin", Login, ZSH_LOGIN),
    row(".zlogout", Shell, ZSH_LOGIN),
    row(".login", Login, TCSH),
    row(".cshrc", Shell, "csh and tcsh execute it"),
    row(".tcshrc", Shell, TCSH),
    row(".kshrc", Shell, "the Korn shell executes it"),
    row(".xprofile", Login, "display managers execute it"),
    row(".config/systemd/", Login, "systemd starts its units for the user"),
    row(".config/autostart/", Login, "desktops start what it names"),
    row(".config/fish/", Shell, "fish executes it"),
    row(".inputrc", Shell, "it binds keys to commands in bash and other programs"),
    row(
        ".ripgreprc",
        Tool,
        "ripgrep takes options from it where `RIPGREP_CONFIG_PATH` names it, and one executes a program",
    ),
    row(".npmrc", Tool, "npm runs scripts with the shell and options that it names"),
    row(".yarnrc", Tool, "Yarn executes the program that it names in its own place"),
    row(".yarnrc.yml", Tool, "Yarn executes the program that it names in its own place"),
    row(".cargo/config.toml", Tool, CARGO),
    row(".cargo/config", Tool, CARGO),
    row("rust-toolchain.toml", Tool, RUSTUP),
    row("rust-toolchain", Tool, RUSTUP),
    row(".Rprofile", Tool, "R executes it"),
    row(".gdbinit", Tool, GDB),
    row(".gdbearlyinit", Tool, GDB),
    row(".config/gdb/", Tool, GDB),
    row(".bazelrc", Tool, "Bazel takes options from it that name programs"),
    row(".mvn/", Tool, "Maven takes options and extensions from it"),
    row("AGENTS.md", Agent, AGENTS),
    row("AGENTS.override.md", Agent, AGENTS),
    row("CLAUDE.md", Agent, AGENTS),
    row("CLAUDE.local.md", Agent, AGENTS),
    row("GEMINI.md", Agent, AGENTS),
    row("SKILL.md", Agent, AGENTS),
    row(".cursorrules", Agent, CURSOR),
    row(".cursor/", Agent, "Cursor takes instructions and servers from it"),
    row(".windsurfrules", Agent, "Windsurf takes it as instructions"),
    row(".windsurf/", Agent, "Windsurf takes instructions from it"),
    row(".clinerules/", Agent, "Cline takes it as instructions"),
    row(".kiro/", Agent, "Kiro takes instructions, servers and hooks from it"),
    row(".continue/", Agent, "Continue takes instructions and servers from it"),
    row(".opencode/", Agent, "opencode executes its plugins and starts its servers"),
    row("opencode.json", Agent, OPENCODE),
    row("opencode.jsonc", Agent, OPENCODE),
    row(".aider.conf.yml", Agent, "Aider runs the commands that it names"),
    row("crush.json", Agent, CRUSH),
    row(".crush.json", Agent, CRUSH),
    row(".agents/", Agent, "agents take skills from it"),
    row(".github/copilot-instructions.md", Agent, "Copilot takes it as instructions"),
    row(".claude/", Agent, "Claude Code executes the hooks of its settings"),
    row(".codex/", Agent, "Codex starts the servers of its configuration"),
    row(".gemini/", Agent, "Gemini CLI starts the servers of its settings"),
    row(".config/sinew/", Sinew, "it holds your rules and hooks"),
    row("sinew/config.toml", Sinew, "it holds your rules and hooks"),
];

const GITHUB: &str = "GitHub runs it";

/// Names that act on other machines: a CI service runs them.
pub const ELSEWHERE: &[ProtectedName] = &[
    row(".github/workflows/", Push, GITHUB),
    row(".github/actions/", Push, GITHUB),
    row(".gitlab-ci.yml", Push, "GitLab runs it"),
    row(".circleci/", Push, "CircleCI runs it"),
    row(".travis.yml", Push, "Travis CI runs it"),
    row("azure-pipelines.yml", Push, "Azure Pipelines runs it"),
    row("bitbucket-pipelines.yml", Push, "Bitbucket runs it"),
    row("appveyor.yml", Push, "AppVeyor runs it"),
    row(".appveyor.yml", Push, "AppVeyor runs it"),
    row(".drone.yml", Push, "Drone runs it"),
    row(".woodpecker.yml", Push, "Woodpecker runs it"),
    row(".woodpecker/", Push, "Woodpecker runs it"),
    row(".buildkite/", Push, "Buildkite runs it"),
    row("Jenkinsfile", Push, "Jenkins runs it"),
];

/// A name that the user's own commands execute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunLater {
    pub name: &'static str,
    /// A command that executes it.
    pub by: &'static str,
    /// The member of the JSON object that is executed; the whole file if `None`.
    pub member: Option<&'static str>,
}

const fn later(name: &'static str, by: &'static str) -> RunLater {
    RunLater { name, by, member: None }
}

/// Names that the user's own commands execute: a change is reported.
pub const RUN_LATER: &[RunLater] = &[
    RunLater { name: "package.json", by: "npm test", member: Some("scripts") },
    later("Makefile", "make"),
    later("GNUmakefile", "make"),
    later("justfile", "just"),
    later(".justfile", "just"),
    later("Taskfile.yml", "task"),
    later("Taskfile.yaml", "task"),
    later("Rakefile", "rake"),
    later("CMakeLists.txt", "cmake"),
    later("build.rs", "cargo build"),
    later("eslint.config.*", "eslint"),
    later("vite.config.*", "vite build"),
    later("webpack.config.*", "webpack"),
    later("jest.config.*", "jest"),
    later("build.gradle", "gradle"),
    later("build.gradle.kts", "gradle"),
    later("setup.py", "pip install ."),
    later("conftest.py", "pytest"),
    later("noxfile.py", "nox"),
    later("tox.ini", "tox"),
    later("docker-compose.yml", "docker compose up"),
    later("docker-compose.yaml", "docker compose up"),
    later("compose.yml", "docker compose up"),
    later("compose.yaml", "docker compose up"),
    later("Dockerfile", "docker build"),
    later(".venv/bin/", "python"),
    later("venv/bin/", "python"),
    later("node_modules/.bin/", "npx"),
];
