//! Formats file times for users and models.

use jiff::Timestamp;
use sinew_tool::Stamp;

/// Returns a time in ISO 8601, in UTC and to the second.
pub(crate) fn iso(stamp: Stamp) -> String {
    match Timestamp::from_second(stamp.seconds) {
        Ok(time) => time.to_string(),
        Err(_) => String::from("unknown"),
    }
}

/// Returns a time in words, in UTC: `Sun Sep 09 2001 01:46:40 GMT+0000 (Coordinated Universal Time)`.
pub fn long_time(stamp: Stamp) -> String {
    match Timestamp::from_second(stamp.seconds) {
        Ok(time) => {
            let shown = time.strftime("%a %b %d %Y %H:%M:%S");
            format!("{shown} GMT+0000 (Coordinated Universal Time)")
        }
        Err(_) => String::from("unknown"),
    }
}

/// Returns a time in ISO 8601, in UTC and to the thousandth of a second.
pub fn iso_millis(stamp: Stamp) -> String {
    match Timestamp::from_millisecond(stamp.seconds.saturating_mul(1_000)) {
        Ok(time) => {
            format!("{}.{:03}Z", time.strftime("%Y-%m-%dT%H:%M:%S"), stamp.nanos / 1_000_000)
        }
        Err(_) => String::from("unknown"),
    }
}

/// Returns a time in milliseconds since 1970 in ISO 8601, in UTC.
pub(crate) fn iso_of_ms(at_ms: u64) -> String {
    let seconds = i64::try_from(at_ms / 1_000).unwrap_or(i64::MAX);
    iso_millis(Stamp { seconds, nanos: (at_ms % 1_000) as u32 * 1_000_000 })
}
