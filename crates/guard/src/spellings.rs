//! Parts of a word that may be the name of a file.

/// The longest word that is tried as a file name, in bytes.
const MAX_WORD: usize = 4_096;

/// Returns parts of a word that may be a file name: the word, its parts between blanks and shell operators,
/// values after `=` or a short option, and the rest after `$PWD/`, `${PWD}/` or `~+/`.
pub(crate) fn spellings(word: &str) -> Vec<String> {
    let is_sign = |c: char| c.is_whitespace() || "'\"`;|&<>(){},".contains(c);
    let mut all = vec![word.to_owned()];
    all.extend(word.split(is_sign).map(str::to_owned));
    let behind: Vec<String> = all
        .iter()
        .flat_map(|part| {
            let value = part.split_once('=').map(|(_, value)| value);
            let option = part.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
            let option = option.and_then(|rest| rest.get(1..));
            let here = ["$PWD/", "${PWD}/", "~+/"].iter().find_map(|here| part.strip_prefix(here));
            [value, option, here].into_iter().flatten().map(str::to_owned).collect::<Vec<_>>()
        })
        .collect();
    all.extend(behind);
    all.retain(|part| !part.is_empty() && part.len() <= MAX_WORD);
    all
}
