//! The events of an exec's stream, out of the body of an answer.

use base64_simd::STANDARD;
use memchr::memchr;
use serde::Deserialize;

use crate::Outcome;
use crate::http::Connection;

/// One event. What it borrows is valid until the next one.
#[derive(Debug, PartialEq)]
pub enum Event<'a> {
    /// Bytes of one stream.
    Output {
        /// Where in the shared offset space.
        offset: u64,
        /// Whether they are of stderr.
        stderr: bool,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// Bytes are gone.
    Gap(Gap),
    /// How it ended.
    Exit(Exit),
    /// A comment.
    Keepalive,
}

/// The bytes `[from, to)` are gone.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub struct Gap {
    /// First byte that is gone.
    pub from: u64,
    /// One past the last.
    pub to: u64,
}

/// The last event.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub struct Exit {
    /// Exit code, unless a signal killed it.
    #[serde(rename = "exit_code")]
    pub code: Option<i64>,
    /// Signal that killed it.
    pub signal: Option<i64>,
    /// Whether a stream was longer than what is captured.
    pub truncated: bool,
    /// Whether the outcome was published with its pipes still open.
    pub writers_may_be_alive: bool,
    /// Bytes published in all.
    pub offset: u64,
}

/// Reads the events of the answer under way.
///
/// Invariant: `body[at..]` is received and not yet given out, and `body[at..searched]` does not
/// hold the end of an event.
#[derive(Default)]
pub struct Events {
    body: Vec<u8>,
    at: usize,
    searched: usize,
    decoded: Vec<u8>,
}

impl Events {
    /// The next event; `None` when the body ended.
    pub fn next(&mut self, connection: &mut Connection) -> Outcome<Option<Event<'_>>> {
        loop {
            if let Some(end) = self.event_end() {
                let begin = std::mem::replace(&mut self.at, end + 2);
                self.searched = self.at;
                return parse(&self.body[begin..end], &mut self.decoded).map(Some);
            }
            if self.at > 0 {
                self.body.drain(..self.at);
                self.searched = self.body.len().saturating_sub(1);
                self.at = 0;
            }
            if !connection.read_body(&mut self.body)? {
                return match self.body.is_empty() {
                    true => Ok(None),
                    false => Err("the stream ended inside an event".into()),
                };
            }
        }
    }

    /// Where the blank line begins that ends the event at `at`.
    fn event_end(&mut self) -> Option<usize> {
        let mut from = self.searched.max(self.at);
        while let Some(newline) = memchr(b'\n', &self.body[from..]) {
            let end = from + newline;
            match self.body.get(end + 1) {
                Some(b'\n') => return Some(end),
                Some(_) => from = end + 1,
                None => {
                    self.searched = end;
                    return None;
                }
            }
        }
        self.searched = self.body.len();
        None
    }
}

fn parse<'a>(event: &[u8], decoded: &'a mut Vec<u8>) -> Outcome<Event<'a>> {
    if event.starts_with(b":") {
        return Ok(Event::Keepalive);
    }
    let newline = memchr(b'\n', event).ok_or("an event of one line")?;
    let name = event[..newline]
        .strip_prefix(b"event: ")
        .ok_or("an event without a name")?;
    let data = event[newline + 1..]
        .strip_prefix(b"data: ")
        .ok_or("an event without data")?;
    match name {
        b"output" => output(data, decoded).ok_or_else(|| "a malformed output event".into()),
        b"gap" => Ok(Event::Gap(serde_json::from_slice(data)?)),
        b"exit" => Ok(Event::Exit(serde_json::from_slice(data)?)),
        _ => Err("an event of an unknown name".into()),
    }
}

/// `{"offset":N,"stream":"...","output":"..."}`, without a general parser: it is hot.
fn output<'a>(data: &[u8], decoded: &'a mut Vec<u8>) -> Option<Event<'a>> {
    let rest = data.strip_prefix(b"{\"offset\":")?;
    let comma = memchr(b',', rest)?;
    let offset = std::str::from_utf8(&rest[..comma]).ok()?.parse().ok()?;
    let rest = rest[comma..].strip_prefix(b",\"stream\":\"std")?;
    let (stderr, rest) = match rest.strip_prefix(b"out") {
        Some(rest) => (false, rest),
        None => (true, rest.strip_prefix(b"err")?),
    };
    let text = rest
        .strip_prefix(b"\",\"output\":\"")?
        .strip_suffix(b"\"}")?;
    decoded.clear();
    STANDARD.decode_append(text, decoded).ok()?;
    Some(Event::Output {
        offset,
        stderr,
        bytes: decoded,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_as_the_daemon_writes_them() {
        let mut decoded = Vec::new();
        let text = b"event: output\ndata: {\"offset\":7,\"stream\":\"stderr\",\"output\":\"aGk=\"}";
        let (offset, stderr, bytes) = (7, true, &b"hi"[..]);
        assert_eq!(
            parse(text, &mut decoded).unwrap(),
            Event::Output {
                offset,
                stderr,
                bytes
            }
        );
        let text = b"event: gap\ndata: {\"from\":1,\"to\":9}";
        assert_eq!(
            parse(text, &mut decoded).unwrap(),
            Event::Gap(Gap { from: 1, to: 9 })
        );
        let text = b"event: exit\ndata: {\"exit_code\":null,\"signal\":9,\"truncated\":false,\
            \"writers_may_be_alive\":true,\"offset\":12}";
        let Event::Exit(exit) = parse(text, &mut decoded).unwrap() else {
            panic!("not an exit")
        };
        assert_eq!((exit.code, exit.signal, exit.offset), (None, Some(9), 12));
        assert!(parse(b"event: output\ndata: {\"offset\":7}", &mut decoded).is_err());
    }
}
