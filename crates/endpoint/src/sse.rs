//! A decoder of server-sent events, the stream that replies arrive in.
//!
//! Source: the HTML standard, section 9.2.6 "Interpreting an event stream". Only the data of events
//! is kept, since endpoints use neither names nor ids. Some servers leave out the empty line after
//! the last event. The standard drops such an event, but [`Decoder::end`] returns it.

/// Error for an event that is longer than allowed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

/// Decoder that splits a stream of bytes, in pieces of any length, into the data of its events.
#[derive(Debug)]
pub(crate) struct Decoder {
    /// Current line so far.
    line: Vec<u8>,
    /// Data of the current event so far, each line with its line feed.
    data: Vec<u8>,
    most_bytes: usize,
    is_first_line: bool,
    /// Whether the bytes so far end with a carriage return. A line feed right after it belongs to
    /// the same line end.
    after_return: bool,
}

impl Decoder {
    /// Creates a decoder of events of at most about `most_bytes`.
    pub(crate) fn new(most_bytes: usize) -> Self {
        let (line, data) = (Vec::new(), Vec::new());
        Self { line, data, most_bytes, is_first_line: true, after_return: false }
    }

    /// Decodes the next bytes and appends the data of each completed event to `events`.
    pub(crate) fn feed(&mut self, bytes: &[u8], events: &mut Vec<Vec<u8>>) -> Result<(), TooLong> {
        let mut rest = bytes;
        if let (true, Some(first)) = (self.after_return, rest.first()) {
            self.after_return = false;
            if *first == b'\n' {
                rest = &rest[1..];
            }
        }
        while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            self.keep(&rest[..end])?;
            self.end_line(events);
            let is_return = rest[end] == b'\r';
            rest = &rest[end + 1..];
            if is_return {
                match rest.first() {
                    Some(b'\n') => rest = &rest[1..],
                    Some(_) => {}
                    None => self.after_return = true,
                }
            }
        }
        self.keep(rest)
    }

    /// Returns the data of the last event if no empty line ended it.
    pub(crate) fn end(mut self) -> Option<Vec<u8>> {
        let mut events = Vec::new();
        self.end_line(&mut events);
        self.end_event(&mut events);
        events.pop()
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        if self.line.len() + self.data.len() + bytes.len() > self.most_bytes {
            return Err(TooLong);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self, events: &mut Vec<Vec<u8>>) {
        let mut line = self.line.as_slice();
        if std::mem::take(&mut self.is_first_line) {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        if line.is_empty() {
            self.end_event(events);
        } else if let Some(value) = line.strip_prefix(b"data") {
            // A colon ends the name of a field. Fields with longer names and comments are dropped.
            let value = match value {
                [] => Some(value),
                [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value),
                [_, ..] => None,
            };
            if let Some(value) = value {
                self.data.extend_from_slice(value);
                self.data.push(b'\n');
            }
        }
        self.line.clear();
    }

    fn end_event(&mut self, events: &mut Vec<Vec<u8>>) {
        if self.data.pop().is_some() {
            events.push(std::mem::take(&mut self.data));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the data of all events of a stream that arrives in `pieces`.
    fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
        let mut decoder = Decoder::new(1 << 20);
        let mut events = Vec::new();
        for piece in pieces {
            decoder.feed(piece, &mut events).unwrap();
        }
        events.extend(decoder.end());
        events.into_iter().map(|event| String::from_utf8(event).unwrap()).collect()
    }

    #[test]
    fn data_is_told_and_the_rest_is_not() {
        let cases: [(&str, &[&str]); 9] = [
            ("data: a\n\ndata: b\n\n", &["a", "b"]),
            ("data:a\r\n\r\ndata:  b\r\r", &["a", " b"]),
            (": a comment\n\nevent: x\nid: 7\ndata: a\n\n", &["a"]),
            ("data: a\ndata: b\n\n", &["a\nb"]),
            ("\u{feff}data: a\n\n", &["a"]),
            ("data\n\n", &[""]),
            ("database: a\ndatum\n\n", &[]),
            ("data: the last one without its empty line", &["the last one without its empty line"]),
            ("", &[]),
        ];
        for (stream, expected) in cases {
            assert_eq!(decode([stream.as_bytes()]), expected, "{stream:?}");
        }
    }

    #[test]
    fn an_event_or_line_without_end_is_refused() {
        for endless in [b"data: xxxxxxxx".as_slice(), b"data: x\n", b": a comment"] {
            let mut decoder = Decoder::new(1000);
            let mut events = Vec::new();
            let fed = (0..1000).try_for_each(|_| decoder.feed(endless, &mut events));
            assert_eq!((fed, events.len()), (Err(TooLong), 0));
        }
    }

    proptest! {
        #[test]
        fn however_the_stream_is_cut_the_events_are_the_same(
            stream in "(data: ?|:|event: |[a-zé\u{feff}]{0,3}|\n|\r|\r\n){0,40}",
            cuts in prop::collection::vec(0usize..200, 0..20),
        ) {
            let bytes = stream.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]);
            prop_assert_eq!(decode(pieces), decode([bytes]));
        }
    }
}
