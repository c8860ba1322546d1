//! Tables of secrets, toolchains and caches in a home directory, and the paths that the environment and the
//! configuration of git add.
//!
//! They decide what commands see by default in directories that are otherwise private.
#![expect(clippy::disallowed_methods, reason = "reads the user's configuration of git")]

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use sinew_fs::real_path::real;

use super::private::real_outside;

/// Secret paths in the home directory, which are hidden from commands.
pub(super) const SECRET: &[&str] = &[
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
    ".cache/microsoft-edge",
    ".cache/vivaldi",
    ".cache/opera",
    ".cache/librewolf",
    ".cache/JetBrains",
    ".cache/evolution",
    ".cache/tracker3",
    ".cache/thumbnails",
    ".cache/rclone",
    ".cache/vim",
    ".cache/huggingface/token",
    ".cache/huggingface/stored_tokens",
    ".local/share/uv/credentials",
    ".ivy2/.credentials",
    ".conan2/credentials.json",
    ".stack/upload",
    ".pub-cache/credentials.json",
    ".luarocks/upload_config.lua",
    ".rye/credentials",
    ".julia/servers",
    ".gem/credentials",
];

/// Files with credentials in a cache that a variable names.
pub(super) const CREDENTIALS: &[&str] = &["credentials", "credentials.toml"];

/// Secret paths of the system. Commands of root could read them, and file tools read freely what commands see in `/etc`.
pub(super) const SECRET_OF_SYSTEM: &[&str] = &[
    // Passwords and keys.
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/security/opasswd",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/ssh",
    "/etc/ssl/private",
    "/etc/pki/tls/private",
    "/etc/pki/consumer",
    "/etc/pki/entitlement",
    "/etc/letsencrypt",
    "/etc/krb5.keytab",
    "/etc/krb5kdc",
    "/etc/credstore",
    "/etc/credstore.encrypted",
    "/etc/cryptsetup-keys.d",
    "/etc/luks",
    // Networks.
    "/etc/NetworkManager/system-connections",
    "/etc/netplan",
    "/etc/wpa_supplicant",
    "/etc/wpa_supplicant.conf",
    "/etc/hostapd",
    "/etc/wireguard",
    "/etc/openvpn",
    "/etc/ppp",
    "/etc/ipsec.secrets",
    "/etc/ipsec.d",
    "/etc/swanctl",
    "/etc/rndc.key",
    "/etc/bind/rndc.key",
    // Services.
    "/etc/docker",
    "/etc/kubernetes",
    "/etc/rancher",
    "/etc/ceph",
    "/etc/vault.d",
    "/etc/consul.d",
    "/etc/nomad.d",
    "/etc/gitlab",
    "/etc/gitlab-runner",
    "/etc/grafana",
    "/etc/mysql/debian.cnf",
    "/etc/postfix/sasl_passwd",
    "/etc/postfix/sasl_passwd.db",
    "/etc/exim4/passwd.client",
    "/etc/msmtprc",
    "/etc/ssmtp",
    "/etc/davfs2/secrets",
    "/etc/smbcredentials",
    "/etc/ldap.secret",
    "/etc/libnss-ldap.secret",
    "/etc/pam_ldap.secret",
    "/etc/sssd",
    "/etc/apt/auth.conf",
    "/etc/apt/auth.conf.d",
    "/etc/boto.cfg",
];

/// Directories of the system that hold home directories and disks of people.
pub(super) const PRIVATE: &[&str] = &["/home", "/root", "/mnt", "/media", "/run/media", "/Users"];

/// Toolchains and configuration in the home directory, and package managers of the system there, that commands read
/// beside the caches.
pub(super) const SHOWN: &[&str] = &[
    // Programs of the user.
    ".local/bin",
    ".local/lib",
    ".local/include",
    "bin",
    // Configuration without secrets.
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
    ".config/go/env",
    ".config/clangd",
    ".config/nix",
    ".bazelrc",
    ".hgrc",
    ".config/jj",
    ".jjconfig.toml",
    ".gdbinit",
    ".config/matplotlib",
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
    ".coursier",
    ".local/share/coursier",
    ".lein",
    ".boot",
    ".platformio",
    ".arduino15",
    ".espressif",
    "esp",
    ".proto",
    ".jbang",
    ".tfenv",
    ".local/share/jupyter",
    "nltk_data",
    ".keras",
    ".local/opt",
    ".sbt",
    ".nix-profile",
    ".nix-defexpr",
    ".local/state/nix",
    ".guix-profile",
    ".linuxbrew",
];

