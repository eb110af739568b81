//! The log beside a model of it: random writers, readers and stalls, and a store that moves it away.

use std::collections::HashMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::chunks::CHUNK_BYTES;
use super::log::{Log, Moving, Next, Sizes, Stream};
use super::store::Store;

const WINDOW: u64 = 512;
const CAPTURE: u64 = 700;
pub const AHEAD: u64 = 600;
const BEHIND: u64 = 900;
pub const SIZES: Sizes = Sizes {
    capture: CAPTURE,
    window: WINDOW,
    ahead: AHEAD,
    behind: BEHIND,
};
const READERS: u32 = 4;
pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1000 * MS;

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
                // While it took nothing, what it had taken before was kept for nobody.
                seat.first = if seat.stuck { offset } else { seat.first };
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
pub fn move_parts(log: &mut Log, store: &Arc<Store>, count: usize) -> Vec<Moving> {
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
