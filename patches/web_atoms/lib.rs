//! Names and entities of HTML, as html5ever takes them from the published crate `web_atoms`, without pointers.
//!
//! The published crate has a hash table of 9,800 texts. A position-independent program relocates each of these pointers
//! at every start, and the pages that hold them are then its own memory for as long as it runs: a third of a megabyte in every
//! server, for pages that one of its workers converts. Here the names are one text, and a search finds them.
//!
//! The list of names has those that html5ever and the crates on it name themselves, and the most common others; any other
//! name is an atom all the same, which is allocated.
//!
//! The entities are those of <https://html.spec.whatwg.org/multipage/named-characters.html>.

/// What the references `&#x80;` to `&#x9f;` mean, by
/// <https://html.spec.whatwg.org/multipage/parsing.html#numeric-character-reference-end-state>.
pub static C1_REPLACEMENTS: [Option<char>; 32] = [
    Some('\u{20ac}'),
    None,
    Some('\u{201a}'),
    Some('\u{0192}'),
    Some('\u{201e}'),
    Some('\u{2026}'),
    Some('\u{2020}'),
    Some('\u{2021}'),
    Some('\u{02c6}'),
    Some('\u{2030}'),
    Some('\u{0160}'),
    Some('\u{2039}'),
    Some('\u{0152}'),
    None,
    Some('\u{017d}'),
    None,
    None,
    Some('\u{2018}'),
    Some('\u{2019}'),
    Some('\u{201c}'),
    Some('\u{201d}'),
    Some('\u{2022}'),
    Some('\u{2013}'),
    Some('\u{2014}'),
    Some('\u{02dc}'),
    Some('\u{2122}'),
    Some('\u{0161}'),
    Some('\u{203a}'),
    Some('\u{0153}'),
    None,
    Some('\u{017e}'),
    Some('\u{0178}'),
];

include!(concat!(env!("OUT_DIR"), "/atoms.rs"));
include!(concat!(env!("OUT_DIR"), "/entities.rs"));

/// The code points of every entity.
pub static NAMED_ENTITIES: Entities = Entities;

/// The table of [`NAMED_ENTITIES`].
pub struct Entities;

impl Entities {
    /// Returns the code points of a name without its `&`, the second of which is 0 if there is one: `gt;` means
    /// `(62, 0)`. The beginning of a name means `(0, 0)`.
    pub fn get(&self, name: &str) -> Option<&'static (u32, u32)> {
        let (mut from, mut to) = (0, CODES.len());
        while from < to {
            let middle = usize::midpoint(from, to);
            if entity(middle) < name {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        match CODES.get(from) {
            Some(codes) if entity(from) == name => Some(codes),
            Some(_) if entity(from).starts_with(name) => Some(&(0, 0)),
            _ => None,
        }
    }
}

fn entity(at: usize) -> &'static str {
    NAMES.get(usize::from(STARTS[at])..usize::from(STARTS[at + 1])).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_their_beginnings_are_found() {
        for (name, expected) in [
            ("gt;", Some((62, 0))),
            ("gt", Some((62, 0))),
            ("AElig", Some((0xc6, 0))),
            ("zwnj;", Some((0x200c, 0))),
            ("acE;", Some((0x223e, 0x333))),
            ("", Some((0, 0))),
            ("AEl", Some((0, 0))),
            ("zwn", Some((0, 0))),
            ("gt;;", None),
            ("zz", None),
            ("A\u{e9}", None),
        ] {
            assert_eq!(NAMED_ENTITIES.get(name), expected.as_ref(), "{name}");
        }
    }

    #[test]
    fn every_line_of_the_list_is_found() {
        let lines = include_str!("entities.txt").lines();
        assert_eq!(lines.clone().count(), CODES.len());
        for line in lines {
            let mut words = line.split(' ');
            let name = words.next().expect("a name");
            let mut code =
                || words.next().map_or(0, |code| u32::from_str_radix(code, 16).expect(line));
            assert_eq!(NAMED_ENTITIES.get(name), Some(&(code(), code())), "{line}");
            for end in 1..name.len() {
                assert!(NAMED_ENTITIES.get(&name[..end]).is_some(), "{line} to {end}");
            }
        }
    }
}
