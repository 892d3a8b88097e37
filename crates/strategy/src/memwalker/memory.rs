//! The working memory of a walk.

use super::limits::MEMORY_BYTES;

/// Texts read on the way, oldest first. The oldest is forgotten first. A text that is longer than
/// the memory keeps its beginning.
#[derive(Debug, Default)]
pub(super) struct Memory {
    texts: Vec<String>,
}

impl Memory {
    pub(super) fn carry(&mut self, text: &str) {
        let text = &text[..text.floor_char_boundary(MEMORY_BYTES)];
        if text.is_empty() {
            return;
        }
        self.texts.push(text.to_owned());
        let mut bytes: usize = self.texts.iter().map(String::len).sum();
        let forgotten = self.texts.iter().take_while(|oldest| {
            let is_too_long = bytes > MEMORY_BYTES;
            bytes -= if is_too_long { oldest.len() } else { 0 };
            is_too_long
        });
        let forgotten = forgotten.count();
        self.texts.drain(..forgotten);
    }

    pub(super) fn texts(&self) -> &[String] {
        &self.texts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_forgotten_first() {
        let mut memory = Memory::default();
        for letter in ["a", "b", "c"] {
            memory.carry(&letter.repeat(MEMORY_BYTES / 2));
        }
        let firsts: Vec<_> = memory.texts().iter().map(|text| &text[..1]).collect();
        assert_eq!(firsts, ["b", "c"]);
    }

    #[test]
    fn a_text_longer_than_the_memory_keeps_its_beginning() {
        let mut memory = Memory::default();
        memory.carry("before");
        memory.carry("");
        memory.carry(&format!("x{}", "é".repeat(MEMORY_BYTES)));
        assert_eq!(memory.texts().len(), 1);
        assert_eq!(memory.texts()[0].len(), MEMORY_BYTES - 1);
    }
}
