//! Values of chat memory: its settings, turns and their documents, designs of keys, and recalls.

pub(crate) mod kept;
pub(crate) mod key_design;
pub(crate) mod recalled;
pub(crate) mod settings;
pub(crate) mod statement;
pub(crate) mod turn;
