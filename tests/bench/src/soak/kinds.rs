//! The kinds of commands, and what each must come to.

use fastrand::Rng;
use serde_json::{Value, json};

use super::checks::Seen;
use crate::Outcome;
use crate::client::{Client, Ended, script, with};

/// How many kinds there are.
pub const KINDS: u64 = 9;

fn exits(code: i64, stdout: &str) -> Ended {
    Ended {
        code: Some(code),
        stdout: stdout.to_owned(),
        ..Ended::default()
    }
}

/// Runs one command of a kind under `id` to its end, all but the ack, and says what it must come to;
/// `None` when there is nothing to ack.
pub fn run(client: &mut Client, kind: u64, id: &str, random: &mut Rng) -> Outcome<Option<Ended>> {
    Ok(Some(match kind {
        0 => {
            let code = i64::from(random.u8(..));
            client.start(&script(id, &format!("exit {code}")))?;
            exits(code, "")
        }
        1 => both_streams(client, id, random)?,
        2 => reattached(client, id, random)?,
        3 => fed(client, id, random)?,
        4 => killed(client, id)?,
        5 => {
            // The client vanishes in mid-stream; the command goes on without it.
            let reader = script(id, "echo begin; read line; echo \"got $line\"");
            client.start(&with(reader, json!({ "stdin": true })))?;
            client.attach_and_vanish(id)?;
            client.stdin(id, b"on\n", true)?;
            exits(0, "begin\ngot on\n")
        }
        6 => {
            // What it leaves behind holds its pipes, until its group is ended.
            let leaver = script(id, "sleep 1000 & echo left; exit 3");
            client.start(&with(leaver, json!({ "reap_group_on_exit": true })))?;
            exits(3, "left\n")
        }
        7 => {
            // The answer to the start was lost, so it is sent again, maybe over another connection.
            let body = script(id, "echo once");
            client.start(&body)?;
            if random.bool() {
                client.reconnect()?;
            }
            client.start(&body)?;
            exits(0, "once\n")
        }
        _ => {
            let body = json!({ "exec_id": id, "command": ["/nonexistent/program"] }).to_string();
            client.expect_refusal("POST", "/v1/exec/start", Some(&body), 500, "spawn_failed")?;
            client.expect_refusal("GET", &format!("/v1/exec/{id}"), None, 404, "unknown_exec")?;
            return Ok(None);
        }
    }))
}

fn both_streams(client: &mut Client, id: &str, random: &mut Rng) -> Outcome<Ended> {
    let word = format!("é\\\"{}", random.u64(..1 << 40));
    let printer = "printf '%s\\n' \"$1\"; printf '%s\\n' \"$2\" >&2";
    let other = format!("{word}{word}");
    let argv = ["/bin/sh", "-c", printer, "sh", &word, &other];
    client.start(&json!({ "exec_id": id, "command": argv }))?;
    Ok(Ended {
        stderr: format!("{other}\n"),
        ..exits(0, &format!("{word}\n"))
    })
}

/// Megabyte at most, so that nothing leaves the replay window; left and attached again at will.
fn reattached(client: &mut Client, id: &str, random: &mut Rng) -> Outcome<Ended> {
    let lines = random.usize(1..=40_000);
    client.start(&script(id, &format!("seq -f '%011.0f' 1 {lines}")))?;
    let mut seen = Seen::default();
    loop {
        let most = random.u64(..6 + lines as u64 * 12);
        if client.read_from(id, &mut seen, most)?.is_some() {
            break;
        }
        client.reconnect()?;
    }
    let text: String = (1..=lines)
        .map(|number| format!("{number:011}\n"))
        .collect();
    if seen != [text.clone().into_bytes(), Vec::new()] {
        return Err(format!("{id}: the stream differs in {} bytes", text.len()).into());
    }
    Ok(exits(0, &text))
}

fn fed(client: &mut Client, id: &str, random: &mut Rng) -> Outcome<Ended> {
    client.start(&json!({ "exec_id": id, "command": ["cat"], "stdin": true }))?;
    let length = random.usize(..20_000);
    let bytes: Vec<u8> = std::iter::repeat_with(|| random.u8(..))
        .take(length)
        .collect();
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let taken = rest.len().min(random.usize(1..=9000));
        client.stdin(id, &rest[..taken], false)?;
        rest = &rest[taken..];
    }
    client.stdin(id, b"", true)?;
    let mut seen = Seen::default();
    let exit = client.read_from(id, &mut seen, u64::MAX)?;
    if exit.is_none() || seen[0] != bytes {
        return Err(format!("{id}: cat gave back something else").into());
    }
    Ok(exits(0, &String::from_utf8_lossy(&bytes)))
}

fn killed(client: &mut Client, id: &str) -> Outcome<Ended> {
    client.start(&script(id, "sleep 1000 & echo ready; wait; echo never"))?;
    // Killed only once it said something, so that what it must have said is known.
    let mut seen = Seen::default();
    client.read_from(id, &mut seen, 6)?;
    client.reconnect()?;
    let answer = client.expect("POST", &format!("/v1/exec/{id}/kill"), None)?;
    if serde_json::from_str::<Value>(&answer)?["killed"] != true {
        return Err(format!("{id}: not killed: {answer}").into());
    }
    Ok(Ended {
        code: None,
        signal: Some(15),
        ..exits(0, "ready\n")
    })
}
