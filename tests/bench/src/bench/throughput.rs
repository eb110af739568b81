//! A quarter of a gigabyte of output, every byte looked at.

use std::time::Instant;

use serde_json::json;

use crate::client::{Client, script, with};
use crate::sse::{Event, Gap};
use crate::ssh::Ssh;
use crate::{Failure, Outcome, limit};

/// Bytes of output.
pub const BYTES: usize = 256 << 20;

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Zeros, as fast as the kernel can.
    Zeros,
    /// Lines of 64 characters.
    Text,
}

const LINE: &[u8; 65] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-+\n";

impl Kind {
    /// The shell script that writes it.
    pub fn script(self) -> String {
        match self {
            Self::Zeros => format!("exec head -c {BYTES} /dev/zero"),
            Self::Text => {
                let line = String::from_utf8_lossy(&LINE[..64]);
                format!("yes {line} | head -c {BYTES}")
            }
        }
    }

    /// What is expected, long enough to compare any piece of up to 64 KiB at any offset with.
    fn pattern(self) -> Vec<u8> {
        match self {
            Self::Zeros => vec![0; LINE.len() * 2048],
            Self::Text => LINE.repeat(2048),
        }
    }
}

/// Compares output with what is expected, piece by piece.
///
/// Invariant: the first `seen` bytes were as expected, unless `wrong` is set.
struct Check {
    pattern: Vec<u8>,
    seen: usize,
    wrong: bool,
}

impl Check {
    fn new(kind: Kind) -> Self {
        Self {
            pattern: kind.pattern(),
            seen: 0,
            wrong: false,
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(64 << 10) {
            let at = self.seen % LINE.len();
            self.wrong |= piece != &self.pattern[at..at + piece.len()];
            self.seen += piece.len();
        }
    }

    /// Megabytes a second, if every byte was right.
    fn rate(&self, begin: Instant) -> Outcome<f64> {
        let seconds = begin.elapsed().as_secs_f64();
        if self.wrong || self.seen != BYTES {
            let seen = self.seen;
            return Err(format!("wrong output: {seen} bytes, wrong: {}", self.wrong).into());
        }
        Ok(BYTES as f64 / 1e6 / seconds)
    }
}

/// The limit: a loop that reads the pipe.
pub fn by_pipe(kind: Kind) -> Outcome<f64> {
    let mut check = Check::new(kind);
    let begin = Instant::now();
    limit::run(&["/bin/sh", "-c", &kind.script()], |bytes| {
        check.take(bytes)
    })?;
    check.rate(begin)
}

/// OpenSSH over its kept connection.
pub fn by_ssh(ssh: &Ssh, kind: Kind) -> Outcome<f64> {
    let mut check = Check::new(kind);
    let begin = Instant::now();
    ssh.run(&kind.script(), |bytes| check.take(bytes))?;
    check.rate(begin)
}

/// Through the daemon's stream, from the line that lets the writer begin to the exit event. Before
/// `client` is attached nothing may be written: more than the replay window would be gone by then.
/// `gate` is another client.
pub fn by_stream(client: &mut Client, gate: &mut Client, kind: Kind, id: &str) -> Outcome<f64> {
    let writer = script(id, &format!("read go && {}", kind.script()));
    client.start(&with(writer, json!({ "stdin": true })))?;
    client.attach(id, 0)?;
    let mut check = Check::new(kind);
    let begin = Instant::now();
    let line = "{\"data_b64\":\"Cg==\"}";
    gate.expect("POST", &format!("/v1/exec/{id}/stdin"), Some(line))?;
    let exit = client.read_to_exit(|event| match event {
        Event::Output { offset, bytes, .. } if offset == check.seen as u64 => {
            check.take(bytes);
            Ok(())
        }
        Event::Keepalive => Ok(()),
        other => Err(Failure::from(match other {
            Event::Gap(Gap { from, to }) => format!("a gap from {from} to {to}"),
            _ => "output at a wrong offset".to_owned(),
        })),
    })?;
    let rate = check.rate(begin)?;
    if exit.offset != BYTES as u64 || exit.code != Some(0) {
        return Err(format!("a wrong exit: {exit:?}").into());
    }
    client.ack(id)?;
    Ok(rate)
}
