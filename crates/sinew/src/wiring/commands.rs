//! The settings of sandboxed commands, and what they see of a home directory.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use sinew_guard::{CommandSettings, environment};

use super::Loaded;
use crate::config::{self, env_vars};
use crate::screen::say;

/// Secret paths in the home directory, which are hidden from commands.
const SECRET: &[&str] = &[
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".config/gcloud",
    ".config/gh",
    ".config/hub",
    ".config/rclone",
    ".config/op",
    ".config/sinew",
    ".config/git/credentials",
    ".password-store",
    ".local/share/keyrings",
    ".mozilla",
    ".thunderbird",
    ".config/google-chrome",
    ".config/chromium",
    ".config/BraveSoftware",
    ".netrc",
    ".git-credentials",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".npmrc",
    ".pypirc",
    ".pgpass",
    ".my.cnf",
    ".vault-token",
    ".terraform.d",
    ".claude",
    ".claude.json",
    ".codex",
    ".gemini",
    ".bash_history",
    ".zsh_history",
    ".cache/mozilla",
    ".cache/thunderbird",
    ".cache/google-chrome",
    ".cache/chromium",
    ".cache/BraveSoftware",
    ".composer/auth.json",
    ".config/composer/auth.json",
    ".gem/credentials",
    ".m2/settings.xml",
    ".m2/settings-security.xml",
    ".gradle/gradle.properties",
    ".nuget/NuGet",
];

/// Secret paths of the system.
const SECRET_OF_SYSTEM: &[&str] =
    &["/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/ssh", "/etc/ssl/private"];

/// Directories of the system that hold home directories and disks of people.
const PRIVATE: &[&str] = &["/home", "/root", "/mnt", "/media"];

/// Toolchains and configuration in the home directory, and package managers of the system there, that commands read
/// beside the caches.
const SHOWN: &[&str] = &[
    // Programs of the user.
    ".local/bin",
    ".local/lib",
    ".local/include",
    "bin",
    // Configuration without secrets.
    ".gitconfig",
    ".gitignore",
    ".gitignore_global",
    ".gitattributes",
    ".config/git",
    ".editorconfig",
    ".config/direnv",
    ".local/share/direnv",
    ".tool-versions",
    ".clang-format",
    ".clang-tidy",
    ".rustfmt.toml",
    ".config/rustfmt",
    ".config/ruff",
    ".config/black",
    ".config/mypy",
    ".pylintrc",
    ".inputrc",
    ".ripgreprc",
    ".terminfo",
    ".fonts",
    ".local/share/fonts",
    ".config/fontconfig",
    ".local/share/mime",
    // Version managers and toolchains.
    ".asdf",
    ".asdfrc",
    ".local/share/mise",
    ".config/mise",
    ".local/share/rtx",
    ".sdkman",
    ".jenv",
    ".jabba",
    ".volta",
    ".fnm",
    ".local/share/fnm",
    ".nodenv",
    ".nodebrew",
    ".n",
    ".yarn",
    ".config/yarn/global",
    ".pnpm-store",
    ".node_modules",
    ".node-gyp",
    ".virtualenvs",
    ".local/share/virtualenvs",
    ".local/share/virtualenv",
    ".local/pipx",
    ".local/share/pipx",
    ".local/share/pdm",
    ".local/share/hatch",
    ".local/share/pypoetry",
    ".poetry",
    ".rye",
    ".pixi",
    ".conda",
    ".condarc",
    "miniconda3",
    "anaconda3",
    "miniforge3",
    "mambaforge",
    "micromamba",
    "sdk",
    ".local/go",
    ".goenv",
    ".gvm",
    ".rvm",
    ".bundle/cache",
    ".local/share/gem",
    ".composer",
    ".config/composer",
    ".phpenv",
    ".ghcup",
    ".cabal",
    ".stack",
    ".local/state/cabal",
    ".opam",
    ".elan",
    ".juliaup",
    ".julia",
    ".mix",
    ".hex",
    ".kiex",
    ".kerl",
    ".evm",
    ".nimble",
    ".choosenim",
    ".zvm",
    ".zigup",
    ".swiftly",
    ".dotnet",
    ".local/share/NuGet",
    ".pub-cache",
    "flutter",
    "Android/Sdk",
    ".android/avd",
    ".emsdk",
    ".conan",
    ".conan2",
    ".vcpkg",
    ".ccache",
    ".config/ccache",
    ".luarocks",
    "perl5",
    ".plenv",
    ".cpan",
    ".cpanm",
    ".R",
    "R",
    ".Rprofile",
    ".foundry/bin",
    ".ivy2",
    ".sbt/boot",
    ".coursier",
    ".local/share/coursier",
    ".lein",
    ".boot",
    ".nix-profile",
    ".nix-defexpr",
    ".local/state/nix",
    ".guix-profile",
    ".linuxbrew",
];