/// What is shown of private directories of the system: a package manager, and the resolver of WSL.
pub(super) const SHOWN_OF_SYSTEM: &[&str] = &["/home/linuxbrew/.linuxbrew", "/mnt/wsl/resolv.conf"];

/// Cache directories of tools in the home directory.
pub(super) const CACHES: &[&str] = &[
    ".cargo",
    ".rustup",
    ".npm",
    ".cache",
    "go/pkg",
    "go/bin",
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

/// Variables that move a tool's cache out of the home directory.
pub(super) const CACHE_VARIABLES: &[&str] = &[
    "CARGO_HOME",
    "RUSTUP_HOME",
    "GOPATH",
    "GOCACHE",
    "XDG_CACHE_HOME",
    "NVM_DIR",
    "UV_CACHE_DIR",
    "PIP_CACHE_DIR",
];

/// What programs in `bin` need beside it.
const BESIDE_PROGRAMS: &[&str] =
    &["lib", "lib64", "libexec", "include", "share", "conf", "pyvenv.cfg"];

/// Returns what commands see of the directories in `PATH`: programs, and what they need beside them.
///
/// A project may set the variables of sinew, so only a directory that is named as one of programs counts.
pub(super) fn programs(path: &OsStr, homes: &[PathBuf], roots: &[PathBuf]) -> Vec<PathBuf> {
    let mut shown = Vec::new();
    for dir in std::env::split_paths(path).filter(|dir| dir.is_absolute()) {
        // A command must not choose what is shown beside a link of its own.
        let Some(beneath) = real_outside(&dir, roots) else { continue };
        let Some(name) = beneath.file_name().and_then(OsStr::to_str) else { continue };
        if !["bin", "sbin", "shims", "scripts"].contains(&name) {
            continue;
        }
        shown.push(dir);
        let Some(parent) = beneath.parent() else { continue };
        if matches!(name, "bin" | "sbin")
            && !parent.ends_with(".local")
            && !holds_private(parent, homes)
        {
            shown.extend(BESIDE_PROGRAMS.iter().map(|name| parent.join(name)));
        }
    }
    shown
}

/// Returns whether a directory is or contains a home directory or a private directory of the system.
fn holds_private(dir: &Path, homes: &[PathBuf]) -> bool {
    let system = PRIVATE.iter().map(Path::new);
    homes.iter().map(PathBuf::as_path).chain(system).any(|private| private.starts_with(dir))
}

/// Returns whether a directory that a variable names can be a cache of tools: in a private directory only one with the name
/// of a usual cache, or one that the settings show.
pub(super) fn is_of_tools(dir: &Path, homes: &[PathBuf], shown: &[PathBuf]) -> bool {
    let dir = real(dir);
    let is_usual = CACHES.iter().any(|name| dir.ancestors().any(|above| above.ends_with(name)));
    let is_shown = shown.iter().any(|shown| dir.starts_with(real(shown)));
    let homes: Vec<PathBuf> = homes.iter().map(|home| real(home)).collect();
    let system = PRIVATE.iter().map(PathBuf::from);
    let is_private = homes.iter().cloned().chain(system).any(|private| dir.starts_with(private));
    is_usual || is_shown || (!is_private && !holds_private(&dir, &homes))
}

/// The largest configuration of git that is read, in bytes.
const MAX_CONFIG: u64 = 256 << 10;
/// Keys of git's configuration that name a file.
const FILE_KEYS: &[&str] =
    &["path", "excludesfile", "attributesfile", "template", "allowedsignersfile"];

/// Returns the configuration of git in a home directory, with the files that it names in the home directory.
pub(super) fn config_files(home: &Path, roots: &[PathBuf]) -> Vec<PathBuf> {
    let own = [".gitconfig", ".config/git/config"].map(|name| home.join(name));
    let mut named = Vec::new();
    for file in &own {
        // Commands may write one that is in a root.
        if real_outside(file, roots).is_none() {
            continue;
        }
        let is_small = std::fs::metadata(file).is_ok_and(|meta| meta.len() <= MAX_CONFIG);
        let text = if is_small { std::fs::read(file).unwrap_or_default() } else { Vec::new() };
        for line in String::from_utf8_lossy(&text).lines() {
            let Some((key, value)) = line.split_once('=') else { continue };
            if FILE_KEYS.contains(&key.trim().to_ascii_lowercase().as_str()) {
                let value = value.trim().trim_matches('"');
                let path = match value.strip_prefix("~/") {
                    Some(rest) => home.join(rest),
                    None => file.parent().unwrap_or(home).join(value),
                };
                // A directory may hold anything.
                named.extend(Some(path).filter(|path| path.is_file()));
            }
        }
    }
    own.into_iter().chain([home.join(".gitignore")]).chain(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_show_programs_and_caches_only() {
        let dir = tempfile::tempdir().expect("a directory");
        let home = real(dir.path());
        for name in ["papers/bin", ".local/bin", ".local/share", ".cargo", "gopath"] {
            std::fs::create_dir_all(home.join(name)).expect("a directory");
        }
        let homes = [home.clone()];
        let path = ["papers", "papers/bin", ".local/share/../bin"].map(|name| home.join(name));
        let path = std::env::join_paths(path).expect("a path");
        let shown = programs(&path, &homes, &[]);
        let is_shown =
            |name: &str| shown.iter().any(|path| home.join(name).starts_with(real(path)));
        for (name, expected) in [
            ("papers/bin/x", true),
            ("papers/lib/x", true),
            ("papers/x", false),
            (".local/bin/x", true),
            (".local/share/x", false),
        ] {
            assert_eq!(is_shown(name), expected, "{name}: {shown:?}");
        }
        for (name, by_settings, expected) in [
            (".cargo", None, true),
            (".cargo/..", None, false),
            ("papers", None, false),
            (".config", None, false),
            ("gopath", None, false),
            ("gopath", Some("gopath"), true),
        ] {
            let by_settings: Vec<PathBuf> =
                by_settings.iter().map(|name| home.join(name)).collect();
            let counts = is_of_tools(&home.join(name), &homes, &by_settings);
            assert_eq!(counts, expected, "{name}");
        }
        assert!(is_of_tools(Path::new("/var/cache/go"), &homes, &[]));
        assert!(!is_of_tools(Path::new("/mnt/c"), &homes, &[]));
    }

    #[test]
    fn files_that_git_includes_are_seen() {
        let dir = tempfile::tempdir().expect("a directory");
        let home = dir.path();
        let text = "[includeIf \"gitdir:~/office/\"]\n\tpath = ~/.gitconfig-office\n[core]\nexcludesFile=~/ignored\n\
                    [include]\n path = ~/papers\n path = \"beside\"\n";
        std::fs::write(home.join(".gitconfig"), text).expect("a file");
        std::fs::create_dir(home.join("papers")).expect("a directory");
        for name in [".gitconfig-office", "ignored", "beside"] {
            std::fs::write(home.join(name), "").expect("a file");
        }
        let named = config_files(home, &[]);
        let names: Vec<_> = named.iter().filter_map(|path| path.strip_prefix(home).ok()).collect();
        let expected = [
            ".gitconfig",
            ".config/git/config",
            ".gitignore",
            ".gitconfig-office",
            "ignored",
            "beside",
        ];
        assert_eq!(names, expected.map(Path::new));
        // A file in a root names nothing: commands may write it.
        let root = home.join("dots");
        std::fs::create_dir(&root).expect("a directory");
        std::fs::rename(home.join(".gitconfig"), root.join("gitconfig")).expect("moved");
        std::os::unix::fs::symlink("dots/gitconfig", home.join(".gitconfig")).expect("a link");
        let named = config_files(home, std::slice::from_ref(&root));
        assert!(!named.contains(&home.join("ignored")), "{named:?}");
        assert!(config_files(home, &[]).contains(&home.join("ignored")), "the control");
        // Nor does a link in a root show what is beside its target.
        for name in ["papers/bin", "papers/lib"] {
            std::fs::create_dir_all(home.join(name)).expect("a directory");
        }
        std::os::unix::fs::symlink(home.join("papers/bin"), root.join("bin")).expect("a link");
        let path = root.join("bin").into_os_string();
        let homes = [home.to_owned()];
        assert!(programs(&path, &homes, std::slice::from_ref(&root)).is_empty());
        assert!(programs(&path, &homes, &[]).contains(&real(home).join("papers/lib")));
    }
}
