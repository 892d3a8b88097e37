//! Slot table of a Redis Cluster: which server has which keys.

use redis::Value;

use super::address::Place;

/// Number of slots that the keys of a cluster are divided into.
const SLOTS: u16 = 16_384;

/// Returns the slot of a key. Only the text between the first `{` and the next `}` is hashed, or
/// the whole key if there is no such text.
pub(crate) fn slot_of(key: &str) -> u16 {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
    crc16(tag.filter(|tag| !tag.is_empty()).unwrap_or(key).as_bytes()) % SLOTS
}

/// Computes CRC-16/XMODEM, as the Redis Cluster specification requires.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc: u16, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| match crc & 0x8000 {
            0 => crc << 1,
            _ => (crc << 1) ^ 0x1021,
        })
    })
}

/// The ranges of slots and the master of each, as one of the servers reported them.
#[derive(Debug, Default)]
pub(crate) struct Slots(Vec<(u16, u16, Place)>);

impl Slots {
    /// Parses the reply of the server at `asked` to `CLUSTER SLOTS`. Entries that cannot be parsed
    /// are skipped.
    pub(crate) fn read(reply: &Value, asked: &Place) -> Self {
        let Value::Array(ranges) = reply else { return Self::default() };
        let range = |range: &Value| {
            let Value::Array(parts) = range else { return None };
            let [first, last, Value::Array(master), ..] = parts.as_slice() else { return None };
            let [host, port, ..] = master.as_slice() else { return None };
            let slot = |value: &Value| redis::from_redis_value::<u16>(value.clone()).ok();
            // Without a host, the entry means the server that was asked.
            let host = redis::from_redis_value::<Option<String>>(host.clone()).ok()?;
            let place = placed(&host.unwrap_or_default(), slot(port)?, asked)?;
            Some((slot(first)?, slot(last)?, place))
        };
        Self(ranges.iter().filter_map(range).collect())
    }

    /// Returns the master that has the slot.
    pub(crate) fn owner(&self, slot: u16) -> Option<&Place> {
        let owns = |(first, last, _): &&(u16, u16, Place)| (*first..=*last).contains(&slot);
        self.0.iter().find(owns).map(|(_, _, place)| place)
    }

    /// Records that a slot moved.
    pub(crate) fn moved(&mut self, slot: u16, to: Place) {
        // The first matching entry wins. The whole table is read again after the next failure.
        self.0.retain(|(first, last, _)| (*first, *last) != (slot, slot));
        self.0.insert(0, (slot, slot, to));
    }

    /// Returns all masters, each once.
    pub(crate) fn masters(&self) -> Vec<Place> {
        let mut places: Vec<Place> = self.0.iter().map(|(_, _, place)| place.clone()).collect();
        places.sort();
        places.dedup();
        places
    }
}

/// Parses the target `SLOT HOST:PORT` of a redirection that the server at `asked` sent.
pub(crate) fn redirection(told: &str, asked: &Place) -> Option<(u16, Place)> {
    let (slot, place) = told.split_once(' ')?;
    let (host, port) = place.split_ascii_whitespace().next()?.rsplit_once(':')?;
    Some((slot.parse().ok()?, placed(host, port.parse().ok()?, asked)?))
}

fn placed(host: &str, port: u16, asked: &Place) -> Option<Place> {
    match (host, asked) {
        ("" | "?", Place::Tcp(asked, _)) => Some(Place::Tcp(asked.clone(), port)),
        ("" | "?", Place::Unix(_)) => None,
        (host, _) => Some(Place::Tcp(host.to_owned(), port)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(host: &str, port: u16) -> Place {
        Place::Tcp(host.to_owned(), port)
    }

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot_of("foo"), 12_182);
        assert_eq!(slot_of("{user1000}.following"), slot_of("{user1000}.followers"));
        assert_eq!(slot_of("foo{bar}{zap}"), slot_of("bar"));
        assert_eq!(slot_of("foo{{bar}}zap"), slot_of("{bar"));
        assert_ne!(slot_of("foo{}{bar}"), slot_of("bar"));
    }

    #[test]
    fn a_table_is_read_and_follows_what_moved() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let master = |host: Value, port| Value::Array(vec![host, Value::Int(port), text("id")]);
        let reply = Value::Array(vec![
            Value::Array(vec![
                Value::Int(0),
                Value::Int(99),
                master(text("a"), 1),
                master(text("c"), 3),
            ]),
            Value::Array(vec![Value::Int(100), Value::Int(16_383), master(Value::Nil, 2)]),
            Value::Int(7),
        ]);
        let mut slots = Slots::read(&reply, &place("asked", 9));
        assert_eq!(slots.owner(99), Some(&place("a", 1)));
        assert_eq!(slots.owner(100), Some(&place("asked", 2)));
        assert_eq!(slots.masters(), [place("a", 1), place("asked", 2)]);
        let (slot, to) = redirection("99 b:6381", &place("a", 1)).unwrap();
        slots.moved(slot, to);
        assert_eq!(
            (slots.owner(99), slots.owner(98)),
            (Some(&place("b", 6381)), Some(&place("a", 1)))
        );
        assert_eq!(redirection("7 :6381", &place("a", 1)), Some((7, place("a", 6381))));
        assert_eq!(redirection("7", &place("a", 1)), None);
    }
}
