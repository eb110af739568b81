//! The log beside a model of it (random writers, readers and stalls, and a store that moves it away), and what the
//! model does not say: how much is kept, and what is given back.

use std::collections::HashMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::chunks::CHUNK_BYTES;
use super::log::{Log, Moving, Next, Sizes, Stream};
use super::store::Store;

const WINDOW: u64 = 512;
const CAPTURE: u64 = 700;
const AHEAD: u64 = 600;
const BEHIND: u64 = 900;
const SIZES: Sizes = Sizes {
    capture: CAPTURE,
    window: WINDOW,
    ahead: AHEAD,
    behind: BEHIND,
};
const READERS: u32 = 4;
const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;

#[derive(Clone, Debug)]
enum Action {
    Push(bool, usize),
    Attach(u32, u64),
    Return(u32, u64),
    Read(u32, usize),
    Detach(u32),
    Wait(u64),
    Move(usize),
    Flow,
    End,
    Release,
}

fn action() -> impl Strategy<Value = Action> {
    let reader = 0..READERS;
    prop_oneof![
        9 => (any::<bool>(), 0usize..400).prop_map(|(err, size)| Action::Push(err, size)),
        3 => (reader.clone(), 0u64..3000).prop_map(|(id, offset)| Action::Attach(id, offset)),
        2 => (reader.clone(), 0u64..BEHIND).prop_map(|(id, back)| Action::Return(id, back)),
        9 => (reader.clone(), 1usize..600).prop_map(|(id, room)| Action::Read(id, room)),
        3 => reader.prop_map(Action::Detach),
        3 => prop_oneof![1..99u64, 100..2000u64].prop_map(|ms| Action::Wait(ms * MS)),
        2 => (0usize..4).prop_map(Action::Move),
        1 => Just(Action::Flow),
        1 => Just(Action::End),
        1 => Just(Action::Release),
    ]
}

/// A reader as the model has it.
#[derive(Clone)]
struct Seat {
    /// What it asked for first, but for what was gone by then.
    first: u64,
    cursor: u64,
    /// It found nothing and is to be told, once, when there is something at its cursor.
    waiting: bool,
    /// Its first look may find a gap; after that none, unless it was `stuck`.
    looked: bool,
    /// Since when there is something that it has not taken.
    since: u64,
    /// For longer than a second, when more was written.
    stuck: bool,
    /// It came back in time: also its first look finds all.
    in_time: bool,
}

/// Everything that was ever written, and who reads it.
#[derive(Default)]
struct Model {
    now: u64,
    bytes: Vec<(Stream, u8)>,
    seats: HashMap<u32, Seat>,
    /// Who left last, unless somebody came since.
    lost: Option<Seat>,
    /// When somebody left last; at first, the start.
    left: u64,
    flows: bool,
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

    fn attach(&mut self, id: u32, offset: u64) {
        let in_time = self.lost.take().is_some_and(|seat| {
            let back = self.expects() && !self.flows && !self.released;
            let reach = seat.cursor.saturating_sub(BEHIND).max(seat.first);
            back && seat.looked && !seat.stuck && (reach..=seat.cursor).contains(&offset)
        });
        let seat = Seat {
            first: offset,
            cursor: offset,
            waiting: false,
            looked: false,
            since: self.now,
            stuck: self.flows,
            in_time,
        };
        self.seats.insert(id, seat);
    }

    /// Whether the first reader is expected, or one that left.
    fn expects(&self) -> bool {
        self.now < self.left + 100 * MS
    }

    /// Whether somebody may be waited for before more is written up to `end`.
    fn may_hold(&self, end: u64) -> bool {
        // What is taken here needs a few milliseconds at 1 MiB a second.
        let keeps_up = |seat: &Seat| self.now < seat.since + SECOND + 20 * MS;
        let mut seats = self.seats.values();
        let held = seats.any(|seat| seat.cursor + AHEAD < end && keeps_up(seat));
        !self.flows && (held || self.expects())
    }

