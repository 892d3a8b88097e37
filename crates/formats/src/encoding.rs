//! Decodes bytes to text: by byte order mark, then as UTF-8, then in the likeliest legacy encoding.

use std::io::{self, BufRead, BufReader, Read};

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{CoderResult, Decoder, Encoding, UTF_8};

use crate::Problem;

/// Number of bytes of a stream that are examined to detect its encoding.
const SAMPLE_BYTES: usize = 64 << 10;

/// Decodes `bytes` to text.
pub(crate) fn decode(bytes: Vec<u8>) -> Result<String, Problem> {
    let (encoding, mark_bytes) = detect(&bytes, &bytes)?;
    if encoding == UTF_8 && mark_bytes == 0 {
        return String::from_utf8(bytes).map_err(|_| Problem::Encoding { encoding: "UTF-8" });
    }
    encoding
        .decode_without_bom_handling_and_without_replacement(&bytes[mark_bytes..])
        .map(|text| text.into_owned())
        .ok_or(Problem::Encoding { encoding: encoding.name() })
}

/// Converts `stream` to UTF-8. The encoding is detected from the beginning. A stream that begins as
/// UTF-8 is passed on unchanged, so the reader must expect invalid bytes later in it.
pub(crate) fn utf8_stream(
    mut stream: Box<dyn Read + Send>,
) -> Result<Box<dyn Read + Send>, Problem> {
    let mut sample = Vec::new();
    stream.by_ref().take(SAMPLE_BYTES as u64).read_to_end(&mut sample)?;
    let (encoding, mark_bytes) = detect(&sample, without_cut_character(&sample))?;
    sample.drain(..mark_bytes);
    let whole = io::Cursor::new(sample).chain(stream);
    if encoding == UTF_8 {
        return Ok(Box::new(whole));
    }
    Ok(Box::new(Transcoder {
        input: BufReader::new(whole),
        decoder: encoding.new_decoder_without_bom_handling(),
        output: String::with_capacity(SAMPLE_BYTES),
        taken: 0,
        is_done: false,
    }))
}

/// Returns the encoding of text that begins with `bytes`, and the length of its byte order mark.
/// `whole` is the part of `bytes` that can be checked for UTF-8, without a character cut at the
/// end.
fn detect(bytes: &[u8], whole: &[u8]) -> Result<(&'static Encoding, usize), Problem> {
    if let Some(found) = Encoding::for_bom(bytes) {
        return Ok(found);
    }
    if is_binary(bytes) {
        return Err(Problem::Binary);
    }
    if std::str::from_utf8(whole).is_ok() {
        return Ok((UTF_8, 0));
    }
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Allow);
    detector.feed(bytes, true);
    Ok((detector.guess(None, Utf8Detection::Deny), 0))
}

/// Returns whether `bytes` are not text: text contains no NUL, and at most 1 % other control
/// characters. UTF-16 and UTF-32 without a byte order mark count as binary: asking for a mark is
/// safer than guessing.
fn is_binary(bytes: &[u8]) -> bool {
    let is_control = |b: &&u8| **b < 0x20 && !matches!(**b, b'\t' | b'\n' | b'\r' | 0x0c | 0x1b);
    bytes.contains(&0) || bytes.iter().filter(is_control).count() * 100 > bytes.len()
}

/// Returns `bytes` without an incomplete character, of up to three bytes, at the end.
fn without_cut_character(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => &bytes[..error.valid_up_to()],
        _ => bytes,
    }
}

/// A reader that decodes a stream as it is read.
struct Transcoder<R> {
    input: BufReader<R>,
    decoder: Decoder,
    output: String,
    /// Number of bytes of `output` that were already read.
    taken: usize,
    is_done: bool,
}

impl<R: Read> Transcoder<R> {
    fn refill(&mut self) -> io::Result<()> {
        self.output.clear();
        self.taken = 0;
        while self.output.is_empty() && !self.is_done {
            let input = self.input.fill_buf()?;
            let is_last = input.is_empty();
            let (result, read, had_errors) =
                self.decoder.decode_to_string(input, &mut self.output, is_last);
            if had_errors {
                let message =
                    format!("bytes that are not valid in {}", self.decoder.encoding().name());
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
            self.input.consume(read);
            self.is_done = is_last && result == CoderResult::InputEmpty;
        }
        Ok(())
    }
}

impl<R: Read> Read for Transcoder<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.output.len() {
            self.refill()?;
        }
        let ready = &self.output.as_bytes()[self.taken..];
        let length = ready.len().min(buffer.len());
        buffer[..length].copy_from_slice(&ready[..length]);
        self.taken += length;
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JAPANESE: &str = "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。";
    const FRENCH: &str = "Le cœur a ses raisons que la raison ne connaît point; déjà vu à l’été.";

    fn streamed(bytes: &[u8]) -> io::Result<String> {
        let mut text = String::new();
        let stream = Box::new(io::Cursor::new(bytes.to_vec()));
        utf8_stream(stream).unwrap().read_to_string(&mut text)?;
        Ok(text)
    }

    fn utf16(text: &str, mark: [u8; 2], bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
        mark.into_iter().chain(text.encode_utf16().flat_map(bytes)).collect()
    }

    #[test]
    fn encodings_are_told_apart() {
        let cases = [
            (JAPANESE, JAPANESE.as_bytes().to_vec()),
            (FRENCH, [b"\xef\xbb\xbf", FRENCH.as_bytes()].concat()),
            (JAPANESE, utf16(JAPANESE, [0xff, 0xfe], u16::to_le_bytes)),
            (JAPANESE, utf16(JAPANESE, [0xfe, 0xff], u16::to_be_bytes)),
            (JAPANESE, encoding_rs::SHIFT_JIS.encode(JAPANESE).0.into_owned()),
            (FRENCH, encoding_rs::WINDOWS_1252.encode(FRENCH).0.into_owned()),
        ];
        for (expected, bytes) in cases {
            assert_eq!(decode(bytes.clone()).unwrap(), expected);
            assert_eq!(streamed(&bytes).unwrap(), expected);
        }
    }

    #[test]
    fn long_streams_are_decoded_in_parts() {
        let text = FRENCH.repeat(3000);
        let legacy = encoding_rs::WINDOWS_1252.encode(&text).0.into_owned();
        assert_eq!(streamed(&legacy).unwrap(), text);
        // The sample ends inside a character.
        let text = format!("a{}", JAPANESE.repeat(3000));
        assert_eq!(streamed(text.as_bytes()).unwrap(), text);
    }

    #[test]
    fn what_is_not_text_is_refused() {
        assert!(matches!(decode(b"\x7fELF\x02\x01\x01\0\0".to_vec()), Err(Problem::Binary)));
        assert!(matches!(decode(vec![1, 2, 3, 0xff, 0xfe]), Err(Problem::Binary)));
        let broken = [0xff, 0xfe, 0x00, 0xd8, 0x41, 0x00].to_vec();
        assert!(matches!(decode(broken), Err(Problem::Encoding { .. })));
    }
}
