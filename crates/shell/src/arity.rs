//! Command arity: how many words name what a command does, for the pattern that a session answer covers.

use crate::command_pattern::CommandPattern;

use super::wrappers;
use sinew_tool::visible::shown;

/// Programs, with first words where needed, and how many words name the action; the rest are its objects.
const NAMED: &[(&str, usize)] = &[
    ("act", 1),
    ("ansible-lint", 1),
    ("ant", 2),
    ("apt-cache", 2),
    ("autoconf", 1),
    ("aws", 3),
    ("az", 3),
    ("bandit", 1),
    ("bazel", 2),
    ("biome", 2),
    ("black", 1),
    ("brew", 2),
    ("buf", 2),
    ("bun", 2),
    ("bun run", 3),
    ("bun x", 3),
    ("bundle", 2),
    ("bundle exec", 3),
    ("cabal", 2),
    ("cargo", 2),
    ("cargo xtask", 3),
    ("cargo nextest", 3),
    ("clang-format", 1),
    ("clang-tidy", 1),
    ("clippy-driver", 1),
    ("cmake", 1),
    ("composer", 2),
    ("composer run", 3),
    ("conda", 2),
    ("cp", 1),
    ("ctest", 1),
    ("dart", 2),
    ("deno", 2),
    ("deno task", 3),
    ("docker", 2),
    ("docker buildx", 3),
    ("docker compose", 3),
    ("docker container", 3),
    ("docker image", 3),
    ("docker network", 3),
    ("docker volume", 3),
    ("docker-compose", 2),
    ("dotnet", 2),
    ("dotnet tool", 3),
    ("dune", 2),
    ("elm", 2),
    ("esbuild", 1),
    ("eslint", 1),
    ("flake8", 1),
    ("flutter", 2),
    ("flutter pub", 3),
    ("fly", 2),
    ("gcloud", 3),
    ("gem", 2),
    ("gh", 3),
    ("ghc", 1),
    ("git", 2),
    ("git bisect", 3),
    ("git lfs", 3),
    ("git notes", 3),
    ("git remote", 3),
    ("git sparse-checkout", 3),
    ("git stash", 3),
    ("git submodule", 3),
    ("git worktree", 3),
    ("glab", 3),
    ("go", 2),
    ("go mod", 3),
    ("go tool", 3),
    ("go work", 3),
    ("gofmt", 1),
    ("golangci-lint", 2),
    ("gradle", 2),
    ("gradlew", 2),
    ("hatch", 2),
    ("helm", 2),
    ("helm repo", 3),
    ("heroku", 2),
    ("hg", 2),
    ("http", 2),
    ("hugo", 2),
    ("ip", 3),
    ("isort", 1),
    ("jest", 1),
    ("jj", 2),
    ("jj git", 3),
    ("journalctl", 1),
    ("just", 2),
    ("kind", 3),
    ("ktlint", 1),
    ("kubectl", 2),
    ("kubectl config", 3),
    ("kubectl rollout", 3),
    ("kustomize", 2),
    ("lein", 2),
    ("lerna", 2),
    ("ln", 1),
    ("make", 2),
    ("meson", 2),
    ("minikube", 2),
    ("mix", 2),
    ("mkdir", 1),
    ("mocha", 1),
    ("mv", 1),
    ("mvn", 2),
    ("mvnw", 2),
    ("mypy", 1),
    ("nest", 2),
    ("netlify", 2),
    ("next", 2),
    ("nextflow", 2),
    ("ng", 2),
    ("ninja", 1),
    ("nix", 2),
    ("nix flake", 3),
    ("node", 2),
    ("nox", 1),
    ("npm", 2),
    ("npm exec", 3),
    ("npm run", 3),
    ("npm run-script", 3),
    ("npx", 2),
    ("nx", 2),
    ("opam", 2),
    ("oxlint", 1),
    ("pdm", 2),
    ("pdm run", 3),
    ("php", 2),
    ("phpunit", 1),
    ("pip", 2),
    ("pip3", 2),
    ("pipenv", 2),
    ("pipenv run", 3),
    ("pipx", 2),
    ("pipx run", 3),
    ("pixi", 2),
    ("pixi run", 3),
    ("playwright", 2),
    ("pnpm", 2),
    ("pnpm dlx", 3),
    ("pnpm exec", 3),
    ("pnpm run", 3),
    ("podman", 2),
    ("podman compose", 3),
    ("poetry", 2),
    ("poetry run", 3),
    ("pre-commit", 2),
    ("prettier", 1),
    ("prisma", 2),
    ("protoc", 1),
    ("pulumi", 2),
    ("pylint", 1),
    ("pyright", 1),
    ("pytest", 1),
    ("python", 2),
    ("python -m", 3),
    ("python3", 2),
    ("python3 -m", 3),
    ("rails", 2),
    ("rake", 2),
    ("rollup", 1),
    ("rspec", 1),
    ("rubocop", 1),
    ("ruby", 2),
    ("ruff", 2),
    ("rustc", 1),
    ("rustfmt", 1),
    ("rustup", 2),
    ("rustup component", 3),
    ("rustup target", 3),
    ("rustup toolchain", 3),
    ("sbt", 2),
    ("serverless", 2),
    ("shellcheck", 1),
    ("shfmt", 1),
    ("sinew", 2),
    ("sinew policy", 3),
    ("sqlfluff", 2),
    ("stack", 2),
    ("standard", 1),
    ("stylelint", 1),
    ("supabase", 2),
    ("svn", 2),
    ("swift", 2),
    ("swift package", 3),
    ("systemctl", 2),
    ("task", 2),
    ("terraform", 2),
    ("terraform state", 3),
    ("terraform workspace", 3),
    ("tofu", 2),
    ("touch", 1),
    ("tox", 1),
    ("tsc", 1),
    ("tsx", 2),
    ("turbo", 2),
    ("turbo run", 3),
    ("uv", 2),
    ("uv pip", 3),
    ("uv run", 3),
    ("uv tool", 3),
    ("uvx", 2),
    ("vercel", 2),
    ("vite", 2),
    ("vitest", 1),
    ("wasm-pack", 2),
    ("webpack", 1),
    ("wrangler", 2),
    ("xcodebuild", 1),
    ("yarn", 2),
    ("yarn dlx", 3),
    ("yarn run", 3),
    ("yarn workspace", 4),
    ("zig", 2),
];

