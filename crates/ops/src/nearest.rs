//! Finds the text that a model may have meant by one that is not in the file.
//!
//! Regions of the file that share rare words with the text are compared with it line by line. The best are
//! shown verbatim, to be sent as the next `old_string`. The work is limited for any file size.

use std::collections::HashMap;

use memchr::{memchr, memmem, memrchr};

use crate::lines::n_line_ends;
use crate::loose;

/// The most regions that are shown.
const MAX_REGIONS: usize = 3;

/// How far into a file regions are searched for.
const MAX_SEARCHED: usize = 64 << 20;

/// The most words that are searched for, and in large files.
const MAX_WORDS: usize = 8;
const MAX_WORDS_LARGE: usize = 3;

/// The most places of one word; a more frequent word is no evidence.
const MAX_PLACES: usize = 64;

/// The most regions that are compared, and the most lines of each.
const MAX_COMPARED: usize = 24;
const MAX_LINES: usize = 60;

/// How far into a file every line is compared.
const MAX_FOLDED: usize = 2 << 20;

/// The most bytes of a line that are compared, and of a region that are shown.
const MAX_LINE: usize = 300;
const MAX_SHOWN: usize = 4_000;

/// The most lines added to a region to make its text unique, plus one.
const MAX_GROWN: usize = 6;

/// The least similarity of a shown region, from 0 to 1.
const ALIKE: f32 = 0.55;

/// The similarity of lines that differ only in blanks, case and quote forms.
const SAME_BUT_FORM: f32 = 0.95;

/// The kind of difference between a region and the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Difference {
    /// Only blanks: spaces, tabs, empty lines.
    Blanks,
    /// Only blanks and the form of quotes and dashes.
    Quotes,
    /// Only those and upper or lower case.
    Case,
    /// More than that.
    Words,
}

/// A region of a file that is like the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Region {
    /// Its first line, counted from 1.
    pub first_line: u64,
    /// Its last line.
    pub last_line: u64,
    /// Its real text with LF as line ending; empty where it is too long to be shown.
    pub text: String,
    /// The kind of difference.
    pub difference: Difference,
}

impl Region {
    /// Returns the region in words, with its text.
    pub(crate) fn words(&self) -> String {
        let (lines, verb) = if self.first_line == self.last_line {
            (format!("line {}", self.first_line), "differs")
        } else {
            (format!("lines {}-{}", self.first_line, self.last_line), "differ")
        };
        let what = match self.difference {
            Difference::Blanks => " only in spaces, tabs or indentation",
            Difference::Quotes => " only in quotes, dashes or blanks",
            Difference::Case => " only in upper and lower case",
            Difference::Words => " in some words",
        };
        if self.text.is_empty() {
            format!("{lines} {verb}{what}; read it again")
        } else {
            format!("{lines} {verb}{what}; its text is:\n{}", self.text)
        }
    }
}

/// Returns the regions that are most like a text, the best first.
pub(crate) fn regions(text: &[u8], wanted: &str) -> Vec<Region> {
    let text = text.get(..MAX_SEARCHED).unwrap_or(text);
    let wanted_lines: Vec<&str> = wanted.lines().collect();
    let score = |starts: Vec<usize>| -> Vec<(f32, usize, usize)> {
        let scored = starts.into_iter().map(|start| {
            let (score, end) = compare(text, start, &wanted_lines);
            (score, start, end)
        });
        scored.filter(|(score, _, _)| ALIKE <= *score).collect()
    };
    let mut scored = score(candidates(text, &wanted_lines));
    if scored.is_empty() {
        // Short words, other case and other quotes are found only by comparing every line.
        scored = score(same_lines(text, &wanted_lines));
    }
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let best = scored.first().map_or(0.0, |(score, _, _)| *score);
    let mut taken: Vec<(usize, usize)> = Vec::new();
    for (score, start, end) in scored {
        let apart = taken.iter().all(|(from, to)| end <= *from || *to <= start);
        if apart && best * 0.85 <= score && taken.len() < MAX_REGIONS {
            taken.push((start, end));
        }
    }
    let regions = taken.into_iter().map(|(start, end)| {
        let (start, end) = grown(text, start, end);
        region(text, start, end, wanted)
    });
    regions.collect()
}

