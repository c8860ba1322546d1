//! Parts the front matter of a Markdown file from its body.

/// Returns the text between the first line, `---`, and the next such line, and the text behind it.
pub(crate) fn parted(text: &str) -> Option<(&str, &str)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let is_fence = |line: &str| line.trim_end() == "---";
    let first = text.split_inclusive('\n').next().filter(|line| is_fence(line))?;
    let rest = text.get(first.len()..)?;
    let mut end = 0;
    for line in rest.split_inclusive('\n') {
        let behind = end + line.len();
        if is_fence(line) {
            return Some((rest.get(..end)?, rest.get(behind..)?));
        }
        end = behind;
    }
    None
}
