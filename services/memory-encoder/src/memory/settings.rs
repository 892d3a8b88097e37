//! Settings of a memory model's thread.

/// Settings of the thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub draft_tokens: usize,
    pub slot_bytes: u64,
}

impl Settings {
    /// Returns the size in bytes of a memory that is ready, whose rotated keys are kept as well.
    pub fn ready_bytes(&self, slots: usize) -> u64 {
        clew_core::ready_bytes(slots as u64, self.slot_bytes)
    }
}
