//! Names the file operation that a command repeats: a tool offers the same without a shell.
//!
//! Only a text that is exactly one such command counts, with known words.

use sinew_tool::Piece;
use tree_sitter::{Node, Tree};

use super::commands::piece;

/// Returns the name of the operation that a text repeats.
pub(super) fn of(tree: &Tree, text: &str) -> Option<&'static str> {
    let root = tree.root_node();
    let mut statements = root.named_children(&mut root.walk()).collect::<Vec<_>>().into_iter();
    let (only, None) = (statements.next()?, statements.next()) else { return None };
    if root.has_error() {
        return None;
    }
    match only.kind() {
        "command" => simple(&words(only, text)?),
        "redirected_statement" => written(only, text),
        "pipeline" => {
            let parts: Vec<Node<'_>> = only.named_children(&mut only.walk()).collect();
            let [first, second] = parts.as_slice() else { return None };
            let (first, second) = (words(*first, text)?, words(*second, text)?);
            let is_head = second.split_first().is_some_and(|(name, rest)| {
                matches!(name.as_str(), "head" | "tail") && files(rest) == Some(0)
            });
            (is_head && first.first().is_some_and(|name| name == "cat"))
                .then(|| simple(&first))
                .flatten()
        }
        _ => None,
    }
}

/// Returns the words of a command, if all are known and nothing else is in it.
fn words(node: Node<'_>, text: &str) -> Option<Vec<String>> {
    let is_plain = |part: &Node<'_>| {
        !matches!(
            part.kind(),
            "variable_assignment" | "file_redirect" | "heredoc_redirect" | "herestring_redirect"
        )
    };
    let parts: Vec<Node<'_>> = node.children(&mut node.walk()).collect();
    if node.kind() != "command" || !parts.iter().all(is_plain) {
        return None;
    }
    let known = |part: &Node<'_>| match piece(*part, text) {
        Piece::Known(word) => Some(word),
        Piece::Open { .. } => None,
    };
    parts.iter().map(known).collect()
}

/// Returns the operation that a text with an output file repeats.
fn written(node: Node<'_>, text: &str) -> Option<&'static str> {
    let words = words(node.child_by_field_name("body")?, text)?;
    let redirects: Vec<Node<'_>> = node
        .named_children(&mut node.walk())
        .filter(|part| part.kind().ends_with("redirect"))
        .collect();
    // The output redirection may be inside the input redirection.
    let input = redirects.iter().find(|one| one.kind() == "heredoc_redirect");
    let inner =
        input.into_iter().flat_map(|one| one.named_children(&mut one.walk()).collect::<Vec<_>>());
    let mut outputs =
        redirects.iter().copied().chain(inner).filter(|one| one.kind() == "file_redirect");
    let (output, None) = (outputs.next()?, outputs.next()) else { return None };
    let parts: Vec<Node<'_>> = output.children(&mut output.walk()).collect();
    let [sign, file] = parts.as_slice() else { return None };
    let is_file = !matches!(piece(*file, text), Piece::Known(name) if name.starts_with("/dev/"));
    let writes = match words.first().map(String::as_str) {
        Some("echo" | "printf") => input.is_none(),
        Some("cat") => input.is_some() && words.len() == 1,
        _ => false,
    };
    (sign.kind() == ">" && is_file && writes).then_some("Write")
}

fn simple(words: &[String]) -> Option<&'static str> {
    let (name, args) = words.split_first()?;
    let has = |options: &[&str]| args.iter().any(|arg| options.contains(&arg.as_str()));
    match name.as_str() {
        "cat" => (files(args) == Some(1) && args.len() == 1).then_some("Read"),
        "head" | "tail" => {
            let follows = has(&["-f", "-F", "--follow", "-c"]);
            (!follows && files(args) == Some(1)).then_some("Read")
        }
        "sed" => match args {
            [option, script, _] if option == "-n" && is_range(script) => Some("Read"),
            [option, _, _] if option == "-i" => Some("Edit"),
            _ => None,
        },
        "grep" | "egrep" | "fgrep" | "rg" => (!args.is_empty()).then_some("Grep"),
        "find" => {
            let acts = ["-exec", "-execdir", "-ok", "-okdir", "-delete", "-printf", "-ls"];
            (!has(&acts)).then_some("Glob")
        }
        "ls" => {
            let is_deep = args.iter().any(|arg| arg.starts_with('-') && arg.contains('R'));
            Some(if is_deep { "Glob" } else { "List" })
        }
        _ => None,
    }
}

/// Counts the files beside options for a number of lines.
fn files(args: &[String]) -> Option<usize> {
    let mut n_files = 0;
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.strip_prefix('-') {
            None => n_files += 1,
            Some("n") => drop(args.next()?),
            Some(_) => {}
        }
    }
    Some(n_files)
}

/// Returns whether a `sed` script prints one range of lines.
fn is_range(script: &str) -> bool {
    let lines = script.strip_suffix('p').unwrap_or_default();
    let is_number =
        |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == '$');
    match lines.split_once(',') {
        Some((from, to)) => is_number(from) && is_number(to),
        None => is_number(lines),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_tool_does_too_is_told_by_its_operation() {
        for (text, expected) in [
            ("cat a.txt", Some("Read")),
            ("cat 'a b'", Some("Read")),
            ("head -n 5 a.txt", Some("Read")),
            ("head -5 a.txt", Some("Read")),
            ("tail a.txt", Some("Read")),
            ("sed -n '3,9p' a.txt", Some("Read")),
            ("sed -n 3p a.txt", Some("Read")),
            ("cat a.txt | head -20", Some("Read")),
            ("cat a.txt | tail -n 3", Some("Read")),
            ("grep -rn x .", Some("Grep")),
            ("rg x", Some("Grep")),
            ("find . -name x", Some("Glob")),
            ("ls -lR", Some("Glob")),
            ("ls -la sub", Some("List")),
            ("echo x > a.txt", Some("Write")),
            ("printf 'a\\n' > a.txt", Some("Write")),
            ("cat <<'E' > a.txt\nx\nE", Some("Write")),
            ("cat > a.txt <<E\nx\nE", Some("Write")),
            ("sed -i s/a/b/ a.txt", Some("Edit")),
            ("cat a b", None),
            ("cat", None),
            ("cat -A a.txt", None),
            ("tail -f a.txt", None),
            ("cat $X", None),
            ("cat *", None),
            ("cat a.txt; ls", None),
            ("cat a.txt && ls", None),
            ("cat a.txt | wc -l", None),
            ("cat a.txt | head x", None),
            ("X=1 cat a.txt", None),
            ("cat a.txt 2>/dev/null", None),
            ("echo x >> a.txt", None),
            ("echo x > /dev/null", None),
            ("echo x", None),
            ("find . -delete", None),
            ("sed s/a/b/ a.txt", None),
            ("make", None),
            ("echo \"a", None),
        ] {
            let tree = super::super::tree::parse(text).expect("a tree");
            assert_eq!(of(&tree, text), expected, "{text}");
        }
    }
}
