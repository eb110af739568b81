//! The log beside a model of it (random writers, readers and stalls, and a store that moves it away), and what the
//! model does not say: how much is kept, and what is given back.

use std::collections::HashMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::log::{Log, Moving, Next, Sizes, Stream};
use super::store::Store;

const WINDOW: u64 = 512;
const LAG: u64 = 1500;
const CAPTURE: u64 = 700;
const SIZES: Sizes = Sizes {
    capture: CAPTURE,
    window: WINDOW,
    lag: LAG,
};
const READERS: u32 = 4;

#[derive(Clone, Debug)]
enum Action {
    Push(bool, usize),
    Attach(u32, u64),
    Read(u32, usize),
    Detach(u32),
    Move(usize),
    End,
    Release,
}

fn action() -> impl Strategy<Value = Action> {
    let reader = 0..READERS;
    prop_oneof![
        6 => (any::<bool>(), 0usize..400).prop_map(|(err, size)| Action::Push(err, size)),
        3 => (reader.clone(), 0u64..3000).prop_map(|(id, offset)| Action::Attach(id, offset)),
        8 => (reader.clone(), 1usize..600).prop_map(|(id, room)| Action::Read(id, room)),
        2 => reader.prop_map(Action::Detach),
        2 => (0usize..4).prop_map(Action::Move),
        1 => Just(Action::End),
        1 => Just(Action::Release),
    ]
}

/// A reader as the model has it.
struct Seat {
    cursor: u64,
    /// It found nothing and is to be told, once, when there is something at its cursor.
    waiting: bool,
    /// Its first look may find a gap; after that what it has not read is kept for it, up to `LAG`.
    looked: bool,
}

/// Everything that was ever written, and who reads it.
#[derive(Default)]
struct Model {
    bytes: Vec<(Stream, u8)>,
    seats: HashMap<u32, Seat>,
    ended: bool,
    released: bool,
    /// Nothing before this can be read any more: it was seen to be gone, or nobody kept it.
    gone: u64,
}

