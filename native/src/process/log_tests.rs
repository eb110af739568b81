//! What the model of the log does not say: how much is kept, and what is given back.

use std::sync::Arc;

use super::log::{Log, Next, Sizes, Stream};
use super::log_model_tests::{AHEAD, MS, SECOND, SIZES, move_parts};
use super::store::Store;

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
