//! Finds the first line of a Read's window and collects the lines from there.
//!
//! Far lines are found through the [marks](crate::line_index) of earlier reads; this read adds its own.

use sinew_tool::{Context, Opened, ToolError};

use super::{ReadArgs, ReadOut, SMALL, binary, collector, decoded};
use crate::encoding;
use crate::line_index::{BLOCK, LineIndex, LineIndexStore};
use crate::lines;
use crate::scan::Scan;
use crate::source;

/// The bytes read at once on the way to a far line.
const STRIDE: usize = 1 << 20;

/// Where a window begins.
enum Start {
    /// At this byte of the block read last.
    Here(usize),
    /// Nowhere: the file has only this many lines.
    Past(u64),
}

/// Returns the requested lines, without reading beyond them.
pub(super) fn window(
    args: &ReadArgs,
    cx: &Context,
    opened: &Opened,
    scan: &mut Scan<'_>,
) -> Result<ReadOut, ToolError> {
    let size = opened.meta.size();
    let max_bytes = cx.settings.max_read_bytes;
    let bounded = max_bytes.is_some() || args.counts_lines;
    let counted = bounded || size <= SMALL;
    let mut collector = collector(args, cx).with_room(size);
    let (start, known) = find_start(args.offset, cx, opened, scan)?;
    let start = match start {
        Start::Here(start) => start,
        Start::Past(total) => {
            return Ok(ReadOut::Text(collector.into_text(Some(total), true, size)));
        }
    };
    let mut line_ends = args.offset.max(1) - 1;
    let mut last_byte = None;
    let mut block = scan.last().get(start..).unwrap_or_default();
    if args.offset <= 1 {
        block = block.strip_prefix(source::BOM).unwrap_or(block);
    }
    loop {
        collector.feed(block);
        if counted {
            line_ends += lines::n_line_ends(block);
            last_byte = block.last().copied().or(last_byte);
        }
        let counting = counted && (bounded || scan.at() <= SMALL);
        if scan.ended() || (collector.settled() && !counting) {
            break;
        }
        if let Some(max_bytes) = max_bytes.filter(|max| *max < scan.at()) {
            return Ok(ReadOut::TooLarge { bytes: scan.at(), max_bytes });
        }
        block = scan.block(BLOCK)?;
    }
    let ended = scan.ended();
    if ended {
        collector.finish();
    }
    if collector.nul() {
        return binary(cx, scan, size, None);
    }
    // The encoding is one of the whole file, not of the lines that are shown.
    let other = match collector.broken().then(|| scan.all(SMALL)).transpose()?.flatten() {
        Some(bytes) if !encoding::is_broken_utf8(bytes) => encoding::legacy(bytes),
        _ => None,
    };
    if let Some((_, text)) = other {
        return decoded(args, cx, scan, &text, size);
    }
    let total = (counted && ended).then(|| n_lines(line_ends, last_byte)).or(known);
    Ok(ReadOut::Text(collector.into_text(total, ended, size)))
}

/// Reads on, after the first block, to the block with a line; returns its start, and the total if known.
fn find_start(
    offset: u64,
    cx: &Context,
    opened: &Opened,
    scan: &mut Scan<'_>,
) -> Result<(Start, Option<u64>), ToolError> {
    let head = scan.last();
    match lines::line_start(head, offset) {
        Some(start) if start < head.len() || start == 0 => return Ok((Start::Here(start), None)),
        _ if scan.ended() => {
            let total = n_lines(lines::n_line_ends(head), head.last().copied());
            return Ok((Start::Past(total), Some(total)));
        }
        _ => {}
    }
    let store = cx.memo.get::<LineIndexStore>();
    let identity = opened.meta.identity;
    let known = store.get(&identity);
    if let Some(total) = known.total_lines.filter(|total| *total < offset) {
        return Ok((Start::Past(total), Some(total)));
    }
    let mut marks = LineIndex::clone(&known);
    let start = seek_line(offset - 1, &mut marks, scan)?;
    let total = marks.total_lines;
    if marks != *known {
        store.put(identity, marks, cx.world.clock.wall_ms());
    }
    Ok((start, total))
}

/// Seeks past the line end with this number and marks blocks: in large strides, closely only in the last.
fn seek_line(
    line_end: u64,
    marks: &mut LineIndex,
    scan: &mut Scan<'_>,
) -> Result<Start, ToolError> {
    let (mut block, mut before) = marks.before(line_end);
    scan.seek(block as u64 * BLOCK as u64)?;
    let mut last_byte = None;
    let mut stride = BLOCK;
    loop {
        for chunk in scan.block(stride)?.chunks(BLOCK) {
            marks.add(block, before);
            let here = lines::n_line_ends(chunk);
            if line_end <= before + here {
                let start = lines::line_start(chunk, line_end - before + 1).unwrap_or(0);
                scan.seek(block as u64 * BLOCK as u64 + start as u64)?;
                let follows = !scan.block(BLOCK)?.is_empty();
                return Ok(if follows { Start::Here(0) } else { past(marks, line_end) });
            }
            before += here;
            last_byte = chunk.last().copied();
            block += 1;
        }
        if scan.ended() {
            return Ok(past(marks, n_lines(before, last_byte)));
        }
        stride = STRIDE;
    }
}

fn past(marks: &mut LineIndex, total: u64) -> Start {
    marks.total_lines = Some(total);
    Start::Past(total)
}

/// Returns how many lines so many line ends make of a content with this last byte.
pub(super) fn n_lines(line_ends: u64, last_byte: Option<u8>) -> u64 {
    line_ends + u64::from(last_byte.is_some_and(|byte| byte != b'\n'))
}
