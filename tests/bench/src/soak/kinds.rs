//! The kinds of commands, and what each must come to.

use super::random::Random;
use super::seat::Seat;
use crate::client::start_body;
use crate::{Outcome, base64};

/// How many kinds there are.
pub const KINDS: u64 = 9;

/// What a command must come to.
pub struct Expected {
    /// Exit code.
    pub code: Option<i64>,
    /// Signal.
    pub signal: Option<i64>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

fn exits(code: i64, stdout: &str) -> Expected {
    Expected {
        code: Some(code),
        signal: None,
        stdout: stdout.to_owned(),
        stderr: String::new(),
    }
}

fn shell(id: &str, script: &str, more: &str) -> String {
    start_body(id, &[script], &format!(",\"shell\":true{more}"))
}

/// Runs one command of a kind under `id` to its end, all but the ack, and says what it must come to;
/// `None` when there is nothing to ack.
pub fn run(seat: &mut Seat, kind: u64, id: &str, random: &mut Random) -> Outcome<Option<Expected>> {
    Ok(Some(match kind {
        0 => {
            let code = random.below(256) as i64;
            seat.client.start(&shell(id, &format!("exit {code}"), ""))?;
            exits(code, "")
        }
        1 => both_streams(seat, id, random)?,
        2 => reattached(seat, id, random)?,
        3 => fed(seat, id, random)?,
        4 => killed(seat, id)?,
        5 => {
            // The caller vanishes in mid-stream; the command goes on without it.
            let script = "echo begin; read line; echo \"got $line\"";
            seat.client.start(&shell(id, script, ",\"stdin\":true"))?;
            seat.attach_and_vanish(id)?;
            seat.stdin(id, b"on\n", true)?;
            exits(0, "begin\ngot on\n")
        }
        6 => {
            // What it leaves behind holds its pipes, until its group is ended.
            let more = ",\"reap_group_on_exit\":true";
            seat.client
                .start(&shell(id, "sleep 1000 & echo left; exit 3", more))?;
            exits(3, "left\n")
        }
        7 => {
            // The answer to the start was lost, so it is sent again, maybe over another connection.
            let body = shell(id, "echo once", "");
            seat.client.start(&body)?;
            if random.below(2) == 0 {
                seat.reconnect()?;
            }
            seat.client.start(&body)?;
            exits(0, "once\n")
        }
        _ => {
            let body = start_body(id, &["/nonexistent/program"], "");
            seat.expect_refusal("POST", "/v1/exec/start", Some(&body), 500, "spawn_failed")?;
            seat.expect_refusal("GET", &format!("/v1/exec/{id}"), None, 404, "unknown_exec")?;
            return Ok(None);
        }
    }))
}

fn both_streams(seat: &mut Seat, id: &str, random: &mut Random) -> Outcome<Expected> {
    let word = format!("é\\\"{}", random.below(1 << 40));
    let script = "printf '%s\\n' \"$1\"; printf '%s\\n' \"$2\" >&2";
    let other = format!("{word}{word}");
    let argv = ["/bin/sh", "-c", script, "sh", &word, &other];
    seat.client.start(&start_body(id, &argv, ""))?;
    let (stdout, stderr) = (format!("{word}\n"), format!("{other}\n"));
    let expected = exits(0, &stdout);
    Ok(Expected { stderr, ..expected })
}

/// Megabyte at most, so that nothing leaves the replay window; left and attached again at will.
fn reattached(seat: &mut Seat, id: &str, random: &mut Random) -> Outcome<Expected> {
    let lines = 1 + random.below(40_000);
    let script = format!("seq -f '%011.0f' 1 {lines}");
    seat.client.start(&shell(id, &script, ""))?;
    let mut seen = Vec::new();
    loop {
        let most = random.below(6 + lines * 12) as usize;
        if seat.read_from(id, &mut seen, most)? {
            break;
        }
        seat.reconnect()?;
    }
    let text: String = (1..=lines)
        .map(|number| format!("{number:011}\n"))
        .collect();
    if seen != text.as_bytes() {
        return Err(format!("{id}: the stream differs after {} bytes", seen.len()).into());
    }
    Ok(exits(0, &text))
}

fn fed(seat: &mut Seat, id: &str, random: &mut Random) -> Outcome<Expected> {
    seat.client
        .start(&start_body(id, &["cat"], ",\"stdin\":true"))?;
    let length = random.below(20_000) as usize;
    let bytes = random.bytes(length);
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let taken = rest.len().min(1 + random.below(9000) as usize);
        seat.stdin(id, &rest[..taken], false)?;
        rest = &rest[taken..];
    }
    seat.stdin(id, b"", true)?;
    let mut seen = Vec::new();
    if !seat.read_from(id, &mut seen, usize::MAX)? || seen != bytes {
        return Err(format!("{id}: cat gave back something else").into());
    }
    Ok(exits(0, &String::from_utf8_lossy(&bytes)))
}

fn killed(seat: &mut Seat, id: &str) -> Outcome<Expected> {
    let script = "sleep 1000 & echo ready; wait; echo never";
    seat.client.start(&shell(id, script, ""))?;
    // Killed only once it said something, so that what it must have said is known.
    let mut seen = Vec::new();
    seat.read_from(id, &mut seen, 6)?;
    seat.reconnect()?;
    let answer = seat
        .client
        .expect("POST", &format!("/v1/exec/{id}/kill"), None)?;
    if crate::json::flag(&answer, "killed") != Some(true) {
        return Err(format!("{id}: not killed: {answer}").into());
    }
    Ok(Expected {
        code: None,
        signal: Some(15),
        ..exits(0, "ready\n")
    })
}

/// The body of a stdin request.
pub fn stdin_body(bytes: &[u8], eof: bool) -> String {
    let data = base64::encode(bytes);
    let signal = if eof { "\"eof\"" } else { "null" };
    format!("{{\"data_b64\":\"{data}\",\"signal\":{signal}}}")
}
