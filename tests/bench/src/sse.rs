//! The events of an exec's stream, out of the body of an answer.

use crate::http::Connection;
use crate::{Outcome, base64, json};

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
    /// The bytes `[from, to)` are gone.
    Gap {
        /// First byte that is gone.
        from: u64,
        /// One past the last.
        to: u64,
    },
    /// How it ended.
    Exit(Exit),
    /// A comment.
    Keepalive,
}

/// The last event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Exit code, unless a signal killed it.
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
        while let Some(newline) = find(&self.body[from..], b'\n') {
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

/// The first `byte`; by words, because an event is some 90 KB of one line.
fn find(bytes: &[u8], byte: u8) -> Option<usize> {
    const STEP: usize = 64;
    let mut at = 0;
    for block in bytes.chunks_exact(STEP) {
        // Without a branch inside, so that the compiler makes one wide comparison of it.
        if block.iter().fold(false, |found, b| found | (*b == byte)) {
            break;
        }
        at += STEP;
    }
    let found = bytes[at..].iter().position(|b| *b == byte)?;
    Some(at + found)
}

fn parse<'a>(event: &[u8], decoded: &'a mut Vec<u8>) -> Outcome<Event<'a>> {
    if event.starts_with(b":") {
        return Ok(Event::Keepalive);
    }
    let newline = find(event, b'\n').ok_or("an event of one line")?;
    let name = event[..newline]
        .strip_prefix(b"event: ")
        .ok_or("an event without a name")?;
    let data = event[newline + 1..]
        .strip_prefix(b"data: ")
        .ok_or("an event without data")?;
    let number = |name| {
        let value = json::number(std::str::from_utf8(data).ok()?, name)?;
        u64::try_from(value).ok()
    };
    match name {
        b"output" => output(data, decoded).ok_or_else(|| "a malformed output event".into()),
        b"gap" => match (number("from"), number("to")) {
            (Some(from), Some(to)) => Ok(Event::Gap { from, to }),
            _ => Err("a malformed gap event".into()),
        },
        b"exit" => {
            let data = std::str::from_utf8(data)?;
            let flag = |name| json::flag(data, name).ok_or("an exit event without a flag");
            Ok(Event::Exit(Exit {
                code: json::number(data, "exit_code"),
                signal: json::number(data, "signal"),
                truncated: flag("truncated")?,
                writers_may_be_alive: flag("writers_may_be_alive")?,
                offset: number("offset").ok_or("an exit event without an offset")?,
            }))
        }
        _ => Err("an event of an unknown name".into()),
    }
}

/// `{"offset":N,"stream":"...","output":"..."}`, without a general parser: it is hot.
fn output<'a>(data: &[u8], decoded: &'a mut Vec<u8>) -> Option<Event<'a>> {
    let rest = data.strip_prefix(b"{\"offset\":")?;
    let comma = find(rest, b',')?;
    let offset = std::str::from_utf8(&rest[..comma]).ok()?.parse().ok()?;
    let rest = rest[comma..].strip_prefix(b",\"stream\":\"std")?;
    let (stderr, rest) = match rest.strip_prefix(b"out") {
        Some(rest) => (false, rest),
        None => (true, rest.strip_prefix(b"err")?),
    };
    let text = rest
        .strip_prefix(b"\",\"output\":\"")?
        .strip_suffix(b"\"}")?;
    base64::decode(text, decoded).then_some(Event::Output {
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
            Event::Gap { from: 1, to: 9 }
        );
        let text = b"event: exit\ndata: {\"exit_code\":null,\"signal\":9,\"truncated\":false,\
            \"writers_may_be_alive\":true,\"offset\":12}";
        let Event::Exit(exit) = parse(text, &mut decoded).unwrap() else {
            panic!("not an exit")
        };
        assert_eq!((exit.code, exit.signal, exit.offset), (None, Some(9), 12));
        assert!(parse(b"event: output\ndata: {\"offset\":7}", &mut decoded).is_err());
    }

    #[test]
    fn the_first_byte_is_found_wherever_it_is() {
        let mut bytes = vec![b'x'; 300];
        assert_eq!(find(&bytes, b'\n'), None);
        for at in (0..300).rev() {
            bytes[at] = b'\n';
            assert_eq!(find(&bytes, b'\n'), Some(at));
        }
    }
}
