//! Redacts secrets from recorded texts.
//!
//! Known values come from environment variables with a telling name. Other secrets are found by their
//! issuer's prefix or by the name before them. Each becomes `[redacted: KIND]`. One pass over the text finds
//! all, in linear time.
//!
//! Deliberately absent: words that only look random. Auditors read hashes and IDs.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt;

use memchr::memmem::Finder;

use self::Characters::{Alphanumeric, Dashed, Dotted, Word};

/// Shorter values occur as words in many texts.
const MIN_KNOWN: usize = 8;
/// Longer values are unlikely secrets.
const MAX_KNOWN: usize = 4_096;
/// The most known values.
const MAX_VALUES: usize = 128;
/// The longest name of a value, and the longest user part of a URL.
const MAX_NAME: usize = 64;
const MAX_USER: usize = 512;
/// The minimum length of a secret found by its shape.
const MIN_SHAPED: usize = 16;
/// The minimum length of a value after a name.
const MIN_VALUE: usize = 4;

/// A secret with an issuer's prefix.
struct Shape {
    kind: &'static str,
    start: &'static str,
    /// The characters after the prefix, and their minimum number.
    tail: Characters,
    min: usize,
}

/// Characters of secrets. Each variant includes the one before.
#[derive(Clone, Copy)]
enum Characters {
    Alphanumeric,
    Word,
    Dashed,
    Dotted,
}

const fn shape(kind: &'static str, start: &'static str, tail: Characters, min: usize) -> Shape {
    Shape { kind, start, tail, min }
}

const SHAPES: &[Shape] = &[
    shape("AWS key", "AKIA", Alphanumeric, 16),
    shape("AWS key", "ASIA", Alphanumeric, 16),
    shape("GitHub token", "ghp_", Alphanumeric, 30),
    shape("GitHub token", "gho_", Alphanumeric, 30),
    shape("GitHub token", "ghu_", Alphanumeric, 30),
    shape("GitHub token", "ghs_", Alphanumeric, 30),
    shape("GitHub token", "ghr_", Alphanumeric, 30),
    shape("GitHub token", "github_pat_", Word, 22),
    shape("GitLab token", "glpat-", Dashed, 20),
    shape("Slack token", "xoxa-", Dashed, 10),
    shape("Slack token", "xoxb-", Dashed, 10),
    shape("Slack token", "xoxp-", Dashed, 10),
    shape("Slack token", "xoxr-", Dashed, 10),
    shape("Slack token", "xoxs-", Dashed, 10),
    shape("Slack token", "xapp-", Dashed, 10),
    shape("API key", "sk-", Dashed, 20),
    shape("API key", "sk_live_", Word, 16),
    shape("API key", "sk_test_", Word, 16),
    shape("API key", "rk_live_", Word, 16),
    shape("API key", "whsec_", Word, 16),
    shape("API key", "AIza", Dashed, 35),
    shape("API key", "SG.", Dotted, 40),
    shape("API key", "hf_", Alphanumeric, 30),
    shape("API key", "npm_", Alphanumeric, 36),
    shape("API key", "pypi-", Dashed, 50),
    shape("API key", "dop_v1_", Alphanumeric, 40),
    shape("token", "ya29.", Dashed, 20),
    shape("JWT", "eyJ", Dotted, 30),
];

/// Suffixes of name parts that announce a secret.
const SECRET: &[&str] =
    &["TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "CREDENTIALS", "APIKEY"];

/// The same for names of variables.
const SECRET_VARIABLE: &[&str] =
    &["TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "APIKEY", "API_KEY"];

/// Suffixes of variables that hold a location instead of the secret.
const PLACES: &[&str] = &["_FILE", "_PATH", "_DIR", "_SOCK", "_URL"];

/// Redacts secrets in texts.
#[derive(Clone, Default)]
pub struct Redactor {
    known: Vec<Finder<'static>>,
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redactor({} values)", self.known.len())
    }
}

impl Redactor {
    /// Returns a redactor for the values of variables with telling names.
    pub fn knowing(vars: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let values = vars.into_iter().filter_map(|(name, value)| {
            let value = value.into_encoded_bytes();
            let fits = (MIN_KNOWN..=MAX_KNOWN).contains(&value.len());
            (fits && holds_secret(name.to_str()?)).then(|| Finder::new(&value).into_owned())
        });
        let mut known: Vec<_> = values.take(MAX_VALUES).collect();
        // Longer values first: one that contains another is redacted whole.
        known.sort_by_key(|finder| std::cmp::Reverse(finder.needle().len()));
        Self { known }
    }

    /// Returns a text without its secrets.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut found = shaped(text);
        for finder in &self.known {
            let length = finder.needle().len();
            let hits = finder.find_iter(text.as_bytes());
            found.extend(hits.map(|at| Secret { start: at, end: at + length, kind: "variable" }));
        }
        if found.is_empty() {
            return Cow::Borrowed(text);
        }
        found.sort_by_key(|one| (one.start, std::cmp::Reverse(one.end)));
        let mut clean = String::with_capacity(text.len());
        let mut done = 0;
        for Secret { start, end, kind } in found {
            if done <= start {
                clean.push_str(text.get(done..start).unwrap_or_default());
                clean.push_str("[redacted: ");
                clean.push_str(kind);
                clean.push(']');
            }
            done = done.max(end);
        }
        clean.push_str(text.get(done..).unwrap_or_default());
        Cow::Owned(clean)
    }

    /// Returns whether a text holds a secret.
    pub fn finds(&self, text: &str) -> bool {
        matches!(self.redact(text), Cow::Owned(_))
    }
}