/// Returns a region grown by a few lines until its text is unique, where possible.
fn grown(text: &[u8], start: usize, end: usize) -> (usize, usize) {
    let is_alone = |start: usize, end: usize| {
        let shown = text.get(start..end).unwrap_or_default();
        let shown = shown.strip_suffix(b"\n").unwrap_or(shown);
        MAX_SHOWN < shown.len() || memmem::find_iter(text, shown).nth(1).is_none()
    };
    let (mut first, mut last) = (start, end);
    for _ in 0..MAX_GROWN {
        if is_alone(first, last) {
            return (first, last);
        }
        match lines_back(text, first, 1) {
            Some(above) => first = above,
            None => {
                let tail = text.get(last..).unwrap_or_default();
                last += memchr(b'\n', tail).map_or(tail.len(), |at| at + 1);
            }
        }
    }
    (start, end)
}

/// Returns the line starts at which the intended text may begin, the likeliest first.
fn candidates(text: &[u8], wanted: &[&str]) -> Vec<usize> {
    let max_words = if text.len() <= 8 << 20 { MAX_WORDS } else { MAX_WORDS_LARGE };
    let mut votes: HashMap<usize, f32> = HashMap::new();
    for (word, line) in words(wanted).into_iter().take(max_words) {
        let places: Vec<usize> = memmem::find_iter(text, word).take(MAX_PLACES).collect();
        let weight = 1.0 / places.len().max(1) as f32;
        for place in places {
            if let Some(start) = lines_back(text, place, line) {
                *votes.entry(start).or_default() += weight;
            }
        }
    }
    let mut votes: Vec<(usize, f32)> = votes.into_iter().collect();
    votes.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    votes.into_iter().take(MAX_COMPARED).map(|(start, _)| start).collect()
}

/// Returns candidate starts by the longest line of the text, compared without blanks, case or quotes.
fn same_lines(text: &[u8], wanted: &[&str]) -> Vec<usize> {
    let folded = wanted.iter().take(MAX_LINES).map(|line| folded(line)).enumerate();
    let Some((at, line)) = folded.max_by_key(|(_, line)| line.len()) else { return Vec::new() };
    if line.is_empty() {
        return Vec::new();
    }
    let mut starts = Vec::new();
    let mut start = 0;
    let text = text.get(..MAX_FOLDED).unwrap_or(text);
    for here in text.split_inclusive(|byte| *byte == b'\n') {
        if is_like(here, &line) {
            starts.extend(lines_back(text, start, at));
        }
        start += here.len();
        if MAX_COMPARED <= starts.len() {
            break;
        }
    }
    starts
}

/// Returns whether a line, folded, contains a folded one.
fn is_like(line: &[u8], wanted: &str) -> bool {
    line.len() <= MAX_LINE && folded(&String::from_utf8_lossy(line)).contains(wanted)
}

/// Returns a text without blanks, in plain quotes and lower case.
fn folded(text: &str) -> String {
    let plain = text.chars().map(plain).filter(|c| !c.is_whitespace());
    plain.flat_map(char::to_lowercase).collect()
}

/// Returns the words of the text with the line each is on, the longest first.
fn words<'a>(wanted: &[&'a str]) -> Vec<(&'a str, usize)> {
    let mut words: Vec<(&str, usize)> = Vec::new();
    for (at, line) in wanted.iter().enumerate().take(MAX_LINES) {
        let parts = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        words.extend(parts.filter(|word| 3 <= word.len()).map(|word| (word, at)));
    }
    words.sort_by_key(|(word, at)| (std::cmp::Reverse(word.len()), *word, *at));
    words.dedup_by_key(|(word, _)| *word);
    words
}

