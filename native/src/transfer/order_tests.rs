//! What a transfer makes of its orders.
#![allow(unsafe_code)]

use super::*;
use crate::file::failure::CANCELLED;
use crate::file::testing::TempDir;
use crate::wake::EVENT_SIZE;
use std::collections::BTreeMap;

/// Transfers, and the results of their operations by token.
struct House {
    transfers: Transfers,
    wake: Arc<Wake>,
    ended: BTreeMap<u32, (i32, i64)>,
}

impl House {
    fn new() -> Self {
        let wake = Arc::new(Wake::default());
        Self {
            transfers: Transfers::new(Arc::clone(&wake)),
            wake,
            ended: BTreeMap::new(),
        }
    }

    /// Status and value with which `token` ends.
    fn end_of(&mut self, token: u32) -> (i32, i64) {
        while !self.ended.contains_key(&token) {
            let mut out = [0; EVENT_SIZE * 8];
            let count = self.wake.wait(&mut out).unwrap();
            for event in out.chunks_exact(EVENT_SIZE).take(count) {
                let word = |at: usize| u32::from_le_bytes(event[at..at + 4].try_into().unwrap());
                let value = i64::from_le_bytes(event[16..24].try_into().unwrap());
                assert_eq!(self.ended.insert(word(4), (word(8) as i32, value)), None);
            }
        }
        self.ended[&token]
    }

    fn carry(&self, handle: u32, bytes: &mut [u8], token: u32) -> bool {
        // SAFETY: every test keeps its buffers until `token` has ended.
        let buffer = unsafe { Lent::new(bytes.as_mut_ptr(), bytes.len() as u32) };
        self.transfers.carry(handle, buffer, token)
    }
}

#[test]
fn a_closed_transfer_drops_what_has_not_begun_and_ends_a_search() {
    let (mut house, dir) = (House::new(), TempDir::make());
    let path = dir.path().join("endless");
    std::fs::File::create(&path)
        .unwrap()
        .set_len(1 << 42)
        .unwrap();
    let handle = house.transfers.read_file(path, (2, 2), 1);
    let mut buffers = [[0; 3]; 2];
    for (at, buffer) in buffers.iter_mut().enumerate() {
        assert!(house.carry(handle, buffer, 2 + at as u32));
    }
    assert_eq!(house.end_of(1), (0, 0));
    assert!(house.transfers.close(handle, 4));
    let ends = [2, 3].map(|token| house.end_of(token).0);
    assert!(ends[0] == CANCELLED || ends[0] == libc::EAGAIN, "{ends:?}");
    assert_eq!(ends[1], libc::EAGAIN);
    assert_eq!(house.end_of(4), (0, 0));
}