    /// What is kept is looked at: whoever left something is late if it was for too long.
    fn look(&mut self) {
        let (end, now) = (self.end(), self.now);
        for seat in self.seats.values_mut() {
            if seat.cursor >= end {
                seat.since = now;
            }
            seat.stuck |= self.flows || now >= seat.since + SECOND;
        }
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
                (seat.since, seat.stuck) = (self.now, false);
            }
            Next::Gap(from, to) => {
                prop_assert_eq!(from, seat.cursor);
                prop_assert!(from < to && to <= end);
                // Nothing is released while somebody reads.
                let whole = first && released || to <= end.saturating_sub(WINDOW);
                prop_assert!(whole, "the window is for everybody");
                prop_assert!(first || seat.stuck, "kept for who keeps up");
                prop_assert!(!seat.in_time || seat.stuck, "kept for who comes back");
                self.gone = self.gone.max(to);
                (seat.first, seat.cursor) = (to, to);
                (seat.since, seat.stuck, seat.in_time) = (self.now, false, false);
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
        let mut log = Log::new(SIZES, &store, 0);
        let mut model = Model::default();
        let mut out = vec![0; 600];
        for action in actions {
            model.look();
            let mut told = Vec::new();
            match action {
                Action::Push(err, size) => {
                    let stream = if err { Stream::Stderr } else { Stream::Stdout };
                    let from = model.bytes.len();
                    if !model.ended && log.waits(size as u64, model.now) != [None; 3] {
                        prop_assert!(model.may_hold((from + size) as u64), "held for nobody");
                        continue;
                    }
                    let bytes: Vec<u8> = (from..from + size).map(|at| (at % 251) as u8).collect();
                    log.push(stream, &bytes, model.now, |id| told.push(id));
                    if !model.ended {
                        model.bytes.extend(bytes.iter().map(|byte| (stream, *byte)));
                    }
                }
                Action::Attach(id, offset) if !model.seats.contains_key(&(id + 1)) => {
                    log.attach(id + 1, offset, model.now);
                    model.attach(id + 1, offset);
                }
                Action::Return(id, back) if !model.seats.contains_key(&(id + 1)) => {
                    let last = model.lost.as_ref().map_or(model.end(), |seat| seat.cursor);
                    log.attach(id + 1, last.saturating_sub(back), model.now);
                    model.attach(id + 1, last.saturating_sub(back));
                }
                Action::Read(id, room) if model.seats.contains_key(&(id + 1)) => {
                    let next = log.next(id + 1, &mut out[..room], model.now);
                    model.check(id + 1, &next, &out)?;
                }
                Action::Detach(id) => {
                    if let Some(seat) = model.seats.remove(&(id + 1)) {
                        log.detach(id + 1, model.now);
                        (model.lost, model.left) = (Some(seat), model.now);
                    }
                }
                Action::Wait(ns) => {
                    model.now += ns;
                    log.expire(model.now);
                }
                Action::Flow => (log.flows, model.flows) = (true, true),
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
            // Two captures, and of the window what begins and ends in the midst of a part.
            let most = BEHIND + AHEAD * if model.flows { 4 } else { 1 };
            prop_assert!(store.used() <= most + 5 * CHUNK_BYTES as u64, "{}", store.used());
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
    Log::new(sizes, store, 0)
}

fn store() -> Arc<Store> {
    Store::new(u64::MAX, &std::env::temp_dir())
}

fn push(log: &mut Log, bytes: &[u8]) {
    log.push(Stream::Stdout, bytes, 0, |_| ());
}

#[test]
fn what_was_kept_for_a_reader_is_given_back_once_it_is_expected_no_longer() {
    let mut log = log(&store(), 4);
    log.attach(1, 0, 0);
    push(&mut log, b"abcdefgh");
    let (all, late) = (Next::Output(Stream::Stdout, 0, 8), 100 * MS);
    assert_eq!(log.next(1, &mut [0; 9], 0), all);
    assert_eq!(log.detach(1, 0), Some(late));
    log.attach(2, 0, late - 1);
    assert_eq!(log.next(2, &mut [0; 9], late - 1), all);
    assert_eq!(log.detach(2, late), Some(2 * late));
    assert_eq!(log.expire(2 * late), None);
    log.attach(3, 0, 2 * late);
    assert_eq!(log.next(3, &mut [0; 9], 2 * late), Next::Gap(0, 4));
}

#[test]
fn what_was_delivered_last_outlasts_the_end_as_long_as_the_kernel_may_take_for_it() {
    let mut log = log(&store(), 4);
    log.attach(1, 0, 0);
    push(&mut log, &[b'x'; 500]);
    log.end(|_| ());
    let all = Next::Output(Stream::Stdout, 0, 500);
    assert_eq!(log.next(1, &mut [0; 500], 0), all);
    let until = log.detach(1, 0).unwrap();
    assert!(until > SECOND && until < SECOND + MS);
    assert_eq!(log.expire(until - 1), Some(until));
    log.attach(2, 0, until - 1);
    assert_eq!(log.next(2, &mut [0; 500], until - 1), all);
    log.release();
    assert_eq!(log.detach(2, until), None, "who acked has it all");
}

#[test]
fn the_pipes_are_held_back_for_who_keeps_up_and_resumed_with_room_for_half() {
    let mut log = log(&store(), 4);
    log.attach(1, 0, 0);
    assert_eq!(log.waits(AHEAD, 0), [None; 3]);
    assert_eq!(log.waits(AHEAD + 1, 0), [None, Some(SECOND), None]);
    assert_eq!(log.waits(AHEAD + 1, SECOND), [None; 3], "it took nothing");
    push(&mut log, &[b'x'; AHEAD as usize]);
    log.paused = true;
    let mut half = [0; AHEAD as usize / 2];
    log.next(1, &mut half[1..], 0);
    assert!(!log.take_resumption(0));
    log.next(1, &mut half[..1], 0);
    assert!(log.take_resumption(0) && !log.take_resumption(0));
    // What it took in one go, at 1 MiB a second.
    let until = SECOND + AHEAD / 2 * 954;
    assert_eq!(log.waits(AHEAD, 0), [None, Some(until), None]);
    push(&mut log, &[b'x'; AHEAD as usize]);
    // The kernel took nothing for a while and then did: there is a client that reads.
    log.next(1, &mut [0; 1], 100 * MS);
    assert_eq!(log.waits(AHEAD, 100 * MS)[1], None);
    assert!(log.waits(AHEAD, 100 * MS)[0] > Some(SECOND));
    log.detach(1, 0);
    assert_eq!(log.waits(AHEAD, 0), [None, None, Some(100 * MS)]);
    // It received something, for it goes on behind where it began.
    log.attach(1, 1, 0);
    assert!(log.waits(AHEAD, 0)[0].is_some());
    log.flows = true;
    assert_eq!(log.waits(AHEAD, 0), [None; 3]);
}

#[test]
fn when_memory_is_short_only_what_is_not_taken_is_kept_for_a_reader() {
    let store = Store::new(1, &std::env::temp_dir());
    let mut log = log(&store, 4);
    log.attach(1, 0, 0);
    push(&mut log, b"abcdefgh");
    log.next(1, &mut [0; 6], 0);
    push(&mut log, b"ijklmnopqr");
    assert_eq!(
        log.next(1, &mut [0; 20], 0),
        Next::Output(Stream::Stdout, 6, 12)
    );
    log.attach(2, 0, 0);
    assert_eq!(log.next(2, &mut [0; 20], 0), Next::Gap(0, 14));
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
    log.attach(1, 0, 100 * MS);
    assert_eq!(log.next(1, &mut out, 0), Next::Gap(0, 4));
    log.release();
    assert_eq!(log.captured(Stream::Stdout), 0);
    assert_eq!(log.read_captured(Stream::Stdout, 0, &mut out), Ok(0));
    assert_eq!(log.next(1, &mut out, 0), Next::Output(Stream::Stdout, 4, 8));
    assert_eq!(&out[..8], b"efghijkl");
    assert_eq!(log.next(1, &mut out, 0), Next::End);
    log.detach(1, 0);
    assert_eq!(store.wait().freed.len(), 2);
    log.attach(2, 1, 0);
    assert_eq!(log.next(2, &mut out, 0), Next::Gap(1, 12));
    assert_eq!(log.next(2, &mut out, 0), Next::End);
}