/// Returns where the line begins that is some lines before the line of a place.
pub(crate) fn lines_back(text: &[u8], place: usize, n: usize) -> Option<usize> {
    let mut start = line_start(text, place);
    for _ in 0..n {
        start = line_start(text, start.checked_sub(1)?);
    }
    Some(start)
}

fn line_start(text: &[u8], place: usize) -> usize {
    memrchr(b'\n', text.get(..place).unwrap_or_default()).map_or(0, |at| at + 1)
}

/// Returns the similarity of a region of as many lines, and its end.
fn compare(text: &[u8], start: usize, wanted: &[&str]) -> (f32, usize) {
    let mut end = start;
    let mut sum = 0.0;
    let mut weights = 0.0;
    for (at, line) in wanted.iter().enumerate() {
        let tail = text.get(end..).unwrap_or_default();
        let length = memchr(b'\n', tail).map_or(tail.len(), |at| at + 1);
        let here = tail.get(..length).unwrap_or_default();
        if at < MAX_LINES {
            let weight = line.trim().len().clamp(1, 60) as f32;
            sum += weight * alike(here, line.as_bytes());
            weights += weight;
        }
        end += length;
    }
    (sum / f32::max(weights, 1.0), end)
}

/// Returns the similarity of two lines: the share of byte bigrams in common.
fn alike(a: &[u8], b: &[u8]) -> f32 {
    let (a, b) = (a.trim_ascii(), b.trim_ascii());
    if a == b {
        return 1.0;
    }
    let text = |line: &[u8]| folded(&String::from_utf8_lossy(line.get(..MAX_LINE).unwrap_or(line)));
    if text(a) == text(b) {
        return SAME_BUT_FORM;
    }
    let pairs = |line: &[u8]| {
        let line = line.get(..MAX_LINE).unwrap_or(line);
        let mut pairs: Vec<(u8, u8)> = line
            .iter()
            .zip(line.iter().skip(1))
            .map(|(a, b)| (a.to_ascii_lowercase(), b.to_ascii_lowercase()))
            .collect();
        pairs.sort_unstable();
        pairs
    };
    let (a, b) = (pairs(a), pairs(b));
    let all = a.len() + b.len();
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    let mut shared = 0;
    while let (Some(x), Some(y)) = (a.peek(), b.peek()) {
        match x.cmp(y) {
            std::cmp::Ordering::Less => drop(a.next()),
            std::cmp::Ordering::Greater => drop(b.next()),
            std::cmp::Ordering::Equal => {
                shared += 2;
                a.next();
                b.next();
            }
        }
    }
    shared as f32 / all.max(1) as f32
}

fn region(text: &[u8], start: usize, end: usize, wanted: &str) -> Region {
    let bytes = text.get(start..end).unwrap_or_default();
    let first_line = n_line_ends(text.get(..start).unwrap_or_default()) + 1;
    let shown = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let last_line = first_line + n_line_ends(shown);
    let shown = String::from_utf8_lossy(shown).replace("\r\n", "\n");
    let mut shown = shown.strip_suffix('\r').unwrap_or(&shown).to_owned();
    let difference = difference(&shown, wanted);
    if wanted.ends_with('\n') && bytes.ends_with(b"\n") {
        shown.push('\n');
    }
    if MAX_SHOWN < shown.len() {
        shown.clear();
    }
    Region { first_line, last_line, text: shown, difference }
}

fn difference(a: &str, b: &str) -> Difference {
    let same = |fold: fn(char) -> char| {
        let folded = |text: &str| -> Vec<char> {
            text.chars().map(fold).filter(|c| !c.is_whitespace()).collect()
        };
        folded(a) == folded(b)
    };
    if same(|c| c) {
        Difference::Blanks
    } else if same(plain) {
        Difference::Quotes
    } else if same(|c| plain(c).to_lowercase().next().unwrap_or(c)) {
        Difference::Case
    } else {
        Difference::Words
    }
}

/// Returns the plain form of a character, and a blank for an invisible one.
fn plain(c: char) -> char {
    match c {
        '\u{FEFF}' | '\u{200B}' => ' ',
        other => loose::plain(other),
    }
}
