//! The guest's bytes, to the caller.

use super::context::{Context, FRAME_BYTES};
use super::frames::{HEAD_BYTES, binary_head};
use super::noise::CHUNK_BYTES;
use super::relay::{Downward, Relay, Stage};
use crate::socket;

impl Relay {
    pub(super) fn may_read_guest(&self) -> bool {
        let waits = self
            .caller
            .as_ref()
            .is_some_and(|caller| !caller.outbox.is_empty());
        self.guest.is_some()
            && !matches!(self.stage, Stage::Dialling)
            && match self.downward {
                Downward::Relayed => !waits,
                Downward::Dropped => true,
                Downward::Ended => false,
            }
    }

    /// Reads once: what is left makes the socket ready again, after the other tunnels' turn.
    pub(super) fn read_guest(&mut self, ctx: &mut Context) {
        if !self.may_read_guest() {
            return;
        }
        let Some(guest) = &self.guest else { return };
        let mut buffer = std::mem::take(&mut ctx.input);
        // Room for the frame's head is left in front, so that both go out in one call.
        let result = socket::read(&guest.socket, &mut buffer[HEAD_BYTES..][..FRAME_BYTES]);
        match result {
            Ok(None) => {}
            Ok(Some(0)) => self.guest_ended(ctx),
            Err(errno) => self.guest_failed(errno, ctx),
            Ok(Some(_)) if self.downward == Downward::Dropped => {}
            Ok(Some(count)) => self.relay_down(&mut buffer[..HEAD_BYTES + count], ctx),
        }
        ctx.input = buffer;
    }

    fn relay_down(&mut self, buffer: &mut [u8], ctx: &mut Context) {
        if self.session.is_some() {
            self.seal_down(&buffer[HEAD_BYTES..], ctx);
            return;
        }
        let (head, size) = binary_head(buffer.len() - HEAD_BYTES);
        let start = HEAD_BYTES - size;
        buffer[start..HEAD_BYTES].copy_from_slice(&head[..size]);
        self.send_caller(&buffer[start..]);
    }

    /// Encrypts in chunks and sends all their frames in one call.
    fn seal_down(&mut self, plain: &[u8], ctx: &mut Context) {
        let Some(session) = &mut self.session else {
            return;
        };
        let mut output = std::mem::take(&mut ctx.output);
        let mut used = 0;
        for chunk in plain.chunks(CHUNK_BYTES) {
            let (head, size) = binary_head(chunk.len() + super::crypto::TAG_BYTES);
            output[used..used + size].copy_from_slice(&head[..size]);
            used += size;
            match session.seal(chunk, &mut output[used..]) {
                Ok(length) => used += length,
                // Only after 2^64 messages.
                Err(_) => break,
            }
        }
        self.send_caller(&output[..used]);
        ctx.output = output;
    }

    /// Says that nothing more will come, if both ends agreed to say so.
    pub(super) fn send_end(&mut self) {
        let mut sealed = [0; super::crypto::TAG_BYTES];
        let Some(session) = &mut self.session else {
            return;
        };
        if session.has_authenticated_end() && session.seal(&[], &mut sealed).is_ok() {
            self.send_frame(&sealed);
        }
    }

    /// Sends one binary frame.
    pub(super) fn send_frame(&mut self, payload: &[u8]) {
        let (head, size) = binary_head(payload.len());
        self.send_caller(&[&head[..size], payload].concat());
    }

    pub(super) fn send_caller(&mut self, bytes: &[u8]) {
        if let Some(caller) = &mut self.caller
            && !caller.deaf
            && caller.outbox.send(&caller.socket, bytes).is_err()
        {
            self.caller_deaf();
        }
    }

    pub(super) fn flush_caller(&mut self) {
        if let Some(caller) = &mut self.caller
            && !caller.outbox.is_empty()
            && caller.outbox.flush(&caller.socket).is_err()
        {
            self.caller_deaf();
        }
        self.answer_ping();
    }

    /// Answers the last ping as soon as nothing else waits: a flood of them cannot pile up.
    pub(super) fn answer_ping(&mut self) {
        let free = self
            .caller
            .as_ref()
            .is_some_and(|caller| caller.outbox.is_empty());
        if free
            && !self.close_sent
            && let Some(pong) = self.pong.take()
        {
            self.send_caller(&pong);
        }
    }
}
