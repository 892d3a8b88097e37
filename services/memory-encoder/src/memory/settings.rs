//! What the thread of a memory model goes by.

/// Its numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub draft_tokens: usize,
    pub slot_bytes: u64,
}

impl Settings {
    /// Bytes of a memory that is ready: its keys are kept turned as well.
    pub fn ready_bytes(&self, slots: usize) -> u64 {
        let slots = slots as u64 * self.slot_bytes;
        slots + slots / 2
    }
}