impl Model {
    fn end(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn captured(&self, stream: Stream) -> Vec<u8> {
        let of = self.bytes.iter().filter(|(of, _)| *of == stream);
        of.map(|(_, byte)| *byte).take(CAPTURE as usize).collect()
    }

    /// Who must be told now.
    fn told(&mut self) -> Vec<u32> {
        let (end, ended) = (self.end(), self.ended);
        let mut told: Vec<u32> = Vec::new();
        for (id, seat) in &mut self.seats {
            if seat.waiting && (ended || seat.cursor < end) {
                seat.waiting = false;
                told.push(*id);
            }
        }
        told.sort_unstable();
        told
    }

    /// Compares what a reader got with what it should.
    fn check(&mut self, id: u32, next: &Next, out: &[u8]) -> Result<(), TestCaseError> {
        let (end, ended, released) = (self.end(), self.ended, self.released);
        let seat = self.seats.get_mut(&id).expect("it is attached");
        let first = !std::mem::replace(&mut seat.looked, true);
        match *next {
            Next::Output(stream, offset, count) => {
                prop_assert_eq!(offset, seat.cursor);
                prop_assert!(count > 0 && offset + count as u64 <= end && offset >= self.gone);
                let written = &self.bytes[offset as usize..offset as usize + count];
                let read: Vec<(Stream, u8)> = out[..count].iter().map(|b| (stream, *b)).collect();
                prop_assert_eq!(&read[..], written);
                seat.cursor += count as u64;
            }
            Next::Gap(from, to) => {
                prop_assert_eq!(from, seat.cursor);
                prop_assert!(from < to && to <= end);
                // Nothing is released while somebody reads.
                let kept = if first { WINDOW } else { LAG };
                prop_assert!(
                    first && released || to <= end.saturating_sub(kept),
                    "kept for it"
                );
                self.gone = self.gone.max(to);
                seat.cursor = to;
            }
            Next::Nothing => {
                prop_assert!(!ended && seat.cursor >= end);
                seat.waiting = true;
            }
            Next::End => prop_assert!(ended && seat.cursor >= end),
        }
        Ok(())
    }
}

/// Moves up to `count` parts to the store's file, as the spooler does.
fn move_parts(log: &mut Log, store: &Arc<Store>, count: usize) -> Vec<Moving> {
    let mut scratch = Vec::new();
    let mut moved = Vec::new();
    while moved.len() < count {
        let Some(part) = log.copy_movable(&mut scratch) else {
            break;
        };
        log.moved(part, store.put(&scratch).unwrap());
        moved.push(part);
    }
    moved
}

proptest! {
    #[test]
    fn readers_get_what_was_written_and_gaps_only_for_what_is_gone(
        actions in prop::collection::vec(action(), 1..120),
    ) {
        let store = Store::new(u64::MAX, &std::env::temp_dir());
        let mut log = Log::new(SIZES, &store);
        let mut model = Model::default();
        let mut out = vec![0; 600];
        for action in actions {
            let mut told = Vec::new();
            match action {
                Action::Push(err, size) => {
                    let stream = if err { Stream::Stderr } else { Stream::Stdout };
                    let from = model.bytes.len();
                    let bytes: Vec<u8> = (from..from + size).map(|at| (at % 251) as u8).collect();
                    log.push(stream, &bytes, |id| told.push(id));
                    if !model.ended {
                        model.bytes.extend(bytes.iter().map(|byte| (stream, *byte)));
                    }
                }
                Action::Attach(id, offset) if !model.seats.contains_key(&id) => {
                    log.attach(id, offset);
                    let (cursor, waiting, looked) = (offset, false, false);
                    model.seats.insert(id, Seat { cursor, waiting, looked });
                }
                Action::Read(id, room) if model.seats.contains_key(&id) => {
                    let next = log.next(id, &mut out[..room]);
                    model.check(id, &next, &out)?;
                }
                Action::Detach(id) => {
                    log.detach(id);
                    model.seats.remove(&id);
                }
                Action::Move(count) => {
                    move_parts(&mut log, &store, count);
                }
                Action::End => {
                    model.ended = true;
                    log.end(|id| told.push(id));
                }
                Action::Release if model.ended => {
                    model.released = true;
                    log.release();
                }
                _ => {}
            }
            told.sort_unstable();
            prop_assert_eq!(told, model.told());
            prop_assert_eq!(log.total(), model.end());
            if !model.released {
                for stream in [Stream::Stdout, Stream::Stderr] {
                    let wanted = model.captured(stream);
                    let mut captured = vec![0; CAPTURE as usize];
                    let count = log.read_captured(stream, 0, &mut captured).unwrap();
                    prop_assert_eq!(&captured[..count], &wanted[..]);
                }
            }
        }
    }
}

fn log(store: &Arc<Store>, window: u64) -> Log {
    let sizes = Sizes { window, ..SIZES };
    Log::new(sizes, store)
}

fn store() -> Arc<Store> {
    Store::new(u64::MAX, &std::env::temp_dir())
}

fn push(log: &mut Log, bytes: &[u8]) {
    log.push(Stream::Stdout, bytes, |_| ());
}

#[test]
fn the_window_holds_unread_bytes_for_an_attached_reader_and_no_longer() {
    let mut log = log(&store(), 4);
    log.attach(1, 0);
    push(&mut log, b"abcdefgh");
    assert_eq!(log.next(1, &mut [0; 9]), Next::Output(Stream::Stdout, 0, 8));
    push(&mut log, b"i");
    log.attach(2, 0);
    assert_eq!(log.next(2, &mut [0; 9]), Next::Gap(0, 5));
    push(&mut log, b"jklmnop");
    log.detach(2);
    log.detach(1);
    log.attach(3, 0);
    assert_eq!(log.next(3, &mut [0; 9]), Next::Gap(0, 12));
}

#[test]
fn room_is_counted_for_readers_that_take_bytes() {
    let mut log = log(&store(), 4);
    log.attach(1, 0);
    assert!(log.has_room(LAG));
    assert!(!log.has_room(LAG + 1));
    let cursors = log.cursors();
    log.give_up_on(&cursors);
    assert!(log.has_room(LAG + 1));
    push(&mut log, b"a");
    log.next(1, &mut [0; 1]);
    assert!(!log.has_room(LAG + 1));
}

#[test]
fn an_ended_log_is_moved_whole_reads_as_before_and_is_released() {
    let store = store();
    let mut log = log(&store, 8);
    push(&mut log, b"abcdefghijkl");
    assert_eq!(move_parts(&mut log, &store, 9), Vec::new());
    log.end(|_| ());
    push(&mut log, b"late");
    assert_eq!(move_parts(&mut log, &store, 9).len(), 2);
    assert_eq!((log.movable(), store.used(), log.total()), (0, 0, 12));
    let mut out = [0; 20];
    assert_eq!(log.read_captured(Stream::Stdout, 0, &mut out), Ok(12));
    assert_eq!(&out[..12], b"abcdefghijkl");
    log.attach(1, 0);
    assert_eq!(log.next(1, &mut out), Next::Gap(0, 4));
    log.release();
    assert_eq!(log.captured(Stream::Stdout), 0);
    assert_eq!(log.read_captured(Stream::Stdout, 0, &mut out), Ok(0));
    assert_eq!(log.next(1, &mut out), Next::Output(Stream::Stdout, 4, 8));
    assert_eq!(&out[..8], b"efghijkl");
    assert_eq!(log.next(1, &mut out), Next::End);
    log.detach(1);
    assert_eq!(store.wait().freed.len(), 2);
    log.attach(2, 1);
    assert_eq!(log.next(2, &mut out), Next::Gap(1, 12));
    assert_eq!(log.next(2, &mut out), Next::End);
}
