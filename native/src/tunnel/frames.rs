//! WebSocket frames, the server's side (RFC 6455): a parser that takes the caller's bytes as they
//! come, in pieces of any size, and the heads of the frames that go back.

use std::ops::Range;

use super::mask::unmask;

/// A control frame's payload is at most this long, in bytes.
pub const CONTROL_BYTES: usize = 125;
/// A frame's head to the caller is at most this long, in bytes.
pub const HEAD_BYTES: usize = 10;

const BINARY: u8 = 2;
const TEXT: u8 = 1;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;
const FIN: u8 = 0x80;
const MASKED: u8 = 0x80;

/// What the caller sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Payload of a text or binary message, unmasked in place at this range of the buffer. It may
    /// be empty. The message goes on unless `ends`.
    Payload {
        /// Where in the buffer.
        at: Range<usize>,
        /// It belongs to a text message.
        text: bool,
        /// The message ends with it.
        ends: bool,
    },
    /// A ping; its payload is [`Parser::control`].
    Ping,
    /// The caller closes; its payload is [`Parser::control`], valid and with this code, if any.
    Close(Option<u16>),
    /// All bytes of the buffer are taken.
    More,
}

/// Why a caller's bytes are no WebSocket frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// They break the protocol.
    Protocol,
    /// A message is longer than the parser was told to take.
    TooLong,
}

/// Invariant: `have` bytes of the current frame's head are in `head`; once the head is complete,
/// `left` bytes of its payload are still to come, and for a control frame the others are at the
/// start of `control`.
pub struct Parser {
    head: [u8; 14],
    have: usize,
    in_payload: bool,
    left: u64,
    taken: u64,
    control: [u8; CONTROL_BYTES],
    /// Text (true) or binary, while a message is under way.
    message: Option<bool>,
    message_bytes: u64,
    max_message: u64,
}

impl Parser {
    /// A parser that refuses messages longer than `max_message` bytes.
    pub fn new(max_message: u64) -> Self {
        Self {
            head: [0; 14],
            have: 0,
            in_payload: false,
            left: 0,
            taken: 0,
            control: [0; CONTROL_BYTES],
            message: None,
            message_bytes: 0,
            max_message,
        }
    }

    /// The payload of the control frame that [`Parser::step`] gave last.
    pub fn control(&self) -> &[u8] {
        &self.control[..self.taken as usize]
    }

    /// Takes bytes of `buf` from `at` on, which moves behind them. After a [`Violation`] the
    /// parser is of no more use.
    pub fn step(&mut self, buf: &mut [u8], at: &mut usize) -> Result<Step, Violation> {
        loop {
            if !self.in_payload && !self.read_head(buf, at)? {
                return Ok(Step::More);
            }
            let range = self.take_payload(buf, at);
            let whole = self.left == 0;
            if whole {
                self.in_payload = false;
                self.have = 0;
            }
            match self.opcode() {
                CLOSE if whole => return Ok(Step::Close(self.close_code()?)),
                PING if whole => return Ok(Step::Ping),
                // Nobody asked for it; one may come at any time.
                PONG if whole => {}
                CLOSE | PING | PONG => return Ok(Step::More),
                _ if range.is_empty() && !whole => return Ok(Step::More),
                _ => return Ok(self.payload(range, whole)),
            }
        }
    }

    fn take_payload(&mut self, buf: &mut [u8], at: &mut usize) -> Range<usize> {
        let count = self.left.min((buf.len() - *at) as u64) as usize;
        let range = *at..*at + count;
        let key = self.mask_key();
        unmask(&mut buf[range.clone()], key, self.taken);
        if self.opcode() >= CLOSE {
            let taken = self.taken as usize;
            self.control[taken..taken + count].copy_from_slice(&buf[range.clone()]);
        }
        *at += count;
        self.left -= count as u64;
        self.taken += count as u64;
        range
    }

    fn payload(&mut self, at: Range<usize>, whole: bool) -> Step {
        let text = self.message == Some(true);
        let ends = whole && self.head[0] & FIN != 0;
        if ends {
            self.message = None;
            self.message_bytes = 0;
        }
        Step::Payload { at, text, ends }
    }

    /// Whether nothing of a frame or a fragmented message is under way.
    pub fn is_between_messages(&self) -> bool {
        self.have == 0 && !self.in_payload && self.message.is_none()
    }

