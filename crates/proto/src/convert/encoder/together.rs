//! Conversions of what nodes send each other that read a text together.

use bytes::Bytes;
use clew_core::Error;

use super::parts;
use crate::encoder::v1 as wire;

/// Maximum number of tokens in one message. Each takes at most five bytes.
const TOKENS_AT_ONCE: usize = 200_000;

/// Slots that one pass over a text adds to a memory in one layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerSlots {
    /// Number of the pass, from 0.
    pub pass: u64,
    /// Number of the layer, from 0.
    pub layer: u32,
    /// Keys and values, as the model writes them.
    pub bytes: Bytes,
}

/// Cuts the tokens of a text into messages.
pub fn tokens_to_wire(tokens: &[u32]) -> impl Iterator<Item = wire::TextTokens> {
    tokens.chunks(TOKENS_AT_ONCE).map(|tokens| wire::TextTokens { tokens: tokens.to_vec() })
}

/// Cuts slots into messages without copying them.
pub fn slots_to_wire(slots: LayerSlots) -> impl Iterator<Item = wire::SlotsPart> + Send {
    let LayerSlots { pass, layer, bytes } = slots;
    let all = bytes.len() as u64;
    parts(bytes).map(move |part| wire::SlotsPart { pass, layer, bytes: all, part })
}

/// Slots that arrive in parts.
#[derive(Debug)]
pub struct IncomingSlots {
    most: u64,
    /// Slots of which parts are missing, with the number of all their bytes.
    open: Option<(wire::SlotsPart, Vec<u8>)>,
}

impl IncomingSlots {
    /// Creates the receiver of slots of at most `most` bytes for a pass and layer.
    pub fn new(most: u64) -> Self {
        Self { most, open: None }
    }

    /// Adds a part. Returns the slots with their last part.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`] if the part is too large or does not continue
    /// the parts before it.
    pub fn add(&mut self, part: wire::SlotsPart) -> Result<Option<LayerSlots>, Error> {
        let wire::SlotsPart { pass, layer, bytes: all, part } = part;
        if !(1..=self.most).contains(&all) {
            let problem = format!("expected 1 to {}, got {all}", self.most);
            return Err(Error::invalid("slots.bytes", problem));
        }
        let first = wire::SlotsPart { pass, layer, bytes: all, part: Bytes::new() };
        let (begun, mut bytes) = match self.open.take() {
            Some(open) => open,
            // The announced bytes are few enough to be reserved.
            None => (first.clone(), Vec::with_capacity(usize::try_from(all).unwrap_or(0))),
        };
        let got = bytes.len() as u64 + part.len() as u64;
        if begun != first || part.is_empty() || got > all {
            let problem = format!(
                "expected the next of {} bytes of pass {} in layer {}, got {} of pass {pass} in layer {layer}",
                begun.bytes,
                begun.pass,
                begun.layer,
                part.len()
            );
            return Err(Error::invalid("slots", problem));
        }
        bytes.extend_from_slice(&part);
        if got < all {
            self.open = Some((begun, bytes));
            return Ok(None);
        }
        Ok(Some(LayerSlots { pass, layer, bytes: bytes.into() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(pass: u64, bytes: usize) -> LayerSlots {
        let bytes: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
        LayerSlots { pass, layer: 3, bytes: bytes.into() }
    }

    #[test]
    fn slots_of_several_messages_arrive_whole() {
        let mut incoming = IncomingSlots::new(5 << 20);
        for sent in [slots(0, 1), slots(2, (2 << 20) + 7), slots(1, 1 << 20)] {
            let parts: Vec<wire::SlotsPart> = slots_to_wire(sent.clone()).collect();
            assert_eq!(parts.len(), sent.bytes.len().div_ceil(1 << 20));
            let arrived: Vec<Option<LayerSlots>> =
                parts.into_iter().map(|part| incoming.add(part).unwrap()).collect();
            let (last, before) = arrived.split_last().unwrap();
            assert!(before.iter().all(Option::is_none));
            assert_eq!(last.as_ref(), Some(&sent));
        }
    }

    #[test]
    fn parts_that_do_not_follow_each_other_are_refused() {
        let part = |pass, bytes, part: usize| wire::SlotsPart {
            pass,
            layer: 0,
            bytes,
            part: vec![0; part].into(),
        };
        for (parts, field) in [
            (vec![part(0, 0, 0)], "slots.bytes"),
            (vec![part(0, 101, 1)], "slots.bytes"),
            (vec![part(0, 9, 10)], "slots"),
            (vec![part(0, 9, 0)], "slots"),
            (vec![part(0, 9, 4), part(1, 9, 5)], "slots"),
            (vec![part(0, 9, 4), part(0, 10, 5)], "slots"),
            (vec![part(0, 9, 4), part(0, 9, 6)], "slots"),
        ] {
            let mut incoming = IncomingSlots::new(100);
            let last = parts.into_iter().map(|part| incoming.add(part)).last().unwrap();
            assert_eq!(last.unwrap_err().violations()[0].field, field);
        }
    }

    #[test]
    fn tokens_are_cut_into_messages() {
        let tokens: Vec<u32> = (0..2 * TOKENS_AT_ONCE as u32 + 1).collect();
        let sent: Vec<wire::TextTokens> = tokens_to_wire(&tokens).collect();
        assert_eq!(sent.len(), 3);
        assert_eq!(sent.into_iter().flat_map(|it| it.tokens).collect::<Vec<_>>(), tokens);
    }
}
