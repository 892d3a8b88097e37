//! Checks the lengths that an Arrow IPC file states against its actual size.
//!
//! The Arrow reader allocates the stated length before it finds that the bytes are missing; a
//! length of a petabyte would end the process. All other errors are left for the reader to report.

use std::io::{self, Read, Seek, SeekFrom};

use arrow::ipc::reader::read_footer_length;
use arrow::ipc::{Block, root_as_footer, root_as_message};

/// Size, in bytes, of the end of an IPC file: the length of the footer, and the magic bytes.
const TRAILER_BYTES: usize = 10;
/// Marker before a message's length. Files of the oldest writers lack it.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// Returns whether all messages of a stream lie within it.
pub(super) fn stream_holds_messages(input: &mut (impl Read + Seek)) -> io::Result<bool> {
    let size = size(input)?;
    let mut at = 0;
    while let Some(length) = message_length(input, &mut at)? {
        let Some(metadata) = read_within(input, length, size - at)? else { return Ok(false) };
        at += length;
        let Ok(message) = root_as_message(&metadata) else { return Ok(true) };
        match u64::try_from(message.bodyLength()) {
            Ok(body) if body <= size - at => at += body,
            _ => return Ok(false),
        }
        input.seek(SeekFrom::Start(at))?;
    }
    Ok(true)
}

/// Returns whether the footer of a file, and the blocks it names, lie within the file.
pub(super) fn file_holds_blocks(input: &mut (impl Read + Seek)) -> io::Result<bool> {
    let size = size(input)?;
    let Some(before_trailer) = size.checked_sub(TRAILER_BYTES as u64) else { return Ok(false) };
    input.seek(SeekFrom::Start(before_trailer))?;
    let mut trailer = [0; TRAILER_BYTES];
    input.read_exact(&mut trailer)?;
    let Ok(length) = read_footer_length(trailer) else { return Ok(true) };
    let length = length as u64;
    let Some(footer_start) = before_trailer.checked_sub(length) else { return Ok(false) };
    input.seek(SeekFrom::Start(footer_start))?;
    let Some(footer) = read_within(input, length, before_trailer)? else { return Ok(false) };
    let Ok(footer) = root_as_footer(&footer) else { return Ok(true) };
    let blocks = [footer.recordBatches(), footer.dictionaries()];
    Ok(blocks.into_iter().flatten().flatten().all(|block| lies_within(block, size)))
}

fn lies_within(block: &Block, size: u64) -> bool {
    let parts = [block.offset(), i64::from(block.metaDataLength()), block.bodyLength()];
    let end = parts.into_iter().try_fold(0_u64, |end, part| end.checked_add(part.try_into().ok()?));
    end.is_some_and(|end| end <= size)
}

/// Returns the length of the next message's metadata. Returns `None` at the end, or where the
/// reader will stop.
fn message_length(input: &mut impl Read, at: &mut u64) -> io::Result<Option<u64>> {
    for _ in 0..2 {
        let mut length = [0; 4];
        match input.read_exact(&mut length) {
            Ok(()) => *at += 4,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
        if length != CONTINUATION {
            let length = u64::try_from(i32::from_le_bytes(length)).unwrap_or(0);
            return Ok(Some(length).filter(|&length| length > 0));
        }
    }
    Ok(None)
}

/// Reads the next `length` bytes. Returns `None` if `length` exceeds `left`.
fn read_within(input: &mut impl Read, length: u64, left: u64) -> io::Result<Option<Vec<u8>>> {
    if length > left {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    input.take(length).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

fn size(input: &mut impl Seek) -> io::Result<u64> {
    let size = input.seek(SeekFrom::End(0))?;
    input.seek(SeekFrom::Start(0))?;
    Ok(size)
}
