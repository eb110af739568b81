//! The caller's frames, to the guest.

use super::context::{Context, READ_BYTES};
use super::frames::{self, Step, Violation};
use super::noise::{MESSAGE_BYTES, respond};
use super::relay::{End, Relay, Stage, Upward};
use crate::socket;

impl Relay {
    pub(super) fn may_read_caller(&self) -> bool {
        let waits = self
            .guest
            .as_ref()
            .is_some_and(|guest| !guest.outbox.is_empty());
        self.caller.is_some()
            && self.fed
            && match self.upward {
                Upward::Relayed => {
                    self.inbox.is_empty() && !waits && !matches!(self.stage, Stage::Dialling)
                }
                Upward::Dropped | Upward::Blind => true,
                Upward::Ended => false,
            }
    }

    /// Reads once: what is left makes the socket ready again, after the other tunnels' turn.
    pub(super) fn read_caller(&mut self, ctx: &mut Context) {
        if !self.may_read_caller() {
            return;
        }
        let Some(caller) = &self.caller else { return };
        let mut buffer = std::mem::take(&mut ctx.input);
        match socket::read(&caller.socket, &mut buffer[..READ_BYTES]) {
            Ok(None) => {}
            Ok(Some(0)) | Err(_) => self.caller_gone(ctx),
            Ok(Some(count)) => {
                self.caller_heard = ctx.now;
                let taken = self.take(&mut buffer[..count], ctx);
                self.inbox.extend_from_slice(&buffer[taken..count]);
            }
        }
        ctx.input = buffer;
    }

    /// Takes what was read before, as far as the stage allows.
    pub(super) fn take_inbox(&mut self, ctx: &mut Context) {
        if self.inbox.is_empty() || matches!(self.stage, Stage::Dialling) {
            return;
        }
        let mut inbox = std::mem::take(&mut self.inbox);
        let taken = self.take(&mut inbox, ctx);
        if taken < inbox.len() {
            inbox.drain(..taken);
            self.inbox = inbox;
        }
    }

    /// Takes bytes of the caller; returns how many: all, unless it has to dial first.
    fn take(&mut self, buf: &mut [u8], ctx: &mut Context) -> usize {
        let mut at = 0;
        // Relayed payload is moved together at the start of the buffer, to be sent in one call.
        let mut plain = 0;
        let mut ping = false;
        while !matches!(self.upward, Upward::Blind | Upward::Ended) {
            if matches!(self.stage, Stage::Dialling) {
                break;
            }
            match self.parser.step(buf, &mut at) {
                Ok(Step::More) => break,
                Ok(Step::Ping) => {
                    // Of many, only the last is answered: section 5.5.3.
                    self.pong = Some(frames::pong(self.parser.control()));
                    ping = true;
                }
                Ok(Step::Close(code)) => self.caller_closed(code, ctx),
                Ok(Step::Payload { .. }) if self.upward == Upward::Dropped => {}
                Ok(Step::Payload { at, text, ends }) if self.is_private() => {
                    self.take_message(&buf[at], text, ends, ctx);
                }
                Ok(Step::Payload { at, .. }) => {
                    let length = at.len();
                    buf.copy_within(at, plain);
                    plain += length;
                }
                Err(violation) => self.broken(violation, ctx),
            }
        }
        if matches!(self.upward, Upward::Blind | Upward::Ended) {
            at = buf.len();
        }
        if plain > 0 {
            self.send_guest(&buf[..plain]);
        }
        self.send_plain(ctx);
        if ping {
            self.answer_ping();
        }
        at
    }

    /// Every frame is a Noise message.
    fn is_private(&self) -> bool {
        self.session.is_some() || matches!(self.stage, Stage::Handshake(_))
    }

    fn broken(&mut self, violation: Violation, ctx: &mut Context) {
        self.upward = Upward::Blind;
        let end = match (violation, &self.stage) {
            (_, Stage::Handshake(_) | Stage::Confirm) => End::HandshakeRefused,
            (Violation::TooLong, _) => End::MessageBroken,
            (Violation::Protocol, _) if self.session.is_some() => End::MessageBroken,
            (Violation::Protocol, _) => End::FrameBroken,
        };
        self.over(end, 0, ctx);
    }

    fn take_message(&mut self, piece: &[u8], text: bool, ends: bool, ctx: &mut Context) {
        if text {
            self.message_refused(ctx);
        } else if !ends {
            self.message.extend_from_slice(piece);
        } else if self.message.is_empty() {
            self.message_came(piece, ctx);
        } else {
            let mut message = std::mem::take(&mut self.message);
            message.extend_from_slice(piece);
            self.message_came(&message, ctx);
        }
    }

    fn message_refused(&mut self, ctx: &mut Context) {
        let end = match self.stage {
            Stage::Handshake(_) | Stage::Confirm => End::HandshakeRefused,
            _ => End::MessageBroken,
        };
        self.over(end, 0, ctx);
    }

    fn message_came(&mut self, message: &[u8], ctx: &mut Context) {
        ctx.stained |= matches!(self.stage, Stage::Handshake(_) | Stage::Confirm);
        match &self.stage {
            Stage::Handshake(keys) => match respond(keys, self.port, message) {
                Ok(_) if !ctx.seen.is_new(message) => self.message_refused(ctx),
                Ok(accepted) => {
                    self.session = Some(accepted.session);
                    self.send_frame(&accepted.answer);
                    if accepted.must_confirm {
                        self.stage = Stage::Confirm;
                    } else {
                        self.dial(ctx);
                    }
                }
                Err(_) => self.message_refused(ctx),
            },
            Stage::Confirm => {
                let confirmed = self.session.as_mut().is_some_and(|s| s.confirms(message));
                if confirmed {
                    self.dial(ctx);
                } else {
                    self.message_refused(ctx);
                }
            }
            _ => self.relay_message(message, ctx),
        }
    }

    fn relay_message(&mut self, message: &[u8], ctx: &mut Context) {
        if ctx.output.len() - ctx.used < MESSAGE_BYTES {
            self.send_plain(ctx);
        }
        let Some(session) = &mut self.session else {
            return;
        };
        match session.open(message, &mut ctx.output[ctx.used..]) {
            // Nothing may come behind the end of the stream.
            Ok(_) if self.caller_ended => self.message_refused(ctx),
            Ok(0) => self.caller_ended = session.has_authenticated_end(),
            Ok(count) => ctx.used += count,
            Err(_) => {
                // What was authentic before it is the guest's, but for the reset that follows.
                ctx.used = 0;
                self.message_refused(ctx);
            }
        }
    }

    /// Sends the plaintext that was gathered in the output buffer.
    fn send_plain(&mut self, ctx: &mut Context) {
        let count = std::mem::take(&mut ctx.used);
        if count > 0 {
            let output = std::mem::take(&mut ctx.output);
            self.send_guest(&output[..count]);
            ctx.output = output;
        }
    }

    fn send_guest(&mut self, bytes: &[u8]) {
        if let Some(guest) = &mut self.guest
            && !guest.deaf
            && let Err(errno) = guest.outbox.send(&guest.socket, bytes)
        {
            self.guest_deaf(errno);
        }
    }

    pub(super) fn flush_guest(&mut self) {
        if let Some(guest) = &mut self.guest
            && !guest.outbox.is_empty()
            && let Err(errno) = guest.outbox.flush(&guest.socket)
        {
            self.guest_deaf(errno);
        }
    }
}
