//! Read: returns a window of lines of one file.
//!
//! The cost depends on the window, not on the file: reading stops after the last shown line, and far lines
//! are found through the [marks](crate::line_index) of earlier reads. The line count is returned where it
//! is known without reading on, or where `max_read_bytes` limits the file. Content, not the name, decides whether a
//! file is binary. Directories, pictures and documents are not rendered here.

mod window;

use base64::prelude::*;
use serde::Deserialize;
use sinew_tool::{
    Access, BinaryPolicy, Bound, Claim, Context, Cost, Facts, FileError, FileKind, FileSettings,
    FileTarget, Kind, Opened, Operation, Param, ParamKind, Preset, ReadObservation, Reply, Row,
    Shaping, Targets, ToolError,
};

use crate::encoding::{self, Encoding};
use crate::line_index::BLOCK;
use crate::lines::{self, Collector, LineWindow, WindowLimits};
use crate::media;
use crate::scan::Scan;
use crate::source::{self, ContentKind};

pub use crate::media::Media;
use window::{n_lines, window};

/// This many identical reads in a row are likely a mistake.
pub const MANY_TIMES: u32 = 3;

/// The default limit of lines.
pub const DEFAULT_LIMIT: u64 = 2_000;

/// Files up to this size are read whole, so that the number of their lines is known.
const SMALL: u64 = 1 << 20;

/// The largest file that is decoded from UTF-16 or UTF-32.
const MAX_DECODED: u64 = 8 << 20;

/// The largest file returned in base64, so that it fits into a reply.
const MAX_BASE64: u64 = 700 << 10;

/// Reads a window of lines.
#[derive(Debug)]
pub struct Read;

/// Arguments of Read.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadArgs {
    /// The file.
    pub path: String,
    /// The first line, counted from 1.
    #[serde(default = "first")]
    pub offset: u64,
    /// The most lines.
    #[serde(default = "default_limit")]
    pub limit: u64,
    /// The most first lines; 0 is all.
    #[serde(default)]
    pub head: Option<u64>,
    /// The most last lines, where the rest after the last line end counts as one; 0 is all.
    #[serde(default)]
    pub tail: Option<u64>,
    /// The last line, counted from 1; `limit` holds all the same.
    #[serde(default)]
    pub last: Option<u64>,
    /// The most bytes of text that the row shows; it may cut inside a line.
    #[serde(default)]
    pub max_bytes: Option<u64>,
    /// Whether the lines of a file of any size are counted, and its last byte is read.
    #[serde(default)]
    pub counts_lines: bool,
    /// The handling of a file that is not text.
    #[serde(default)]
    pub media: Media,
    /// The most characters of a line; `None` cuts no line but one larger than a whole reply.
    #[serde(default)]
    pub max_line_chars: Option<u64>,
    /// Pages of a PDF, which cannot be shown yet; ignored for other files.
    #[serde(default)]
    pub pages: Option<String>,
}

fn first() -> u64 {
    1
}

fn default_limit() -> u64 {
    DEFAULT_LIMIT
}

impl ReadArgs {
    /// Returns the most lines requested.
    fn max_lines(&self) -> u64 {
        let until_last = |last: u64| (last + 1).saturating_sub(self.offset.max(1));
        let head = self.head.filter(|head| 0 < *head).unwrap_or(u64::MAX);
        self.last.map_or(u64::MAX, until_last).min(self.limit.max(1)).min(head)
    }
}

/// Returns the whole file of the call's target at an index.
pub(crate) fn whole(path: &str, cx: &Context, at: usize) -> Result<ReadOut, ToolError> {
    let args = ReadArgs {
        path: path.to_owned(),
        offset: 1,
        limit: u64::MAX,
        head: None,
        tail: None,
        last: None,
        max_bytes: None,
        counts_lines: false,
        media: Media::Plain,
        max_line_chars: None,
        pages: None,
    };
    found(&args, cx, at)
}

/// Outcome of Read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadOut {
    /// Lines of text; none where the file is empty or the offset lies past its end.
    Text(LineWindow),
    /// Content that is not shown as text.
    Binary {
        /// The size of the file.
        bytes: u64,
        /// The encoding that the mark announces, where the content cannot be decoded.
        encoding: Option<&'static str>,
        /// The content, where settings ask for it and it is not too large.
        base64: Option<String>,
    },
    /// Content that is returned unchanged.
    Media {
        /// The size of the file.
        bytes: u64,
        /// The MIME type by its name.
        mime: Option<&'static str>,
        /// The content.
        base64: String,
    },
    /// There is no such file.
    NotFound,
    /// The system denies access.
    PermissionDenied,
    /// The file is larger than Read takes.
    TooLarge {
        /// The size of the file.
        bytes: u64,
        /// The most that is taken.
        max_bytes: u64,
    },
    /// The path is not a regular file.
    NotRegularFile {
        /// Its file type.
        kind: FileKind,
    },
}

