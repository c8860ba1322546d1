//! Name patterns of rules, hooks and tool lists.

/// Returns whether a name matches a pattern in which `*` stands for any characters.
pub fn name_matches(pattern: &str, name: &str) -> bool {
    // Fast path: every rule of every call comes here, and most names differ in the first byte.
    let starts = (pattern.as_bytes().first(), name.as_bytes().first());
    if starts.0 != Some(&b'*') && starts.0 != starts.1 {
        return false;
    }
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut left) = name.strip_prefix(first) else { return false };
    let mut parts = rest.split('*').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return left.ends_with(part);
        }
        match left.find(part) {
            Some(at) => left = left.get(at + part.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    true
}

/// Returns the name of a tool for protocols that carry no `::`; a call may use either spelling.
pub fn wire_name(name: &str) -> String {
    name.replace("::", "__")
}

/// Returns whether a pattern matches a tool name. `::` equals `__`: some protocols carry only one of them.
pub fn tool_matches(pattern: &str, tool: &str) -> bool {
    let other = || name_matches(pattern, &wire_name(tool));
    name_matches(pattern, tool) || (tool.contains("::") && other())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_meant_by_either_spelling() {
        for (pattern, tool, fits) in [
            ("Read", "Read", true),
            ("R*d", "Read", true),
            ("Read", "ReadMany", false),
            ("tool::file_read", "tool::file_read", true),
            ("tool__file_read", "tool::file_read", true),
            ("tool__*", "tool::file_read", true),
            ("tool::*", "tool::file_read", true),
            ("*_read", "tool::file_read", true),
            ("tool:file_read", "tool::file_read", false),
            ("tool::file_read", "tool__file_read", false),
        ] {
            assert_eq!(tool_matches(pattern, tool), fits, "{pattern} {tool}");
        }
    }
}