/// Directories of package managers in directories of the system that hold home directories.
const SHOWN_OF_SYSTEM: &[&str] = &["/home/linuxbrew/.linuxbrew"];

/// Cache directories of tools in the home directory.
const CACHES: &[&str] = &[
    ".cargo",
    ".rustup",
    ".npm",
    ".cache",
    "go",
    ".m2",
    ".gradle",
    ".bun",
    ".deno",
    ".nuget",
    ".local/share/pnpm",
    ".local/share/uv",
    ".gem",
    ".rbenv",
    ".nvm",
    ".pyenv",
];

/// Returns what commands see of the directories in `PATH`: programs in `bin` have their files beside it.
///
/// A project may set the variables of sinew, so only a directory that is named as one of programs counts.
fn programs(path: &OsStr, homes: &[PathBuf]) -> Vec<PathBuf> {
    let shown = |dir: PathBuf| match dir.file_name()?.to_str()? {
        "bin" | "sbin" => {
            let parent = dir.parent()?;
            let is_shared = parent.ends_with(".local") || holds_private(parent, homes);
            Some(if is_shared { dir } else { parent.to_owned() })
        }
        "shims" | "scripts" => Some(dir),
        _ => None,
    };
    std::env::split_paths(path).filter(|dir| dir.is_absolute()).filter_map(shown).collect()
}

/// Returns whether a directory is or contains a home directory or a private directory of the system.
fn holds_private(dir: &Path, homes: &[PathBuf]) -> bool {
    let system = PRIVATE.iter().map(Path::new);
    homes.iter().map(PathBuf::as_path).chain(system).any(|private| private.starts_with(dir))
}

/// Returns whether a directory that a variable names can be one of tools: in a home directory only one with a dot or a
/// name that tools have there.
fn is_of_tools(dir: &Path, homes: &[PathBuf]) -> bool {
    let is_known = |name: &OsStr| {
        let mut known = CACHES.iter().chain(SHOWN);
        name.as_bytes().starts_with(b".") || known.any(|known| name == *known)
    };
    let beneath = homes.iter().find_map(|home| dir.strip_prefix(home).ok());
    let first = beneath.and_then(|beneath| beneath.iter().next());
    !holds_private(dir, homes) && first.is_none_or(is_known)
}

/// Returns the settings of commands.
pub(super) fn commands(loaded: &Loaded, state: &Path) -> CommandSettings {
    let run = &loaded.settings.run;
    let homes = loaded.said.places.homes();
    let at_home = |names: &'static [&'static str]| {
        homes.iter().flat_map(move |home| names.iter().map(|name| home.join(name)))
    };
    let hidden = at_home(SECRET)
        .chain(SECRET_OF_SYSTEM.iter().map(PathBuf::from))
        .chain(run.hide.iter().cloned())
        .filter(|path| !run.show.contains(path))
        .chain([state.to_owned()]);
    let private = PRIVATE.iter().map(PathBuf::from).chain(homes.iter().cloned());
    let shown = at_home(SHOWN)
        .chain(SHOWN_OF_SYSTEM.iter().map(PathBuf::from))
        .chain(env_vars::toolchains().filter(|dir| is_of_tools(dir, &homes)))
        .chain(programs(&env_vars::path(), &homes))
        .chain(run.show.iter().cloned());
    CommandSettings {
        helper: Some(loaded.helper.clone()),
        levels: run.levels.clone(),
        sessions: state.join("sessions"),
        hidden: hidden.collect(),
        private: private.collect(),
        shown: shown.collect(),
        caches: at_home(CACHES)
            .chain(env_vars::caches().filter(|dir| is_of_tools(dir, &homes)))
            .collect(),
        unprotected: run.unprotected.clone(),
        network: run.network,
        ask: run.ask,
        homes: homes.clone(),
        env: environment(env_vars::all(), &run.env),
        // A project must not choose the shell.
        shell: env_vars::shell().filter(|shell| {
            let shell = config::real(shell);
            !loaded.roots.iter().any(|root| shell.starts_with(config::real(root)))
        }),
        max_background: run.max_background,
        max_processes: run.max_processes,
        limits: run.limits,
        activate: run.activate.clone(),
        warn: Some(say),
    }
}