/// The native row.
pub const NATIVE: Row<Read> = Row {
    name: "Read",
    description: "Reads a text file as numbered lines (`number→text`).",
    params: &[
        Param::required("file_path", "path", ParamKind::String, "").also(&["path"]),
        Param::optional(
            "offset",
            "offset",
            ParamKind::Integer { min: 1, cap: None },
            "First line, from 1",
        ),
        Param::optional("limit", "limit", ParamKind::Integer { min: 1, cap: Some(1_000_000) }, "")
            .or(Preset::Int(DEFAULT_LIMIT as i64)),
        Param::optional("pages", "pages", ParamKind::String, "For PDF"),
    ],
    presets: &[("max_line_chars", Preset::Int(2_000))],
    bound: Bound::HARD,
    ..Row::shaped(shape)
};

impl Operation for Read {
    const NAME: &'static str = "Read";
    const FACTS: Facts = Facts::OBSERVES;
    type Args = ReadArgs;
    type Out = ReadOut;

    fn check(args: &ReadArgs) -> Result<(), ToolError> {
        let asked = |lines: Option<u64>| lines.is_some_and(|lines| 0 < lines);
        if asked(args.head) && asked(args.tail) {
            return Err(ToolError::argument("head", "and `tail` cannot both be given"));
        }
        Ok(())
    }

    fn claims(args: &ReadArgs, _settings: &FileSettings) -> Vec<Claim> {
        vec![Claim::new("path", Some(args.path.clone()), Access::Read)]
    }

    fn cost(args: &ReadArgs, targets: &Targets) -> Cost {
        let size = match targets.files.first().map(|target| &target.state) {
            Some(sinew_tool::FileState::Found(meta)) => meta.size(),
            _ => 0,
        };
        let near = args.offset <= DEFAULT_LIMIT && args.max_lines() <= DEFAULT_LIMIT;
        let is_cheap = size <= SMALL || (near && !args.counts_lines);
        if is_cheap { Cost::Cheap } else { Cost::Long }
    }

    async fn run(args: &ReadArgs, cx: &Context) -> Result<ReadOut, ToolError> {
        found(args, cx, 0)
    }
}

fn found(args: &ReadArgs, cx: &Context, at: usize) -> Result<ReadOut, ToolError> {
    let target = cx.target(at)?;
    match cx.world.files.open(target.slot) {
        Ok(opened) => read(args, cx, target, &opened),
        Err(FileError::Missing) => Ok(ReadOut::NotFound),
        Err(FileError::Permission) => Ok(ReadOut::PermissionDenied),
        Err(FileError::NotRegular(kind)) => Ok(ReadOut::NotRegularFile { kind }),
        Err(error) => Err(cx.about(target, error)),
    }
}

fn read(
    args: &ReadArgs,
    cx: &Context,
    target: &FileTarget,
    opened: &Opened,
) -> Result<ReadOut, ToolError> {
    let size = opened.meta.size();
    let max_bytes = cx.settings.max_read_bytes;
    if let Some(max_bytes) = max_bytes.filter(|max| *max < size) {
        return Ok(ReadOut::TooLarge { bytes: size, max_bytes });
    }
    let mut scan = Scan::new(cx, target, opened);
    if !cx.settings.track_reads {
        return content(args, cx, target, opened, &mut scan);
    }
    if size <= SMALL {
        scan.hash();
    }
    let mut out = content(args, cx, target, opened, &mut scan)?;
    // Lines from the end are counted down from the other end of the numbers.
    let first = args.tail.map_or(args.offset.max(1), |tail| u64::MAX - tail);
    let part = (first, args.limit.max(1));
    let observation =
        ReadObservation { state: opened.meta.identity, content: scan.content(), part };
    match &mut out {
        ReadOut::Text(text) => text.n_times = cx.world.knowledge.saw(target.slot, &observation),
        // The reply has all that can be read of it.
        ReadOut::Binary { .. } | ReadOut::Media { .. } => {
            let _ = cx.world.knowledge.saw(target.slot, &observation);
        }
        ReadOut::NotFound
        | ReadOut::PermissionDenied
        | ReadOut::TooLarge { .. }
        | ReadOut::NotRegularFile { .. } => {}
    }
    Ok(out)
}

