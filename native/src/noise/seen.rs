//! First messages that were taken already.

use std::collections::{HashSet, VecDeque};

/// So many are remembered: 400 KiB at most.
const REMEMBERED: usize = 16_384;

/// The clients' ephemeral keys of late. A first message can be recorded and sent again, and proves
/// nothing then: under the empty prologue it would have the guest dialled. Only messages that could
/// be read come here, so nobody but the client can make it forget.
///
/// Invariant: `order` holds the elements of `keys`, oldest first.
#[derive(Default)]
pub struct Seen {
    keys: HashSet<u64>,
    order: VecDeque<u64>,
}

impl Seen {
    /// Whether a first message comes for the first time, as far as is remembered.
    pub fn is_new(&mut self, first: &[u8]) -> bool {
        // It begins with the ephemeral key. Eight bytes of a random one do: they are the client's.
        let Some((key, _)) = first.split_first_chunk() else {
            return false;
        };
        let key = u64::from_le_bytes(*key);
        if !self.keys.insert(key) {
            return false;
        }
        self.order.push_back(key);
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.keys.remove(&oldest);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_new_once_and_only_the_oldest_are_forgotten() {
        let mut seen = Seen::default();
        let message = |number: usize| (number as u64).to_le_bytes();
        assert!((0..REMEMBERED).all(|number| seen.is_new(&message(number))));
        assert!((0..REMEMBERED).all(|number| !seen.is_new(&message(number))));
        assert!(seen.is_new(&message(REMEMBERED)));
        assert!(!seen.is_new(&message(1)));
        assert!(seen.is_new(&message(0)));
        assert_eq!(seen.keys.len(), REMEMBERED);
        assert!(!seen.is_new(b"short"));
    }
}
