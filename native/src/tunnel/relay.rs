//! One tunnel: its two connections and what is known of them.
//!
//! The other sides of the same relay are `upward`, `downward` and `ending`.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use super::context::Context;
use super::frames::Parser;
use super::noise::{Keys, MESSAGE_BYTES, Session};
use super::outbox::Outbox;
use super::socket;

/// From the beginning of a handshake until it is given up, in nanoseconds.
const HANDSHAKE_NS: u64 = 5_000_000_000;
/// Once the caller has left, a guest that takes nothing for so long is given up, and so is a caller
/// that takes nothing of what it is sent behind the guest's end; in nanoseconds.
pub(super) const STALL_NS: u64 = 60_000_000_000;
/// How often it is looked whether the guest has got all before its reset, in nanoseconds.
pub(super) const LOOK_NS: u64 = 10_000_000;

/// From the beginning of a dial until it is given up, in nanoseconds.
const DIAL_NS: u64 = 2_000_000_000;

/// Why a tunnel ends, as the caller of this module is told: first of all reasons, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum End {
    /// [`Relay::close`] was called before anything else happened.
    Stopped = 1,
    /// The guest ended its stream; all of it is sent or waits to be.
    GuestEnded = 2,
    /// The caller closed; it was answered.
    CallerClosed = 3,
    /// The caller is gone without a word.
    CallerGone = 4,
    /// The dial failed; the value is the errno.
    DialFailed = 5,
    /// The guest's connection failed; the value is the errno.
    GuestFailed = 6,
    /// The handshake was not the caller's, or not in time.
    HandshakeRefused = 7,
    /// A message after the handshake could not be read.
    MessageBroken = 8,
    /// The caller's bytes are no WebSocket frames.
    FrameBroken = 9,
}

/// What the tunnel is made for.
pub enum Purpose {
    /// To relay to this port.
    Relay(u16),
    /// To relay to this port, once the caller has proven itself.
    Prove(u16, Arc<Keys>),
    /// To tell the caller why it is not served.
    Refuse,
}

/// How far the tunnel is.
pub(super) enum Stage {
    Handshake(Arc<Keys>),
    Confirm,
    Dialling,
    Relaying,
    /// Nothing will be relayed, or nothing more.
    Over,
}

/// What becomes of the caller's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Upward {
    /// They go to the guest.
    Relayed,
    /// They are read for a close frame only.
    Dropped,
    /// They cannot be told from each other any more; bytes are dropped.
    Blind,
    /// None will come.
    Ended,
}

/// What becomes of the guest's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Downward {
    Relayed,
    Dropped,
    Ended,
}

/// A socket of the relay as it is watched.
pub(super) struct Side {
    pub socket: OwnedFd,
    pub outbox: Outbox,
    /// What it is registered for; `None` is not registered, for a hang-up cannot be masked.
    pub watched: Option<EventFlags>,
    /// Nothing more can be written.
    pub deaf: bool,
    /// The end of what is written was said to the kernel.
    pub ended: bool,
}

/// How far the other end of a side has got: what the kernel took, and what of it was not yet
/// acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Progress(u64, usize);

impl Side {
    pub(super) fn progress(&self) -> Progress {
        let unacknowledged = crate::socket::unacknowledged(&self.socket);
        Progress(self.outbox.taken(), unacknowledged)
    }

    fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            outbox: Outbox::default(),
            watched: None,
            deaf: false,
            ended: false,
        }
    }
}

/// Invariants:
/// - at most one of the inputs of a direction is read ahead of its output: a side whose `outbox`
///   is not empty stops the reading of the other, so no more than one reading waits in it;
/// - `inbox` holds raw bytes of the caller that come before all that its socket still holds;
/// - `end` is told once, and the relay is gone only after [`Relay::close`].
pub struct Relay {
    pub(super) id: u32,
    pub(super) port: u16,
    pub(super) stage: Stage,
    pub(super) caller: Option<Side>,
    pub(super) guest: Option<Side>,
    pub(super) upward: Upward,
    pub(super) downward: Downward,
    pub(super) parser: Parser,
    /// When the caller sent something last.
    pub(super) caller_heard: u64,
    pub(super) inbox: Vec<u8>,
    /// The first bytes, which were read by somebody else, are all here.
    pub(super) fed: bool,
    /// Who fed them waits until they are on their way.
    pub(super) feed_token: Option<u32>,
    pub(super) session: Option<Session>,
    /// A message of which more fragments are to come.
    pub(super) message: Vec<u8>,
    pub(super) pong: Option<Vec<u8>>,
    /// The caller's connection ended while its bytes could not be read; what is left of them is read
    /// once the guest takes more.
    pub(super) leaving: bool,
    /// The caller left without the end that was agreed: once the guest has got all, it is reset.
    pub(super) cut_short: bool,
    /// The caller ended its stream with an authenticated message.
    pub(super) caller_ended: bool,
    /// Why writing to the guest failed, if it was not for the guest's own end.
    pub(super) guest_error: Option<Errno>,
    pub(super) close_sent: bool,
    pub(super) end: Option<End>,
    pub(super) end_token: u32,
    pub(super) gone_token: Option<u32>,
    pub(super) stage_deadline: Option<u64>,
    pub(super) caller_deadline: Option<u64>,
    pub(super) guest_deadline: Option<u64>,
    /// When it is looked again how far the guest has got, and how far it had.
    pub(super) guest_stall: Option<(u64, Progress)>,
    /// The same of the caller, once its close frame is due.
    pub(super) caller_stall: Option<(u64, Progress)>,
    /// When it is looked whether the guest has got all before its reset.
    pub(super) look: Option<u64>,
}