/// Programs that run code from their words, or act elsewhere: no pattern covers them.
const NEVER: &[&str] = &[
    "awk",
    "gawk",
    "mawk",
    "nawk",
    "sed",
    "find",
    "eval",
    "trap",
    "alias",
    "ssh",
    "scp",
    "sftp",
    "rsync",
    "tar",
    "ed",
    "ex",
    "vi",
    "vim",
    "nvim",
    "emacs",
    "nano",
    "less",
    "more",
    "man",
    "jshell",
    "irb",
    "ghci",
    "osascript",
    "tclsh",
    "wish",
    "lua",
    "luajit",
    "Rscript",
    "R",
    "julia",
    "m4",
    "socat",
    "nc",
    "ncat",
    "telnet",
    "screen",
    "tmux",
    "at",
    "batch",
    "crontab",
    "dd",
    "kill",
    "pkill",
    "killall",
    "mkfs",
    "mount",
    "umount",
    "reboot",
    "shutdown",
    "poweroff",
    "halt",
    "su",
];

/// The most words of a command that is covered word by word.
const MAX_WORDS: usize = 12;

/// Returns a pattern that covers similar commands, if any; for an unknown program, exactly these words.
pub fn pattern(words: &[String]) -> Option<CommandPattern> {
    let name = words.first()?;
    if NEVER.contains(&name.as_str()) || wrappers::runs_another(name) {
        return None;
    }
    let of_key = |key: &str| {
        let mut given = words.iter();
        key.split(' ').all(|word| given.next().is_some_and(|given| given == word))
    };
    let keys = NAMED.iter().filter(|(key, _)| of_key(key));
    let longest = keys.max_by_key(|(key, _)| key.len());
    let (n_words, n_key) = match longest {
        Some((key, n_words)) => (*n_words, key.split(' ').count()),
        // Interpreters have many names.
        None if words.iter().any(|word| matches!(word.as_str(), "-c" | "-e" | "-r" | "-m")) => {
            return None;
        }
        None if MAX_WORDS < words.len() => return None,
        None => (words.len(), 1),
    };
    let named = words.get(..n_words.min(words.len()))?;
    // An option may take a value, and then the next word names nothing.
    let is_option = |word: &String| word.starts_with(['-', '+']);
    if longest.is_some() && named.iter().skip(n_key).any(is_option) {
        return None;
    }
    if !named.iter().all(is_clear) {
        return None;
    }
    let more = if named.len() < words.len() { " *" } else { "" };
    CommandPattern::parse(&format!("{}{more}", named.join(" "))).ok()
}