    fn read_head(&mut self, buf: &[u8], at: &mut usize) -> Result<bool, Violation> {
        loop {
            let need = self.head_size();
            if self.have == need {
                break;
            }
            let count = (need - self.have).min(buf.len() - *at);
            if count == 0 {
                return Ok(false);
            }
            self.head[self.have..self.have + count].copy_from_slice(&buf[*at..*at + count]);
            self.have += count;
            *at += count;
            // Refused as early as it can be seen: nothing more may ever come.
            self.check_head()?;
        }
        self.left = self.length();
        self.taken = 0;
        self.in_payload = true;
        if self.opcode() < CLOSE {
            self.begin_data()?;
        }
        Ok(true)
    }

    fn check_head(&self) -> Result<(), Violation> {
        let (first, opcode) = (self.head[0], self.opcode());
        let reserved = first & 0x70 != 0 || (3..CLOSE).contains(&opcode) || opcode > PONG;
        let order = match opcode {
            0 => self.message.is_none(),
            TEXT | BINARY => self.message.is_some(),
            _ => first & FIN == 0,
        };
        if reserved || order {
            return Err(Violation::Protocol);
        }
        if self.have < 2 {
            return Ok(());
        }
        let unmasked = self.head[1] & MASKED == 0;
        let oversized = opcode >= CLOSE && usize::from(self.head[1] & 0x7f) > CONTROL_BYTES;
        let beyond = self.head[1] & 0x7f == 127 && self.have > 2 && self.head[2] & 0x80 != 0;
        if unmasked || oversized || beyond {
            return Err(Violation::Protocol);
        }
        Ok(())
    }

    fn begin_data(&mut self) -> Result<(), Violation> {
        if self.opcode() != 0 {
            self.message = Some(self.opcode() == TEXT);
            self.message_bytes = 0;
        }
        self.message_bytes = self.message_bytes.saturating_add(self.left);
        if self.message_bytes > self.max_message {
            return Err(Violation::TooLong);
        }
        Ok(())
    }

    fn opcode(&self) -> u8 {
        self.head[0] & 0x0f
    }

    fn length_size(&self) -> usize {
        match self.head[1] & 0x7f {
            126 => 2,
            127 => 8,
            _ => 0,
        }
    }

    fn head_size(&self) -> usize {
        if self.have < 2 {
            return 2;
        }
        2 + self.length_size() + 4
    }

    fn length(&self) -> u64 {
        let size = self.length_size();
        if size == 0 {
            return u64::from(self.head[1] & 0x7f);
        }
        let bytes = &self.head[2..2 + size];
        bytes
            .iter()
            .fold(0, |sum, &byte| sum << 8 | u64::from(byte))
    }

    fn mask_key(&self) -> [u8; 4] {
        let at = 2 + self.length_size();
        let head = &self.head;
        [head[at], head[at + 1], head[at + 2], head[at + 3]]
    }

    fn close_code(&self) -> Result<Option<u16>, Violation> {
        match *self.control() {
            [] => Ok(None),
            [high, low, ref reason @ ..] => {
                let code = u16::from_be_bytes([high, low]);
                let known = matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999);
                if !known || std::str::from_utf8(reason).is_err() {
                    return Err(Violation::Protocol);
                }
                Ok(Some(code))
            }
            [_] => Err(Violation::Protocol),
        }
    }
}

/// The head of a binary frame with `length` bytes of payload, and the head's size.
pub fn binary_head(length: usize) -> ([u8; HEAD_BYTES], usize) {
    let mut head = [0; HEAD_BYTES];
    head[0] = FIN | BINARY;
    if length < 126 {
        head[1] = length as u8;
        (head, 2)
    } else if let Ok(short) = u16::try_from(length) {
        head[1] = 126;
        head[2..4].copy_from_slice(&short.to_be_bytes());
        (head, 4)
    } else {
        head[1] = 127;
        head[2..10].copy_from_slice(&(length as u64).to_be_bytes());
        (head, 10)
    }
}

/// A pong with the ping's payload.
pub fn pong(payload: &[u8]) -> Vec<u8> {
    control(PONG, &[payload])
}

/// A close frame; without a code it is empty. What is beyond a control frame's size of the reason
/// is cut, at a character's border.
pub fn close(code: Option<u16>, reason: &str) -> Vec<u8> {
    let Some(code) = code else {
        return control(CLOSE, &[]);
    };
    let mut cut = reason.len().min(CONTROL_BYTES - 2);
    while !reason.is_char_boundary(cut) {
        cut -= 1;
    }
    control(CLOSE, &[&code.to_be_bytes(), &reason.as_bytes()[..cut]])
}

fn control(opcode: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut frame = vec![FIN | opcode, length as u8];
    parts.iter().for_each(|part| frame.extend_from_slice(part));
    frame
}

#[cfg(test)]
#[path = "frames_tests.rs"]
mod tests;