impl Relay {
    /// A relay that has not begun. Completes `end_token` with an [`End`].
    pub fn new(id: u32, caller: OwnedFd, purpose: Purpose, end_token: u32) -> Self {
        let (port, stage, longest) = match purpose {
            Purpose::Relay(port) => (port, Stage::Dialling, u64::MAX),
            Purpose::Prove(port, keys) => (port, Stage::Handshake(keys), MESSAGE_BYTES as u64),
            Purpose::Refuse => (0, Stage::Over, u64::MAX),
        };
        Self {
            id,
            port,
            stage,
            caller: Some(Side::new(caller)),
            guest: None,
            upward: Upward::Relayed,
            downward: Downward::Relayed,
            parser: Parser::new(longest),
            caller_heard: 0,
            inbox: Vec::new(),
            fed: false,
            feed_token: None,
            session: None,
            message: Vec::new(),
            pong: None,
            leaving: false,
            cut_short: false,
            caller_ended: false,
            guest_error: None,
            close_sent: false,
            end: None,
            end_token,
            gone_token: None,
            stage_deadline: None,
            caller_deadline: None,
            guest_deadline: None,
            guest_stall: None,
            caller_stall: None,
            look: None,
        }
    }

    /// Begins.
    pub fn begin(&mut self, ctx: &mut Context) {
        if let Some(caller) = &self.caller {
            // What fails here fails again, and is noticed, at the first read.
            let _ = socket::prepare_caller(&caller.socket);
        }
        match self.stage {
            Stage::Handshake(_) => self.stage_deadline = Some(ctx.now + HANDSHAKE_NS),
            Stage::Dialling => self.dial(ctx),
            _ => self.upward = Upward::Dropped,
        }
    }

    /// Takes bytes that somebody else has read from the caller before; `last` says that the rest
    /// is still in the socket. Completes `token` once the guest's socket has taken them.
    pub fn feed(&mut self, bytes: &[u8], last: bool, token: u32, ctx: &mut Context) {
        self.inbox.extend_from_slice(bytes);
        self.fed |= last;
        self.feed_token = Some(token);
        self.take_inbox(ctx);
    }

    /// A socket of the relay is ready for something that it was watched for, or failed.
    pub fn ready(&mut self, is_guest: bool, flags: EventFlags, ctx: &mut Context) {
        if !is_guest {
            self.flush_caller();
            let over = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
            if self.may_read_caller() {
                self.read_caller(ctx);
            } else if flags.intersects(over) {
                self.leaving = true;
            }
        } else if matches!(self.stage, Stage::Dialling) {
            self.dial_ended(ctx);
        } else {
            self.flush_guest();
            self.take_inbox(ctx);
            self.read_guest(ctx);
        }
    }

    pub(super) fn dial(&mut self, ctx: &mut Context) {
        self.stage = Stage::Dialling;
        match socket::dial(self.port) {
            Ok(guest) => {
                self.guest = Some(Side::new(guest));
                self.stage_deadline = Some(ctx.now + DIAL_NS);
            }
            Err(errno) => self.dial_failed(errno, ctx),
        }
    }

    fn dial_ended(&mut self, ctx: &mut Context) {
        let Some(guest) = &self.guest else { return };
        match socket::dialled(&guest.socket) {
            Ok(()) => {
                self.stage = Stage::Relaying;
                self.stage_deadline = None;
                self.take_inbox(ctx);
            }
            Err(errno) => self.dial_failed(errno, ctx),
        }
    }

    fn dial_failed(&mut self, errno: Errno, ctx: &mut Context) {
        self.drop_guest(ctx);
        self.over(End::DialFailed, errno.raw_os_error(), ctx);
    }

    /// A deadline may have passed.
    pub fn due(&mut self, ctx: &mut Context) {
        let now = ctx.now;
        let passed = |deadline: Option<u64>| deadline.is_some_and(|at| at <= now);
        let (stage, caller, guest) = (
            passed(self.stage_deadline),
            passed(self.caller_deadline),
            passed(self.guest_deadline),
        );
        if stage {
            self.stage_deadline = None;
            match self.stage {
                Stage::Dialling => self.dial_failed(Errno::TIMEDOUT, ctx),
                Stage::Handshake(_) | Stage::Confirm => self.over(End::HandshakeRefused, 0, ctx),
                Stage::Relaying | Stage::Over => {}
            }
        }
        if caller {
            self.caller_late(ctx);
        }
        if guest {
            self.guest_late(ctx);
        }
        if passed(self.guest_stall.map(|(at, _)| at)) {
            self.guest_stalled(ctx);
        }
        if passed(self.look) {
            self.look = None;
        }
    }

    /// The earliest deadline.
    pub fn deadline(&self) -> Option<u64> {
        [
            self.stage_deadline,
            self.caller_deadline,
            self.guest_deadline,
            self.guest_stall.map(|(at, _)| at),
            self.look,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// What the sockets are to be watched for now: the caller's, the guest's.
    pub(super) fn wants(&self) -> (EventFlags, EventFlags) {
        let flags = |read: bool, write: bool| {
            let mut flags = EventFlags::empty();
            flags.set(EventFlags::IN, read);
            flags.set(EventFlags::OUT, write);
            flags
        };
        let waits = |side: &Option<Side>| side.as_ref().is_some_and(|s| !s.outbox.is_empty());
        let dialling = matches!(self.stage, Stage::Dialling) && self.guest.is_some();
        let mut caller = flags(self.may_read_caller(), waits(&self.caller));
        // Its end is noticed also while its bytes must wait; once it is known it would be told again
        // and again.
        caller.set(EventFlags::RDHUP, !self.leaving && self.caller.is_some());
        (
            caller,
            flags(self.may_read_guest(), waits(&self.guest) || dialling),
        )
    }
}
