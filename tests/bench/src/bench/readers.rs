//! Readers whose network carries so much and no more, for which the receive buffer is small: what they lose.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_recv_buffer_size;
use serde_json::json;

use crate::client::{script, with};
use crate::daemon::Daemon;
use crate::figures::{Goal, Line, Unit};
use crate::sse::Event;
use crate::{Failure, Outcome};

/// What is lost, what the network carries in bytes a second, and bytes of output.
const READERS: [(&str, f64, u64); 5] = [
    ("lost of 20 MB at 1 MB/s", 1e6, 20_000_000),
    ("lost of 200 MB at 5 MB/s", 5e6, 200_000_000),
    ("lost of 200 MB at 20 MB/s", 20e6, 200_000_000),
    ("lost of 200 MB at 50 MB/s", 50e6, 200_000_000),
    ("lost of 200 MB at 100 MB/s", 100e6, 200_000_000),
];
const RECEIVE_BYTES: usize = 64 << 10;

/// All at once, each with a command of its own.
pub fn run(root: &Path) -> Outcome<Vec<Line>> {
    let daemon = &Daemon::start(root, &[])?;
    thread::scope(|scope| {
        let readers = READERS.map(|(name, rate, bytes)| {
            let reader =
                scope.spawn(move || lost(daemon, rate, bytes).map_err(|it| it.to_string()));
            (name, reader)
        });
        let lines = readers.into_iter().map(|(name, reader)| {
            let mut line = Line::new(name, Unit::Mb, Goal::AtMost(0.0));
            let lost = reader.join().map_err(|_| "a reader failed")?;
            line.ours.push(lost? as f64 / 1e6);
            Ok(line)
        });
        lines.collect()
    })
}

/// Bytes that a reader at this rate was not given.
fn lost(daemon: &Daemon, rate: f64, bytes: u64) -> Outcome<u64> {
    let (mut client, id) = (daemon.client()?, format!("at-{rate}"));
    set_socket_recv_buffer_size(client.connection.reader.get_ref(), RECEIVE_BYTES)?;
    let writer = script(&id, &format!("read go && exec head -c {bytes} /dev/zero"));
    client.start(&with(writer, json!({ "stdin": true })))?;
    client.attach(&id, 0)?;
    let line = "{\"data_b64\":\"Cg==\"}";
    daemon
        .client()?
        .expect("POST", &format!("/v1/exec/{id}/stdin"), Some(line))?;
    let (began, mut at, mut lost) = (Instant::now(), 0, 0);
    let exit = client.read_to_exit(|event| {
        match event {
            Event::Output { offset, bytes, .. } if offset == at => at += bytes.len() as u64,
            Event::Gap(gap) if gap.from == at => {
                lost += gap.to - gap.from;
                at = gap.to;
            }
            Event::Keepalive => {}
            other => return Err(Failure::from(format!("not at {at}: {other:?}"))),
        }
        // The network's pace.
        let due = Duration::from_secs_f64((at - lost) as f64 / rate);
        thread::sleep(due.saturating_sub(began.elapsed()));
        Ok(())
    })?;
    client.ack(&id)?;
    match exit.offset == bytes && at == bytes {
        true => Ok(lost),
        false => Err(format!("a wrong end: {exit:?} at {at}").into()),
    }
}