fn content(
    args: &ReadArgs,
    cx: &Context,
    target: &FileTarget,
    opened: &Opened,
    scan: &mut Scan<'_>,
) -> Result<ReadOut, ToolError> {
    let size = opened.meta.size();
    let mime = media::by_name(&target.path);
    if args.media == Media::Every || (args.media == Media::Known && mime.is_some()) {
        return media(cx, scan, size, mime);
    }
    let head = match usize::try_from(size) {
        Ok(n) if 0 < n && n < BLOCK => scan.block(n + 1)?,
        _ => scan.block(BLOCK)?,
    };
    if let Some(what) = source::media(head).filter(|_| args.media != Media::Plain) {
        return Err(ToolError::new(
            Kind::Unavailable,
            format!("{what} cannot be shown: this build has no support for it"),
        ));
    }
    let encoding = match source::sniff(head) {
        ContentKind::Text if args.tail.is_some_and(|tail| 0 < tail) => {
            return tail(args, cx, scan, size);
        }
        ContentKind::Text => {
            let out = window(args, cx, opened, scan)?;
            return if args.counts_lines { with_end(out, scan) } else { Ok(out) };
        }
        ContentKind::Binary => None,
        ContentKind::Encoded(encoding) => Some(encoding),
    };
    let found = scan.all(MAX_DECODED)?.and_then(|bytes| match encoding {
        Some(encoding) => encoding.decode(bytes),
        None => encoding::unmarked(bytes).map(|(_, text)| text),
    });
    match found {
        Some(text) => decoded(args, cx, scan, &text, size),
        None => binary(cx, scan, size, encoding.map(Encoding::name)),
    }
}

/// Adds to a window how its file ends, where that is not known yet.
fn with_end(out: ReadOut, scan: &mut Scan<'_>) -> Result<ReadOut, ToolError> {
    let ReadOut::Text(mut text) = out else { return Ok(out) };
    if text.ends_line.is_none()
        && let Some(last) = text.bytes.checked_sub(1)
    {
        scan.seek(last)?;
        text.ends_line = scan.block(1)?.first().map(|byte| *byte == b'\n');
    }
    Ok(ReadOut::Text(text))
}

/// Returns the window of a text that was decoded whole.
fn decoded(
    args: &ReadArgs,
    cx: &Context,
    scan: &mut Scan<'_>,
    text: &str,
    size: u64,
) -> Result<ReadOut, ToolError> {
    let mut collector = collector(args, cx);
    let text = text.as_bytes();
    let text = text.strip_prefix(source::BOM).unwrap_or(text);
    let total = n_lines(lines::n_line_ends(text), text.last().copied());
    let start = lines::line_start(text, args.offset.max(1)).unwrap_or(text.len());
    collector.feed(text.get(start..).unwrap_or_default());
    collector.finish();
    if collector.nul() {
        return binary(cx, scan, size, None);
    }
    let mut window = collector.into_text(Some(total), true, size);
    window.ends_line = Some(text.last() == Some(&b'\n'));
    Ok(ReadOut::Text(window))
}

fn collector(args: &ReadArgs, cx: &Context) -> Collector {
    Collector::new(
        args.offset.max(1),
        WindowLimits {
            max_lines: args.max_lines(),
            max_bytes: cx.settings.read_reply_bytes,
            max_chars: args.max_line_chars.and_then(|max| usize::try_from(max).ok()),
        },
    )
}

fn binary(
    cx: &Context,
    scan: &mut Scan<'_>,
    size: u64,
    encoding: Option<&'static str>,
) -> Result<ReadOut, ToolError> {
    let max = cx.settings.max_read_bytes.unwrap_or(MAX_BASE64).min(MAX_BASE64);
    let wanted = cx.settings.binary_policy == BinaryPolicy::Base64 && size <= max;
    let base64 = match usize::try_from(size) {
        Ok(size) if wanted => {
            scan.seek(0)?;
            Some(BASE64_STANDARD.encode(scan.block(size)?))
        }
        _ => None,
    };
    Ok(ReadOut::Binary { bytes: size, encoding, base64 })
}

