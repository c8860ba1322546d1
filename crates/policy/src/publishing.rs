//! Finds commands that send something to others for good, such as a push, by their text. Aliases and scripts are not seen.
//!
//! With the network, an answer covers such a command once: where it sends something is in files that the model can change.
//! Without it, an answer covers its exact words: with others, such as `--force`, it does something else for good.

use sinew_tool::CommandList;

use crate::named;

/// Programs with the subcommand that publishes, and what that is called.
const PUBLISHERS: [(&str, &str, &str); 14] = [
    ("git", "push", "Push to another repository"),
    ("cargo", "publish", "Publish a package"),
    ("npm", "publish", "Publish a package"),
    ("pnpm", "publish", "Publish a package"),
    ("yarn", "publish", "Publish a package"),
    ("bun", "publish", "Publish a package"),
    ("uv", "publish", "Publish a package"),
    ("twine", "upload", "Publish a package"),
    ("poetry", "publish", "Publish a package"),
    ("gem", "push", "Publish a package"),
    ("docker", "push", "Push an image"),
    ("podman", "push", "Push an image"),
    ("helm", "push", "Publish a chart"),
    ("mvn", "deploy", "Publish a package"),
];

/// Words of commands of any program that change something for others.
const CHANGES_OTHERS: &[&str] = &[
    "push",
    "publish",
    "unpublish",
    "upload",
    "deploy",
    "release",
    "yank",
    "owner",
    "dist-tag",
    "deprecate",
];

/// Subcommands of git that send something to another repository or person, or that extensions carry out.
const GIT_CHANGES_OTHERS: &[&str] = &["push", "send-pack", "send-email", "lfs", "subtree", "svn"];

/// Programs whose arguments are names of files, or text.
const CHANGE_NO_OTHERS: &[&str] =
    &["cat", "cd", "cp", "echo", "grep", "ls", "mkdir", "mv", "pushd", "rm", "touch"];

/// Returns the deed of the first command that publishes something.
pub fn publishes(commands: &CommandList) -> Option<&'static str> {
    commands.all.iter().find_map(|pieces| {
        let words: Vec<&str> = pieces.iter().map(|piece| piece.known().unwrap_or("")).collect();
        let is_tried = words.iter().skip(1).any(|word| ["--dry-run", "--help"].contains(word));
        deed(&words).filter(|_| !is_tried)
    })
}

/// Returns what a command publishes, also where an option says that it only tries.
fn deed(words: &[&str]) -> Option<&'static str> {
    let (program, rest) = words.split_first()?;
    let program = program.rsplit('/').next()?;
    let does = |subcommand: &str| match program {
        "git" => named::git_command(rest).is_some_and(|(command, _)| command == subcommand),
        _ => rest.contains(&subcommand),
    };
    let is_known = |(of, subcommand, _): &&(&str, &str, &str)| *of == program && does(subcommand);
    PUBLISHERS.iter().find(is_known).map(|(_, _, what)| *what)
}

/// Returns whether a command may publish something, also where an option says that it only tries. With the network a word or
/// a part of one is enough, as in `npm run deploy:prod`.
pub fn may_publish(words: &[String], has_network: bool) -> bool {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let Some((program, rest)) = words.split_first() else { return false };
    let program = program.rsplit('/').next().unwrap_or_default();
    let changes = |word: &&str| {
        !word.starts_with('-')
            && (CHANGES_OTHERS.contains(word)
                || word.split([':', '-']).any(|part| CHANGES_OTHERS.contains(&part)))
    };
    let by_words = match program {
        "git" => {
            let command = named::git_command(rest).map(|(command, _)| command);
            command.is_some_and(|command| GIT_CHANGES_OTHERS.contains(&command))
        }
        _ if CHANGE_NO_OTHERS.contains(&program) => false,
        _ => rest.iter().any(changes),
    };
    has_network && by_words || deed(&words).is_some()
}

#[cfg(test)]
mod tests {
    use sinew_tool::Piece;

    use super::*;

    #[test]
    fn publishing_is_known_by_program_and_subcommand() {
        for (words, expected) in [
            ("git push origin main", Some("Push to another repository")),
            ("git -C push push", Some("Push to another repository")),
            ("/usr/bin/git --git-dir d push", Some("Push to another repository")),
            ("git commit -m push", None),
            ("git stash push", None),
            ("git push --dry-run", None),
            ("yarn npm publish", Some("Publish a package")),
            ("npm -w pkg publish", Some("Publish a package")),
            ("docker image push x", Some("Push an image")),
            ("echo git push", None),
            ("git", None),
        ] {
            let pieces = words.split(' ').map(|word| Piece::Known(word.to_owned())).collect();
            let commands = CommandList { all: vec![pieces], ..CommandList::default() };
            assert_eq!(publishes(&commands), expected, "{words}");
        }
    }
}
