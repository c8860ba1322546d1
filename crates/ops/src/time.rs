//! Times of files as people and models read them.

use jiff::Timestamp;
use sinew_tool::Stamp;

/// Returns a time in ISO 8601, in UTC and to the second.
pub(crate) fn iso(stamp: Stamp) -> String {
    match Timestamp::from_second(stamp.seconds) {
        Ok(time) => time.to_string(),
        Err(_) => String::from("unknown"),
    }
}
