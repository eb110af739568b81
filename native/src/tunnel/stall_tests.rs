//! Tunnels of which one end takes nothing, on a clock that the test moves.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, epoll::EventFlags, poll};

use super::context::Context;
use super::relay::{End, Purpose, Relay, STALL_NS, Side};
use crate::wake::Wake;

/// A relay with both its ends, pumped by hand.
struct Bench {
    ctx: Context,
    relay: Relay,
    caller: TcpStream,
    guest: TcpStream,
}

fn pair(listener: &TcpListener) -> (TcpStream, TcpStream) {
    let outer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (outer, listener.accept().unwrap().0)
}

impl Bench {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (caller, ours) = pair(&listener);
        let port = listener.local_addr().unwrap().port();
        let mut relay = Relay::new(1, ours.into(), Purpose::Relay(port), 1);
        let mut ctx = Context::new(Arc::new(Wake::default())).unwrap();
        relay.begin(&mut ctx);
        relay.feed(&[], true, 2, &mut ctx);
        let guest = listener.accept().unwrap().0;
        caller.set_nonblocking(true).unwrap();
        guest.set_nonblocking(true).unwrap();
        let mut bench = Self {
            ctx,
            relay,
            caller,
            guest,
        };
        while bench.turn() {}
        bench
    }

    /// Does what the engine does between two waits; false when nothing was to be done.
    fn turn(&mut self) -> bool {
        let (caller, guest) = self.relay.wants();
        let sides = [
            (&self.relay.caller, caller, false),
            (&self.relay.guest, guest, true),
        ];
        let mut ready = Vec::new();
        for (side, wanted, is_guest) in sides {
            let Some(side) = side.as_ref().filter(|_| !wanted.is_empty()) else {
                continue;
            };
            let wanted = PollFlags::from_bits_retain(wanted.bits() as u16);
            let mut fds = [PollFd::from_borrowed_fd(side.socket.as_fd(), wanted)];
            poll(&mut fds, Some(&Timespec::default())).unwrap();
            let flags = EventFlags::from_bits_retain(u32::from(fds[0].revents().bits()));
            if !flags.is_empty() {
                ready.push((is_guest, flags));
            }
        }
        for &(is_guest, flags) in &ready {
            self.relay.ready(is_guest, flags, &mut self.ctx);
            self.relay.settle(&mut self.ctx);
        }
        !ready.is_empty()
    }

    /// The caller sends until nobody takes any more, or until the guest does not; returns how many
    /// bytes the guest should get. In the second case the end of the caller's stream still arrives.
    fn flood(&mut self, until_full: bool) -> usize {
        let mut frame = vec![0x82, 0xfe, 0xff, 0xff, 0, 0, 0, 0];
        frame.resize(8 + 65_535, b'x');
        let mut sent = 0;
        while until_full || self.relay.may_read_caller() {
            match self.caller.write(&frame[sent % frame.len()..]) {
                Ok(count) => {
                    sent += count;
                    self.turn();
                }
                Err(_) if self.turn() => {}
                Err(_) => break,
            }
        }
        let (whole, rest) = (sent / frame.len(), sent % frame.len());
        whole * 65_535 + rest.saturating_sub(8)
    }

    /// Moves the clock on to the next time that the relay has set itself, and on, until so much has
    /// passed.
    fn pass(&mut self, ns: u64) {
        let until = self.ctx.now + ns;
        while let Some(at) = self.relay.deadline().filter(|&at| at <= until) {
            self.ctx.now = at.max(self.ctx.now);
            self.relay.due(&mut self.ctx);
            self.relay.settle(&mut self.ctx);
            while self.turn() {}
        }
        self.ctx.now = until;
    }

    /// What the guest gets, and whether its stream ends as if it were whole.
    fn drain_guest(&mut self) -> (usize, bool) {
        let (mut heard, mut buffer) = (0, vec![0; 1 << 20]);
        loop {
            match self.guest.read(&mut buffer) {
                Ok(0) => return (heard, true),
                Ok(count) => heard += count,
                Err(error) if error.raw_os_error() == Some(libc::ECONNRESET) => {
                    return (heard, false);
                }
                Err(_) => self.pass(20_000_000),
            }
            while self.turn() {}
        }
    }

    fn is_gone(&self) -> bool {
        self.relay.caller.is_none() && self.relay.guest.is_none()
    }
}

fn reset(stream: &TcpStream) {
    crate::socket::will_reset(stream, true);
}

