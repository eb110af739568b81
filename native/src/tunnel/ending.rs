//! How a tunnel comes to its end. Whatever happens first is told once as the [`End`]; then each
//! direction still delivers what it may, and the sockets go one after the other.

use rustix::io::Errno;

use super::context::Context;
use super::frames;
use super::relay::{Downward, End, LOOK_NS, Relay, STALL_NS, Stage, Upward};
use crate::socket;

/// From a close frame until its answer is given up, and from the end of what the guest is sent
/// until its connection is, in nanoseconds.
const CLOSE_NS: u64 = 5_000_000_000;
/// A caller that sent something so lately has more to send, in nanoseconds.
const SENDING_NS: u64 = 1_000_000_000;

impl Relay {
    /// Tells the reason, if it is the first.
    pub(super) fn over(&mut self, end: End, value: i32, ctx: &mut Context) {
        if self.end.is_some() {
            return;
        }
        self.end = Some(end);
        ctx.wake
            .complete(self.end_token, end as i32, i64::from(value));
        // After the guest's end the caller's frames are still relayed, until its answer.
        if end == End::GuestEnded {
            return;
        }
        if matches!(self.stage, Stage::Dialling) {
            self.drop_guest(ctx);
        }
        self.stage = Stage::Over;
        self.stage_deadline = None;
        if self.upward == Upward::Relayed {
            self.upward = Upward::Dropped;
        }
        if self.downward == Downward::Relayed {
            self.downward = Downward::Dropped;
        }
        match end {
            End::MessageBroken | End::FrameBroken => self.reset_guest(ctx),
            End::Stopped | End::CallerClosed | End::CallerGone => self.reset_if_cut_short(ctx),
            _ => {}
        }
    }

    /// Ends the tunnel with a close frame of this code, or without one for code 0; completes
    /// `token` once both connections are gone.
    pub fn close(&mut self, code: u16, reason: &str, token: u32, ctx: &mut Context) {
        self.gone_token = Some(token);
        self.over(End::Stopped, 0, ctx);
        if code != 0 && !self.close_sent {
            self.send_caller(&frames::close(Some(code), reason));
            self.close_sent = true;
        }
        self.caller_deadline = Some(ctx.now + CLOSE_NS);
    }

    pub(super) fn caller_closed(&mut self, code: Option<u16>, ctx: &mut Context) {
        self.upward = Upward::Ended;
        if !self.close_sent {
            self.send_caller(&frames::close(code, ""));
            self.close_sent = true;
        }
        self.over(End::CallerClosed, i32::from(code.unwrap_or(0)), ctx);
        self.end_after_close(ctx);
    }

    pub(super) fn caller_gone(&mut self, ctx: &mut Context) {
        self.upward = Upward::Ended;
        self.drop_caller(ctx);
        self.over(End::CallerGone, 0, ctx);
        self.end_after_close(ctx);
    }

    /// The caller left after another end had been told: nothing more comes or goes.
    fn end_after_close(&mut self, ctx: &mut Context) {
        if self.downward == Downward::Relayed {
            self.downward = Downward::Dropped;
        }
        self.reset_if_cut_short(ctx);
    }

    pub(super) fn caller_deaf(&mut self) {
        if let Some(caller) = &mut self.caller {
            caller.deaf = true;
            caller.outbox.clear();
        }
        if self.downward == Downward::Relayed {
            self.downward = Downward::Dropped;
        }
    }

    /// The guest takes no more. What it has sent before is still delivered: its own end or failure
    /// is told when that is read.
    pub(super) fn guest_deaf(&mut self, errno: Errno) {
        if let Some(guest) = &mut self.guest {
            guest.deaf = true;
            guest.outbox.clear();
        }
        // A broken pipe is the answer of a guest that had ended before; the kernel tells any other
        // error once, and then lets the reading side end as if nothing had happened.
        if errno != Errno::PIPE {
            self.guest_error = Some(errno);
        }
        if self.upward == Upward::Relayed {
            self.upward = Upward::Dropped;
        }
    }

