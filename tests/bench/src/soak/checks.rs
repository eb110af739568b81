//! What a client of the soak does, and compares.

use base64_simd::STANDARD;
use serde_json::{Value, json};

use crate::Outcome;
use crate::client::{Client, Ended};
use crate::sse::{Event, Events, Exit};

/// What a stream has said on stdout and on stderr.
pub type Seen = [Vec<u8>; 2];

impl Client {
    /// Writes to stdin.
    pub fn stdin(&mut self, id: &str, bytes: &[u8], eof: bool) -> Outcome<()> {
        let path = format!("/v1/exec/{id}/stdin");
        let data = STANDARD.encode_to_string(bytes);
        let body = json!({ "data_b64": data, "signal": eof.then_some("eof") }).to_string();
        let answer = self.expect("POST", &path, Some(&body))?;
        if serde_json::from_str::<Value>(&answer)?["written"] == bytes.len() {
            return Ok(());
        }
        Err(format!("{id}: {} bytes not written: {answer}", bytes.len()).into())
    }

    /// Follows the stream from where `seen` ends until its exit, or until `most` bytes were added. Bytes
    /// must follow each other without a gap.
    pub fn read_from(&mut self, id: &str, seen: &mut Seen, most: u64) -> Outcome<Option<Exit>> {
        let enough = length(seen).saturating_add(most);
        self.attach(id, length(seen))?;
        let mut events = Events::default();
        while length(seen) < enough {
            match events.next(&mut self.connection)? {
                Some(Event::Output {
                    offset,
                    stderr,
                    bytes,
                }) if offset == length(seen) => seen[usize::from(stderr)].extend_from_slice(bytes),
                Some(Event::Keepalive) => {}
                Some(Event::Exit(exit)) if exit.offset == length(seen) => return Ok(Some(exit)),
                other => return Err(format!("{id}: after {} bytes {other:?}", length(seen)).into()),
            }
        }
        Ok(None)
    }

    /// Attaches to the stream, and is gone before it ends.
    pub fn attach_and_vanish(&mut self, id: &str) -> Outcome<()> {
        self.attach(id, 0)?;
        self.reconnect()
    }

    /// A request that must be refused with `status` and `slug`.
    pub fn expect_refusal(
        &mut self,
        method: &str,
        path: &str,
        body: Option<&str>,
        status: u16,
        slug: &str,
    ) -> Outcome<()> {
        let (got, answer) = self.connection.fetch(method, path, body)?;
        if got == status && serde_json::from_str::<Value>(&answer)?["error"] == slug {
            return Ok(());
        }
        Err(format!("{method} {path} answered {got}: {answer}").into())
    }

    /// What the stream says from its beginning to its exit, in the form of a poll.
    fn streamed(&mut self, id: &str) -> Outcome<Ended> {
        let mut seen = Seen::default();
        let exit = self.read_from(id, &mut seen, u64::MAX)?;
        let exit = exit.ok_or("a stream that has no end")?;
        let [stdout, stderr] = seen.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        Ok(Ended {
            code: exit.code,
            signal: exit.signal,
            truncated: exit.truncated,
            writers_may_be_alive: exit.writers_may_be_alive,
            stdout,
            stderr,
        })
    }

    /// Waits for the outcome, reads the stream, acks, and compares what all three say with what was
    /// expected. A second ack must be refused.
    pub fn settle(&mut self, id: &str, expected: &Ended) -> Outcome<()> {
        let polled = self.wait(id)?;
        let streamed = self.streamed(id)?;
        let acked = self.ack(id)?;
        for (by, ended) in [("poll", polled), ("stream", streamed), ("ack", acked)] {
            if ended != *expected {
                // Outputs are long.
                let told = |what: &Ended| format!("{what:?}").chars().take(400).collect::<String>();
                let (ended, expected) = (told(&ended), told(expected));
                return Err(format!("by {by} {ended}, not as expected: {expected}").into());
            }
        }
        let path = format!("/v1/exec/{id}/ack");
        self.expect_refusal("POST", &path, None, 409, "already_acked")
    }
}

fn length(seen: &Seen) -> u64 {
    seen.iter().map(|bytes| bytes.len() as u64).sum()
}