/// Returns whether the name of a variable says that its value is a secret.
fn holds_secret(name: &str) -> bool {
    let name = name.as_bytes();
    let is_end = |end: &&str| {
        let last = name.len().checked_sub(end.len()).and_then(|at| name.get(at..));
        last.is_some_and(|last| last.eq_ignore_ascii_case(end.as_bytes()))
    };
    let is_within = |word: &&str| {
        name.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word.as_bytes()))
    };
    let says =
        SECRET_VARIABLE.iter().any(is_within) || ["_KEY", "_PASS", "_PAT"].iter().any(is_end);
    says && !PLACES.iter().any(is_end)
}

/// A secret part of a text.
struct Secret {
    start: usize,
    end: usize,
    kind: &'static str,
}

/// Finds all secrets by shape in one pass.
fn shaped(text: &str) -> Vec<Secret> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    // Shorter texts, such as IDs and names, can hold a secret only after a name.
    if bytes.len() < MIN_SHAPED && !bytes.iter().any(|byte| matches!(byte, b'-' | b'=' | b':')) {
        return found;
    }
    let mut runs = CharacterRuns::default();
    let mut before = b' ';
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let rest = bytes.get(at..).unwrap_or_default();
        let here = match byte {
            b'-' if rest.starts_with(b"-----BEGIN ") => private_key(rest),
            b'-' if rest.starts_with(b"--") && before != b'-' => flag(rest),
            b':' if rest.starts_with(b"://") => user(rest),
            b'=' | b':' => assigned(bytes, at),
            _ if is_alphanumeric(byte) && !is_alphanumeric(before) => {
                runs.issued(bytes, at).or_else(|| authorization(rest))
            }
            _ => None,
        };
        before = byte;
        match here {
            Some((start, end, kind)) if start < end => {
                found.push(Secret { start: at + start, end: at + end, kind });
                at += end;
            }
            _ => at += 1,
        }
    }
    found
}

