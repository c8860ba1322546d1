//! Parses file names in a patch: their quotes, their end, and the leading parts to strip.

use super::line::bare;

/// The longest name that is read.
const MAX_NAME: usize = 8192;

/// A name as a header line has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HeaderName {
    /// `/dev/null`: no file.
    Null,
    Path(String),
}

/// A name of a header line, and whether the time beside it means a missing file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Titled {
    pub(super) name: HeaderName,
    pub(super) is_epoch: bool,
}

/// Parses the rest after `--- ` or `+++ `: a name, and perhaps a time after a tab.
pub(super) fn titled(text: &[u8]) -> Result<Titled, &'static str> {
    let text = bare(text);
    if let Some((name, rest)) = quoted(text)? {
        return Ok(Titled { name: named(name)?, is_epoch: is_epoch(rest.trim_ascii()) });
    }
    let tab = text.iter().position(|byte| *byte == b'\t').or_else(|| blank_before_date(text));
    let (name, rest) = text.split_at(tab.unwrap_or(text.len()));
    Ok(Titled {
        name: named(name.trim_ascii_end().to_vec())?,
        is_epoch: is_epoch(rest.trim_ascii()),
    })
}

/// Reads a name that fills the rest of a line, as after `rename from `.
pub(super) fn whole(text: &[u8]) -> Result<String, &'static str> {
    let text = bare(text);
    let name = match quoted(text)? {
        Some((name, _)) => name,
        None => text.to_vec(),
    };
    readable(name)
}

/// Reads the two names after `diff --git `; unquoted ones with blanks must equal but for the first part.
pub(super) fn pair(text: &[u8]) -> Result<Option<(String, String)>, &'static str> {
    let text = bare(text);
    if MAX_NAME * 2 < text.len() {
        return Err("is too long");
    }
    if let Some((old, rest)) = quoted(text)? {
        let rest = rest.trim_ascii_start();
        let new = match quoted(rest)? {
            Some((new, _)) => new,
            None => rest.to_vec(),
        };
        return Ok(Some((readable(old)?, readable(new)?)));
    }
    if text.ends_with(b"\"")
        && let Some(at) = memchr::memmem::find(text, b" \"")
        && let (Some(old), Some(rest)) = (text.get(..at), text.get(at + 1..))
        && let Some((new, _)) = quoted(rest)?
    {
        return Ok(Some((readable(old.to_vec())?, readable(new)?)));
    }
    let mut slashes = memchr::memchr_iter(b'/', text).peekable();
    let Some(first) = slashes.peek().map(|at| at + 1) else {
        return halves(text).map(|(old, new)| Ok((readable(old)?, readable(new)?))).transpose();
    };
    for at in memchr::memchr_iter(b' ', text) {
        while slashes.next_if(|slash| *slash < at).is_some() {}
        let (Some(old), Some(new)) = (text.get(..at), text.get(at + 1..)) else { continue };
        let new_first = slashes.peek().map_or(at + 1, |slash| slash + 1);
        let (old_tail, new_tail) = (text.get(first..at), text.get(new_first..));
        if old_tail.is_some_and(|tail| !tail.is_empty()) && old_tail == new_tail {
            return Ok(Some((readable(old.to_vec())?, readable(new.to_vec())?)));
        }
    }
    if let Some((old, new)) = halves(text) {
        return Ok(Some((readable(old)?, readable(new)?)));
    }
    Ok(None)
}

/// Returns the halves of a text around a blank, where they are the same.
fn halves(text: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let (old, new) = text.split_at_checked(text.len() / 2)?;
    let new = new.strip_prefix(b" ")?;
    (old == new).then(|| (old.to_vec(), new.to_vec()))
}

/// Returns a name without its first parts, or `None` for too few; repeated slashes count as one.
pub(super) fn stripped(name: &str, n_parts: u32) -> Option<&str> {
    let mut rest = name;
    for _ in 0..n_parts {
        rest = rest.split_once('/')?.1.trim_start_matches('/');
    }
    (!rest.is_empty()).then_some(rest)
}

