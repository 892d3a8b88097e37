//! Values of the wire in the words of results.

use clew_proto::convert::timestamp_from_wire;

/// Returns a time as RFC 3339 has it, or an empty text if there is none.
pub(super) fn time(time: Option<&clew_proto::Timestamp>) -> String {
    let time = time.and_then(|time| timestamp_from_wire("time", time).ok());
    time.map(|time| time.to_string()).unwrap_or_default()
}