/// Returns a pattern that covers exactly these words, where [`pattern`] returns one.
pub fn exact(words: &[String]) -> Option<CommandPattern> {
    pattern(words)?;
    words.iter().all(is_clear).then(|| CommandPattern::parse(&words.join(" ")).ok()).flatten()
}

/// Returns whether a word matches itself alone in a pattern.
fn is_clear(word: &String) -> bool {
    !word.is_empty()
        && !word.contains(['*', '|'])
        && !word.contains(char::is_whitespace)
        && shown(word) == *word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(command: &str, expected: Option<&str>) {
        let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
        let found = pattern(&words).map(|pattern| pattern.to_string());
        assert_eq!(found.as_deref(), expected, "{command}");
    }

    #[test]
    fn the_words_that_name_what_is_done_are_kept() {
        for (command, expected) in [
            ("git commit -m x", Some("git commit *")),
            ("git commit", Some("git commit")),
            ("git", Some("git")),
            ("git stash pop x", Some("git stash pop *")),
            ("git -C x commit", None),
            ("git --version", None),
            ("npm run build --x", Some("npm run build *")),
            ("npm install", Some("npm install")),
            ("docker compose up -d", Some("docker compose up *")),
            ("docker compose -f x up", None),
            ("cargo test -p x", Some("cargo test *")),
            ("cargo +nightly test", None),
            ("make all X=1", Some("make all *")),
            ("make -C x all", None),
            ("gh pr view 1", Some("gh pr view *")),
            ("touch a b", Some("touch *")),
            ("pytest -q", Some("pytest *")),
            ("python x.py -v", Some("python x.py *")),
            ("python -m pytest -q", Some("python -m pytest *")),
            ("python -c x", None),
            ("python3.12 -c x", None),
            ("node -e x", None),
            ("perl -e x", None),
            ("ruby -e x", None),
            ("sh -c x", None),
            ("sudo git commit", None),
            ("/bin/sh x", None),
            ("env git commit", None),
            ("xargs touch", None),
            ("find . -delete", None),
            ("awk x y", None),
            ("sed -i x y", None),
            ("ssh host x", None),
            ("rm -rf x", Some("rm -rf x")),
            ("./build.sh a", Some("./build.sh a")),
            ("strange a*b", None),
            ("strange a|b", None),
            ("git commit* x", None),
        ] {
            check(command, expected);
        }
    }

    #[test]
    fn the_table_is_in_order_and_names_more_than_its_keys() {
        let keys: Vec<&str> = NAMED.iter().map(|(key, _)| *key).collect();
        let mut sorted = keys.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(keys.len(), sorted.len(), "each stands there once");
        for (key, n_words) in NAMED {
            assert!(key.split(' ').count() <= *n_words, "{key}");
            let name = key.split(' ').next().expect("a name");
            assert!(!NEVER.contains(&name) && !wrappers::runs_another(name), "{key}");
        }
        assert!(150 <= NAMED.len(), "{}", NAMED.len());
    }
}