/// The position of a secret in the rest of a text, and its kind.
type Here = Option<(usize, usize, &'static str)>;

/// Caches the last examined run of each of [`Characters`]: the characters of a run are not examined again for the
/// prefixes in it. No prefix is part of another, so positions only grow.
#[derive(Default)]
struct CharacterRuns([CharacterRun; 4]);

/// The positions where a run ends, and of its last digit and dot.
#[derive(Clone, Copy, Default)]
struct CharacterRun {
    end: usize,
    digit: Option<usize>,
    dot: Option<usize>,
}

impl CharacterRuns {
    /// Finds the secret with an issuer's prefix at `at`.
    fn issued(&mut self, text: &[u8], at: usize) -> Here {
        let rest = text.get(at..)?;
        // Most words fail at their first letter.
        let begins = |shape: &&Shape| shape.start.as_bytes().first() == rest.first();
        SHAPES.iter().filter(begins).find_map(|shape| {
            rest.strip_prefix(shape.start.as_bytes())?;
            let tail = at + shape.start.len();
            let run = self.at(text, tail, shape.tail)?;
            let is_within = |place: Option<usize>| place.is_some_and(|place| tail <= place);
            // File names have dashes too, but rarely this length and digits.
            let is_random = is_within(run.digit) && (shape.kind != "JWT" || is_within(run.dot));
            let is_long = shape.min <= run.end - tail;
            (is_long && is_random).then(|| (0, run.end - at, shape.kind))
        })
    }

    /// Returns the run that `at` is part of. It ends at `at` if it is empty.
    fn at(&mut self, text: &[u8], at: usize, characters: Characters) -> Option<CharacterRun> {
        let run = self.0.get_mut(characters as usize)?;
        if run.end <= at {
            let is_in = characters.test();
            *run = CharacterRun { end: text.len(), ..CharacterRun::default() };
            for (place, byte) in text.iter().enumerate().skip(at) {
                match byte {
                    b'0'..=b'9' => run.digit = Some(place),
                    b'.' if is_in(b'.') => run.dot = Some(place),
                    byte if !is_in(*byte) => {
                        run.end = place;
                        break;
                    }
                    _ => {}
                }
            }
        }
        Some(*run)
    }
}

impl Characters {
    fn test(self) -> fn(u8) -> bool {
        match self {
            Alphanumeric => is_alphanumeric,
            Word => is_word,
            Dashed => is_dashed,
            Dotted => is_dotted,
        }
    }
}

/// Finds a private key, up to its last line or the end of the text.
fn private_key(rest: &[u8]) -> Here {
    let line = rest.get(..rest.len().min(MAX_NAME))?;
    memchr::memmem::find(line, b"PRIVATE KEY")?;
    let end = memchr::memmem::find(rest, b"-----END ").map_or(rest.len(), |end| {
        let last = rest.get(end + 9..).unwrap_or_default();
        end + 9 + memchr::memmem::find(last, b"-----").map_or(last.len(), |dashes| dashes + 5)
    });
    Some((0, end, "private key"))
}

/// Finds the value of `--password VALUE`.
fn flag(rest: &[u8]) -> Here {
    let name = rest.get(2..)?.iter().take(MAX_NAME).take_while(|byte| is_dashed(**byte)).count();
    if !says_secret(rest.get(2..2 + name)?) {
        return None;
    }
    let blanks = blanks(rest.get(2 + name..)?);
    if blanks == 0 {
        return None;
    }
    let at = 2 + name + blanks;
    let (start, end) = value(rest.get(at..)?)?;
    Some((at + start, at + end, "secret"))
}

/// Finds the password in a URL, or a long user part.
fn user(rest: &[u8]) -> Here {
    let after = rest.get(3..)?;
    let ends = |byte: &u8| matches!(byte, b'/' | b'?' | b'#' | b'"' | b'\'') || *byte <= b' ';
    let host = after.iter().take(MAX_USER).position(ends).unwrap_or(after.len());
    let before_host = after.get(..host.min(MAX_USER))?;
    let at = before_host.iter().rposition(|byte| *byte == b'@')?;
    let user = before_host.get(..at)?;
    match user.iter().position(|byte| *byte == b':') {
        Some(colon) => Some((3 + colon + 1, 3 + at, "password")),
        None if 16 <= user.len() => Some((3, 3 + at, "password")),
        None => None,
    }
}

/// Finds the value of an authorization header, or of `Bearer` and `Basic`.
fn authorization(rest: &[u8]) -> Here {
    let is =
        |word: &[u8]| rest.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
    if !matches!(rest.first(), Some(b'a' | b'A' | b'b' | b'B')) {
        return None;
    }
    if is(b"authorization") {
        let after = rest.get(13..)?;
        let colon = after.iter().take(4).position(|byte| matches!(byte, b':' | b'='))?;
        let written = after.get(colon + 1..)?;
        let start = written.iter().take_while(|byte| matches!(byte, b' ' | b'"' | b'\'')).count();
        let value = written.get(start..)?;
        let ends = |byte: &u8| matches!(byte, b'"' | b'\'' | b'\n' | b'\r');
        let end = value.iter().position(ends).unwrap_or(value.len());
        let at = 13 + colon + 1 + start;
        return Some((at, at + end, "authorization"));
    }
    let word: &[u8] = if is(b"bearer ") {
        b"bearer "
    } else if is(b"basic ") {
        b"basic "
    } else {
        return None;
    };
    let token = rest.get(word.len()..)?;
    let ends = |byte: &u8| !is_dotted(*byte) && !matches!(byte, b'+' | b'/' | b'=' | b'~');
    let length = token.iter().position(ends).unwrap_or(token.len());
    let is_random = token.get(..length)?.iter().any(u8::is_ascii_digit);
    (16 <= length && is_random).then_some((word.len(), word.len() + length, "authorization"))
}

/// Finds the value after the `=` or `:` at `at`, if the name before it announces a secret.
fn assigned(bytes: &[u8], at: usize) -> Here {
    let before = bytes.get(at.saturating_sub(MAX_NAME)..at)?;
    let is_aside = |byte: &u8| matches!(byte, b' ' | b'"' | b'\'' | b'\\');
    let name_end = before.iter().rposition(|byte| !is_aside(byte))? + 1;
    let is_quoted = name_end < before.len();
    let name = before.get(..name_end)?;
    let start = name.iter().rposition(|byte| !is_dotted(*byte)).map_or(0, |last| last + 1);
    let name = name.get(start..)?;
    // A word and a colon occur in prose too.
    let is_prose = bytes.get(at) == Some(&b':')
        && !is_quoted
        && !name.iter().any(|byte| matches!(byte, b'_' | b'-'))
        && !name.to_ascii_lowercase().ends_with(b"password");
    if is_prose || !says_secret(name) {
        return None;
    }
    let after = bytes.get(at + 1..)?;
    // Configuration files have `name = value`; a shell does not.
    let may_stand_apart = bytes.get(at) == Some(&b':') || before.last() == Some(&b' ');
    let blanks = if may_stand_apart { blanks(after) } else { 0 };
    let (start, end) = value(after.get(blanks..)?)?;
    Some((1 + blanks + start, 1 + blanks + end, "secret"))
}

fn blanks(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count()
}

/// Returns the position of a value without quotes; shell expansions are none.
fn value(bytes: &[u8]) -> Option<(usize, usize)> {
    let (start, ends): (usize, fn(u8) -> bool) = match bytes.first()? {
        b'"' => (1, |byte| matches!(byte, b'"' | b'\n')),
        // JSON text inside JSON.
        b'\\' if bytes.get(1) == Some(&b'"') => (2, |byte| matches!(byte, b'\\' | b'"' | b'\n')),
        b'\'' => (1, |byte| matches!(byte, b'\'' | b'\n')),
        _ => (0, |byte| byte <= b' ' || matches!(byte, b'"' | b'\'' | b';' | b'&' | b'|' | b',')),
    };
    let text = bytes.get(start..)?;
    if text.starts_with(b"$") {
        return None;
    }
    let length = text.iter().position(|byte| ends(*byte)).unwrap_or(text.len());
    (MIN_VALUE <= length).then_some((start, start + length))
}

/// Returns whether a name announces a secret.
fn says_secret(name: &[u8]) -> bool {
    let name = String::from_utf8_lossy(name).to_ascii_uppercase();
    let mut parts = name.split(['_', '-', '.']).filter(|part| !part.is_empty()).peekable();
    let mut n_parts = 0;
    let mut last = "";
    while let Some(part) = parts.next() {
        if SECRET.iter().any(|word| part.ends_with(word)) {
            return true;
        }
        n_parts += 1;
        last = if parts.peek().is_none() { part } else { last };
    }
    1 < n_parts && matches!(last, "KEY" | "PASS" | "PWD")
}

fn is_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn is_dashed(byte: u8) -> bool {
    is_word(byte) || byte == b'-'
}

fn is_dotted(byte: u8) -> bool {
    is_dashed(byte) || byte == b'.'
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::*;

    fn redactor() -> Redactor {
        let vars = [
            ("DEPLOY_TOKEN", "canary-in-a-variable"),
            ("SHORT_TOKEN", "word"),
            ("HOME", "/home/somebody"),
            ("TOKEN_FILE", "/home/somebody/token"),
        ];
        Redactor::knowing(vars.map(|(name, value)| (name.into(), value.into())))
    }

    #[test]
    fn secrets_go_and_everything_else_stays() {
        // Assembled here, so that secret scanners find none in this file.
        let many = "a1B2c3D4e5".repeat(6);
        let pem = |name: &str| format!("-----{name} RSA PRIVATE KEY-----");
        for (text, expected) in [
            ("echo word in /home/somebody".into(), None),
            ("curl canary-in-a-variable x".into(), Some("curl [redacted: variable] x")),
            (format!("AKIA{}", "A1".repeat(8)), Some("[redacted: AWS key]")),
            (format!("xAKIA{}", "A1".repeat(8)), None),
            (format!("ghp_{many} and"), Some("[redacted: GitHub token] and")),
            (format!("github_pat_{many}"), Some("[redacted: GitHub token]")),
            (format!("xoxb-{many}"), Some("[redacted: Slack token]")),
            (format!("'sk-ant-api03-{many}'"), Some("'[redacted: API key]'")),
            (String::from("sk-a-long-name-of-a-file-without-digits"), None),
            (
                format!("7 sk-a-name-before sk-a-long-name.sk-{many}"),
                Some("7 sk-a-name-before sk-a-long-name.[redacted: API key]"),
            ),
            (format!("SG.first.sk-name_{many}"), Some("[redacted: API key]")),
            (format!("sk-{}1 x", "-sk-a".repeat(1_000)), Some("[redacted: API key] x")),
            (format!("eyJ{many}.{many}.{many};"), Some("[redacted: JWT];")),
            (
                format!("a {}\nMII\n{} b", pem("BEGIN"), pem("END")),
                Some("a [redacted: private key] b"),
            ),
            (format!("a {}\nMII", pem("BEGIN")), Some("a [redacted: private key]")),
            ("-----BEGIN CERTIFICATE-----".into(), None),
            (
                "curl -H 'Authorization: Bearer x y' url".into(),
                Some("curl -H 'Authorization: [redacted: authorization]' url"),
            ),
            (
                "authorization: token abc\nnext".into(),
                Some("authorization: [redacted: authorization]\nnext"),
            ),
            (format!("Bearer {many}"), Some("Bearer [redacted: authorization]")),
            ("a bearer of news".into(), None),
            (
                "git clone https://me:pass@host/x".into(),
                Some("git clone https://me:[redacted: password]@host/x"),
            ),
            (format!("https://{many}@host"), Some("https://[redacted: password]@host")),
            ("https://me@host/a:b@c".into(), None),
            ("https://host:80/path".into(), None),
            ("X_API_KEY=abcd true".into(), Some("X_API_KEY=[redacted: secret] true")),
            ("DB_PASSWORD='a b c' x".into(), Some("DB_PASSWORD='[redacted: secret]' x")),
            ("TOKEN=$TOKEN make".into(), None),
            ("max_tokens=40960".into(), None),
            ("fix the token: it is not read".into(), None),
            ("\"token\": \"abcd\"".into(), Some("\"token\": \"[redacted: secret]\"")),
            (
                "{\\\"password\\\":\\\"abcd\\\",\\\"a\\\":1}".into(),
                Some("{\\\"password\\\":\\\"[redacted: secret]\\\",\\\"a\\\":1}"),
            ),
            (
                "aws_secret_access_key = abcd\nx = y".into(),
                Some("aws_secret_access_key = [redacted: secret]\nx = y"),
            ),
            ("password = \"a bc\"".into(), Some("password = \"[redacted: secret]\"")),
            ("PASSWORD= make".into(), None),
            ("x-api-key: abcd".into(), Some("x-api-key: [redacted: secret]")),
            ("tool --password hunter2 -v".into(), Some("tool --password [redacted: secret] -v")),
            ("tool --password=hunter2".into(), Some("tool --password=[redacted: secret]")),
            ("tool --tokens 10000".into(), None),
            ("monkey=banana".into(), None),
        ] {
            let expected = expected.unwrap_or(&text);
            assert_eq!(redactor().redact(&text), expected, "{text}");
        }
    }

    #[test]
    fn the_names_of_variables_that_hold_secrets_are_known() {
        for (name, value, is_known) in [
            ("GITHUB_TOKEN", "12345678", true),
            ("my_secret_word", "12345678", true),
            ("SSH_KEY", "12345678", true),
            ("SSH_KEY", "1234567", false),
            ("SSH_KEY_PATH", "12345678", false),
            ("PGPASSWORD", "12345678", true),
            ("KEYBOARD", "12345678", false),
        ] {
            let redactor = Redactor::knowing([(name.into(), value.into())]);
            assert_eq!(redactor.finds(value), is_known, "{name}");
        }
    }

    #[test]
    fn a_long_text_takes_no_more_than_its_length() {
        for start in
            ["-", "--token", "=", "eyJ", "sk-", "://", "authorization", "-----BEGIN ", "a:"]
        {
            let text = start.repeat(1 << 20 >> 3);
            let began = Instant::now();
            let _ = redactor().redact(&text);
            let took = began.elapsed();
            assert!(took < Duration::from_secs(5), "{start}: {took:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_comes_out_and_a_known_value_never(text in ".{0,64}", rest in ".{0,64}") {
            let secret = "canary-in-a-variable";
            let clean = redactor().redact(&format!("{text}{secret}{rest}")).into_owned();
            prop_assert!(!clean.contains(secret), "{}", clean);
        }
    }
}