    pub(super) fn guest_ended(&mut self, ctx: &mut Context) {
        if let Some(errno) = self.guest_error {
            return self.guest_failed(errno, ctx);
        }
        if self.downward == Downward::Relayed {
            self.send_end();
        }
        self.downward = Downward::Ended;
        self.over(End::GuestEnded, 0, ctx);
    }

    pub(super) fn guest_failed(&mut self, errno: Errno, ctx: &mut Context) {
        self.downward = Downward::Ended;
        self.drop_guest(ctx);
        if self.upward == Upward::Relayed {
            self.upward = Upward::Dropped;
        }
        self.over(End::GuestFailed, errno.raw_os_error(), ctx);
    }

    /// The relay failed where it must not: drops it as it stands.
    pub(super) fn abandon(&mut self, ctx: &mut Context) {
        self.drop_caller(ctx);
        self.reset_guest(ctx);
        self.over(End::GuestFailed, libc::EIO, ctx);
        if let Some(token) = self.gone_token {
            ctx.wake.complete(token, 0, 0);
        }
    }

    /// Brings the relay in line with what has happened; whether nothing of it is left.
    pub fn settle(&mut self, ctx: &mut Context) -> bool {
        self.take_inbox(ctx);
        let waits = self.guest.as_ref().is_some_and(|g| !g.outbox.is_empty());
        if self.inbox.is_empty() && !waits {
            self.complete_feed(ctx);
        }
        self.settle_guest(ctx);
        self.settle_caller(ctx);
        self.settle_stall(ctx);
        if self.caller.is_some() || self.guest.is_some() {
            return false;
        }
        if let Some(token) = self.gone_token {
            ctx.wake.complete(token, 0, 0);
            return true;
        }
        false
    }

    /// Lets who fed the first bytes go on.
    pub(super) fn complete_feed(&mut self, ctx: &mut Context) {
        if let Some(token) = self.feed_token.take() {
            ctx.wake.complete(token, 0, 0);
        }
    }

    fn settle_guest(&mut self, ctx: &mut Context) {
        let Some(guest) = &mut self.guest else { return };
        if matches!(self.stage, Stage::Dialling) {
            return;
        }
        let no_more = self.caller_ended || self.upward != Upward::Relayed;
        if no_more && guest.outbox.is_empty() && self.cut_short {
            if socket::unacknowledged(&guest.socket) == 0 {
                self.reset_guest(ctx);
            } else {
                self.look.get_or_insert(ctx.now + LOOK_NS);
            }
            return;
        }
        if no_more && guest.outbox.is_empty() && !guest.ended {
            socket::end_sending(&guest.socket);
            guest.ended = true;
        }
        // When the daemon ends there is no time to wait for what the guest still has to say.
        let done = self.downward == Downward::Ended || self.end == Some(End::Stopped);
        if guest.ended && done {
            self.drop_guest(ctx);
        } else if guest.ended && self.downward == Downward::Dropped {
            self.guest_deadline.get_or_insert(ctx.now + CLOSE_NS);
        }
    }

    /// Once the caller has left, a guest that takes nothing of what it sent is not waited for without
    /// end: who calls a guest that hangs again and again must not use up the descriptors.
    fn settle_stall(&mut self, ctx: &mut Context) {
        let left = self.leaving || self.caller.is_none() || self.upward == Upward::Ended;
        match &self.guest {
            Some(guest) if left => {
                self.guest_stall
                    .get_or_insert_with(|| (ctx.now + STALL_NS, guest.progress()));
            }
            _ => self.guest_stall = None,
        }
    }

    /// The time is over in which the guest should have taken something.
    pub(super) fn guest_stalled(&mut self, ctx: &mut Context) {
        let before = self.guest_stall.take();
        let Some(guest) = &self.guest else { return };
        let (progress, all) = (
            guest.progress(),
            guest.outbox.is_empty() && self.inbox.is_empty(),
        );
        if before.is_some_and(|(_, before)| before != progress)
            || (all && socket::unacknowledged(&guest.socket) == 0)
        {
            self.guest_stall = Some((ctx.now + STALL_NS, progress));
            return;
        }
        self.reset_guest(ctx);
        self.caller_gone(ctx);
    }