/// Returns the last lines of a file, read from its end until they are found or a reply is full.
fn tail(
    args: &ReadArgs,
    cx: &Context,
    scan: &mut Scan<'_>,
    size: u64,
) -> Result<ReadOut, ToolError> {
    let n_ends = args.tail.unwrap_or(0);
    let most = (cx.settings.read_reply_bytes as u64).min(size);
    let mut length = (BLOCK as u64).min(most);
    loop {
        scan.seek(size - length)?;
        let block = scan.block(usize::try_from(length).unwrap_or(0))?;
        if n_ends <= lines::n_line_ends(block) || length == most {
            let start = lines::line_start(
                block,
                (lines::n_line_ends(block) + 2).saturating_sub(n_ends).max(1),
            );
            let text = block.get(start.unwrap_or(0)..).unwrap_or_default();
            // The bytes read are already limited.
            let max_bytes = usize::MAX / 2;
            let limits = WindowLimits { max_lines: u64::MAX, max_bytes, max_chars: None };
            let mut collector = Collector::new(1, limits);
            collector.feed(text);
            collector.finish();
            if collector.nul() {
                return binary(cx, scan, size, None);
            }
            return Ok(ReadOut::Text(collector.into_text(None, true, size)));
        }
        length = (length * 4).min(most);
    }
}

/// Returns the whole content of a file in base64.
fn media(
    cx: &Context,
    scan: &mut Scan<'_>,
    size: u64,
    mime: Option<&'static str>,
) -> Result<ReadOut, ToolError> {
    let max_bytes = cx.settings.max_read_bytes.unwrap_or(MAX_BASE64).min(MAX_BASE64);
    match scan.all(max_bytes)? {
        Some(bytes) => {
            let base64 = BASE64_STANDARD.encode(bytes);
            Ok(ReadOut::Media { bytes: bytes.len() as u64, mime, base64 })
        }
        None => Ok(ReadOut::TooLarge { bytes: size, max_bytes }),
    }
}

fn shape(args: &ReadArgs, out: ReadOut, shaping: &Shaping<'_>) -> Reply {
    let path = &args.path;
    let error = match out {
        ReadOut::Text(text) => return shape_text(args, &text),
        ReadOut::Binary { base64: Some(base64), bytes, .. }
        | ReadOut::Media { base64, bytes, .. } => {
            let mut reply = Reply::text(base64);
            reply.meta.more.insert("encoding", "base64");
            reply.meta.more.insert("bytes", bytes);
            return reply;
        }
        ReadOut::Binary { bytes, encoding: Some(encoding), .. } => ToolError::new(
            Kind::Binary,
            format!("{bytes} bytes marked as {encoding} that cannot be shown as text: {path}"),
        ),
        ReadOut::Binary { bytes, .. } => {
            ToolError::new(Kind::Binary, format!("binary content of {bytes} bytes: {path}"))
                .hint("a program that knows the format can show it")
        }
        ReadOut::NotFound => shaping.about(0, FileError::Missing),
        ReadOut::PermissionDenied => shaping.about(0, FileError::Permission),
        ReadOut::NotRegularFile { kind: FileKind::Directory } => {
            let error = shaping.about(0, FileError::NotRegular(FileKind::Directory));
            error.hint("use List for directories")
        }
        ReadOut::NotRegularFile { kind } => shaping.about(0, FileError::NotRegular(kind)),
        ReadOut::TooLarge { bytes, max_bytes } => ToolError::new(
            Kind::TooLarge,
            format!("the file has {bytes} bytes, more than {max_bytes}: {path}"),
        )
        .hint("search it with Grep"),
    };
    Reply::failure(&error)
}

fn shape_text(args: &ReadArgs, text: &LineWindow) -> Reply {
    let mut shown = text.numbered("→", |n| format!("… [{n} more characters]"));
    let total = text.total_lines;
    match (text.rendered_lines, total) {
        (0, Some(0)) => shown.push_str("[the file is empty]"),
        (0, total) => {
            let total = total.unwrap_or(0);
            let lines = if total == 1 { "line" } else { "lines" };
            shown.push_str(&format!(
                "[the file has {total} {lines}; offset {} is past its end]",
                args.offset
            ));
        }
        (n, _) => {
            if let Some(next) = text.next_offset {
                let last = text.start_line + n - 1;
                let of = total.map_or(String::new(), |total| format!(" of {total}"));
                shown.push_str(&format!(
                    "[lines {}-{last}{of}; go on with offset {next}]",
                    text.start_line
                ));
            }
        }
    }
    if MANY_TIMES <= text.n_times {
        let gap = if shown.ends_with('\n') { "" } else { "\n" };
        let n = text.n_times;
        shown.push_str(&format!("{gap}[read {n} times in a row; nothing changed in between]"));
    }
    let mut reply = Reply::text(shown);
    reply.bounded = true;
    reply.meta.truncated = text.truncated || text.cuts_lines();
    let numbers = [("next_offset", text.next_offset), ("total_lines", total)];
    for (name, value) in numbers {
        if let Some(value) = value {
            reply.meta.more.insert(name, value);
        }
    }
    reply
}

#[cfg(test)]
mod tests;
