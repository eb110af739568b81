//! The events of an exec's stream, out of the body of an answer.

use std::io::BufRead;

use base64_simd::STANDARD;
use memchr::memchr;
use serde::Deserialize;

use crate::Outcome;
use crate::http::Connection;

/// One event. What it borrows is valid until the next one.
#[derive(Debug)]
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
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Gap {
    /// First byte that is gone.
    pub from: u64,
    /// One past the last.
    pub to: u64,
}

/// The last event.
#[derive(Clone, Copy, Debug, Deserialize)]
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
#[derive(Default)]
pub struct Events {
    text: Vec<u8>,
    decoded: Vec<u8>,
}

impl Events {
    /// The next event; `None` when the body ended.
    pub fn next(&mut self, connection: &mut Connection) -> Outcome<Option<Event<'_>>> {
        self.text.clear();
        while !self.text.ends_with(b"\n\n") {
            if connection.read_until(b'\n', &mut self.text)? == 0 {
                return match self.text.is_empty() {
                    true => Ok(None),
                    false => Err("the stream ended inside an event".into()),
                };
            }
        }
        let end = self.text.len() - 2;
        parse(&self.text[..end], &mut self.decoded).map(Some)
    }
}

fn parse<'a>(event: &[u8], decoded: &'a mut Vec<u8>) -> Outcome<Event<'a>> {
    if event.starts_with(b":") {
        return Ok(Event::Keepalive);
    }
    let newline = memchr(b'\n', event).ok_or("an event of one line")?;
    let (name, data) = event.split_at(newline);
    let data = data
        .strip_prefix(b"\ndata: ")
        .ok_or("an event without data")?;
    match name {
        b"event: output" => output(data, decoded).ok_or_else(|| "a malformed output event".into()),
        b"event: gap" => Ok(Event::Gap(serde_json::from_slice(data)?)),
        b"event: exit" => Ok(Event::Exit(serde_json::from_slice(data)?)),
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