    fn settle_caller(&mut self, ctx: &mut Context) {
        let Some(caller) = &mut self.caller else {
            return;
        };
        let told = caller.deaf || (self.close_sent && caller.outbox.is_empty());
        match self.upward {
            Upward::Ended if told => self.drop_caller(ctx),
            // It cannot be heard any more whether the caller answers: let it see the end.
            Upward::Blind if told && !caller.ended => {
                socket::end_sending(&caller.socket);
                caller.ended = true;
            }
            _ => {}
        }
    }

    /// The caller does not answer the close frame. As long as it has not even got it, it is slow.
    pub(super) fn caller_late(&mut self, ctx: &mut Context) {
        self.caller_deadline = None;
        let Some(caller) = &self.caller else { return };
        let slow = !caller.outbox.is_empty() || socket::unacknowledged(&caller.socket) > 0;
        let progress = caller.progress();
        let (until, before) = self.caller_stall.unwrap_or((ctx.now + STALL_NS, progress));
        if slow && !caller.deaf && (ctx.now < until || progress != before) {
            let until = if progress == before {
                until
            } else {
                ctx.now + STALL_NS
            };
            self.caller_stall = Some((until, progress));
            self.caller_deadline = Some(ctx.now + CLOSE_NS);
            return;
        }
        self.upward = Upward::Ended;
        self.drop_caller(ctx);
        self.reset_if_cut_short(ctx);
        // What is cut now must not look whole.
        let waits = self.guest.as_ref().is_some_and(|g| !g.outbox.is_empty());
        let sending =
            ctx.now < self.caller_heard + SENDING_NS || !self.parser.is_between_messages();
        if self.cut_short || waits || sending || !self.inbox.is_empty() {
            self.reset_guest(ctx);
        } else {
            self.drop_guest(ctx);
        }
    }

    /// The guest does not end its side. As long as it has not even got what it was sent, it is slow.
    pub(super) fn guest_late(&mut self, ctx: &mut Context) {
        self.guest_deadline = None;
        let Some(guest) = &self.guest else { return };
        if socket::unacknowledged(&guest.socket) > 0 {
            self.guest_deadline = Some(ctx.now + CLOSE_NS);
        } else {
            self.drop_guest(ctx);
        }
    }

    /// Where both ends agreed to say when they are done, a caller that did not was cut off: the
    /// guest must not take what it got for the whole.
    fn reset_if_cut_short(&mut self, ctx: &mut Context) {
        let agreed = self
            .session
            .as_ref()
            .is_some_and(|s| s.has_authenticated_end());
        if agreed && !self.caller_ended {
            self.cut_short = true;
            match &self.guest {
                Some(guest) if !matches!(self.stage, Stage::Dialling) => {
                    socket::will_reset(&guest.socket, true);
                }
                _ => self.reset_guest(ctx),
            }
        }
    }

    fn reset_guest(&mut self, ctx: &mut Context) {
        if let Some(guest) = self.guest.take() {
            ctx.forget(&guest);
            socket::will_reset(&guest.socket, true);
        }
        self.downward = Downward::Ended;
        self.guest_deadline = None;
    }

    pub(super) fn drop_guest(&mut self, ctx: &mut Context) {
        if let Some(guest) = self.guest.take() {
            ctx.forget(&guest);
        }
        self.downward = Downward::Ended;
        self.guest_deadline = None;
    }

    fn drop_caller(&mut self, ctx: &mut Context) {
        if let Some(caller) = self.caller.take() {
            ctx.forget(&caller);
            // Somebody else may still hold a descriptor of it.
            socket::end(&caller.socket);
        }
        self.caller_deadline = None;
    }
}