#[test]
fn a_guest_that_takes_nothing_outlives_its_caller_by_a_minute() {
    for how in ["end", "reset"] {
        let mut bench = Bench::new();
        let sent = bench.flood(how == "reset");
        let old = {
            // Somewhere for the bench to hold in its place.
            let (other, _) = pair(&TcpListener::bind("127.0.0.1:0").unwrap());
            std::mem::replace(&mut bench.caller, other)
        };
        if how == "reset" {
            reset(&old);
        }
        drop(old);
        while bench.turn() {}
        assert!(bench.relay.leaving, "{how}: noticed at once");
        assert!(!bench.turn(), "{how}: and told only once");
        bench.pass(STALL_NS - 1);
        assert!(!bench.is_gone());
        bench.pass(1);
        assert!(bench.is_gone(), "{how}");
        assert_eq!(bench.relay.end, Some(End::CallerGone));
        let (heard, whole) = bench.drain_guest();
        assert!(
            heard < sent && !whole,
            "{how}: what was cut does not look whole"
        );
    }
}

#[test]
fn a_guest_that_takes_something_now_and_then_gets_all_of_a_caller_that_left() {
    let mut bench = Bench::new();
    let sent = bench.flood(false);
    bench.caller.shutdown(Shutdown::Both).unwrap();
    while bench.turn() {}
    let mut heard = 0;
    let mut some = vec![0; 64 << 10];
    for round in 0..3 {
        bench.pass(STALL_NS - 1);
        // Its kernel makes room only for a good part of what it holds.
        let before = bench.relay.guest.as_ref().map(Side::progress);
        while bench.relay.guest.as_ref().map(Side::progress) == before {
            heard += bench
                .guest
                .read(&mut some)
                .unwrap_or_else(|error| panic!("round {round}: {error}"));
            while bench.turn() {}
        }
    }
    let (rest, whole) = bench.drain_guest();
    assert_eq!((heard + rest, whole), (sent, true));
}

#[test]
fn a_guest_that_takes_nothing_of_a_caller_that_closed_is_given_up() {
    let mut bench = Bench::new();
    // Little enough for the kernel to take all of it at once.
    bench
        .caller
        .write_all(&[0x82, 0x81, 0, 0, 0, 0, b'x'])
        .unwrap();
    bench.caller.write_all(&[0x88, 0x80, 0, 0, 0, 0]).unwrap();
    while bench.turn() {}
    assert!(bench.relay.guest.is_some(), "it may still answer");
    bench.pass(STALL_NS);
    assert!(bench.is_gone());
    let mut bench = Bench::new();
    bench.flood(true);
    bench.guest.shutdown(Shutdown::Write).unwrap();
    while bench.turn() {}
    bench.relay.close(1000, "", 3, &mut bench.ctx);
    bench.pass(STALL_NS);
    assert!(bench.is_gone(), "nobody answers the close frame");
    assert!(!bench.drain_guest().1, "what was cut does not look whole");
}

#[test]
fn a_caller_that_takes_nothing_is_not_waited_for_for_ever_once_its_guest_has_ended() {
    let mut bench = Bench::new();
    let block = vec![7; 1 << 20];
    loop {
        match bench.guest.write(&block) {
            Ok(_) => {}
            Err(_) if bench.turn() => {}
            Err(_) => break,
        }
    }
    bench.pass(10 * STALL_NS);
    assert!(
        !bench.is_gone(),
        "while the guest lives a stalled caller is its affair"
    );
    // The end comes behind what waits, which the guest's own kernel holds.
    let mut some = vec![0; 4 << 20];
    let mut take = |bench: &mut Bench| {
        while bench.caller.read(&mut some).is_ok_and(|count| count > 0) {}
        while bench.turn() {}
    };
    bench.guest.shutdown(Shutdown::Write).unwrap();
    while bench.relay.end.is_none() {
        take(&mut bench);
    }
    // Its socket is full again with what nobody reads.
    bench.relay.send_caller(&vec![0; 16 << 20]);
    bench.relay.close(1000, "", 3, &mut bench.ctx);
    bench.pass(STALL_NS / 2);
    assert!(!bench.is_gone());
    take(&mut bench);
    bench.pass(STALL_NS - 1);
    assert!(!bench.is_gone(), "it took something");
    bench.pass(STALL_NS);
    assert!(bench.is_gone());
}

#[test]
fn a_caller_that_is_cut_in_the_midst_of_sending_does_not_look_whole() {
    const FRAME: &[u8] = &[0x82, 0x81, 0, 0, 0, 0, b'x'];
    const SECOND: u64 = 1_000_000_000;
    // What it sends, how long after the close frame, and whether that is all of it.
    let cases = [
        (FRAME, 0, true),
        (&FRAME[..6], 0, false),
        (&[0x02, 0x81, 0, 0, 0, 0, b'x'], 0, false),
        (FRAME, 9 * SECOND / 2, false),
    ];
    for (bytes, after, all) in cases {
        let mut bench = Bench::new();
        bench.guest.shutdown(Shutdown::Write).unwrap();
        while bench.turn() {}
        bench.relay.close(1000, "", 3, &mut bench.ctx);
        bench.pass(after);
        bench.caller.write_all(bytes).unwrap();
        while bench.turn() {}
        bench.pass(5 * SECOND - after);
        assert!(bench.is_gone());
        assert_eq!(bench.drain_guest().1, all, "{bytes:?} after {after} ns");
    }
}