/// Returns the leading parts to strip by default: one where git, or a model, has put `a/` and `b/`.
pub(super) fn n_prefixes(old: Option<&str>, new: Option<&str>, is_git: bool) -> u32 {
    const PLAIN: &[(&str, &str)] = &[("a", "b")];
    /// The prefixes of `diff.mnemonicPrefix` and of a reversed diff.
    const GIT: &[(&str, &str)] = &[
        ("b", "a"),
        ("i", "w"),
        ("w", "i"),
        ("c", "i"),
        ("i", "c"),
        ("c", "w"),
        ("w", "c"),
        ("o", "w"),
        ("w", "o"),
    ];
    let first = |name: &'_ str| -> Option<String> {
        let (first, rest) = name.split_once('/')?;
        (!rest.is_empty()).then(|| first.to_owned())
    };
    let known =
        |old: &str, new: &str| PLAIN.contains(&(old, new)) || (is_git && GIT.contains(&(old, new)));
    let has = match (old.map(first), new.map(first)) {
        (Some(Some(old)), Some(Some(new))) => known(&old, &new),
        (Some(Some(only)), None) | (None, Some(Some(only))) => ["a", "b"].contains(&only.as_str()),
        _ => false,
    };
    u32::from(has)
}

/// A name without its quotes, and the rest after it.
type Quoted<'t> = (Vec<u8>, &'t [u8]);

/// Parses a C-style quoted name and the rest after it; `None` without a quote.
fn quoted(text: &[u8]) -> Result<Option<Quoted<'_>>, &'static str> {
    let Some(mut rest) = text.strip_prefix(b"\"") else { return Ok(None) };
    let mut name = Vec::new();
    loop {
        let (byte, more) = rest.split_first().ok_or("has a quote without its end")?;
        rest = more;
        match byte {
            b'"' => return Ok(Some((name, rest))),
            b'\\' => {
                let (byte, more) = escaped(rest).ok_or("has an escape that C does not know")?;
                name.push(byte);
                rest = more;
            }
            byte => name.push(*byte),
        }
    }
}

/// Parses the escape after a backslash.
fn escaped(text: &[u8]) -> Option<(u8, &[u8])> {
    let (first, rest) = text.split_first()?;
    let byte = match first {
        b'a' => 7,
        b'b' => 8,
        b't' => b'\t',
        b'n' => b'\n',
        b'v' => 11,
        b'f' => 12,
        b'r' => b'\r',
        b'"' | b'\\' => *first,
        b'0'..=b'3' => {
            let (digits, rest) = text.split_at_checked(3)?;
            let digits = std::str::from_utf8(digits).ok()?;
            return Some((u8::from_str_radix(digits, 8).ok()?, rest));
        }
        _ => return None,
    };
    Some((byte, rest))
}

fn named(name: Vec<u8>) -> Result<HeaderName, &'static str> {
    Ok(if name == b"/dev/null" { HeaderName::Null } else { HeaderName::Path(readable(name)?) })
}

fn readable(name: Vec<u8>) -> Result<String, &'static str> {
    if name.is_empty() {
        return Err("is empty");
    }
    if MAX_NAME < name.len() {
        return Err("is too long");
    }
    if name.contains(&0) {
        return Err("holds a NUL");
    }
    String::from_utf8(name).map_err(|_| "is not UTF-8")
}

/// Returns where a time begins that follows a name after blanks alone: ` 2020-01-02 03:04:05`.
fn blank_before_date(text: &[u8]) -> Option<usize> {
    const FORM: &[u8] = b" 0000-00-00 00:00:00";
    let is_form = |window: &[u8]| {
        window.iter().zip(FORM).all(|(byte, form)| match form {
            b'0' => byte.is_ascii_digit(),
            form => byte == form,
        })
    };
    text.windows(FORM.len()).position(is_form)
}

/// Returns whether a time is the Unix epoch, in any time zone.
fn is_epoch(time: &[u8]) -> bool {
    let Ok(time) = std::str::from_utf8(time) else { return false };
    let mut parts = time.split_ascii_whitespace();
    let (Some(date), Some(clock)) = (parts.next(), parts.next()) else { return false };
    let minutes = |hours: &str, minutes: &str| -> Option<i32> {
        Some(hours.parse::<i32>().ok()? * 60 + minutes.parse::<i32>().ok()?)
    };
    let day = match date {
        "1970-01-01" => 0,
        "1969-12-31" => -24 * 60,
        _ => return false,
    };
    let (Some((hour, rest)), zone) = (clock.split_once(':'), parts.next().unwrap_or("+0000"))
    else {
        return false;
    };
    let (minute, seconds) = rest.split_once(':').unwrap_or((rest, "0"));
    let zone = zone.split_at_checked(1).and_then(|(sign, digits)| {
        let (hours, mins) = digits.split_at_checked(2)?;
        let shift = minutes(hours, mins)?;
        Some(if sign == "-" { -shift } else { shift })
    });
    let no_seconds = seconds.bytes().all(|byte| matches!(byte, b'0' | b'.'));
    no_seconds && zone.is_some() && minutes(hour, minute).map(|clock| clock + day) == zone
}
