//! One client of the daemon: a kept connection and the exec routes.

use std::net::SocketAddr;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::Outcome;
use crate::http::Connection;
use crate::sse::{Event, Events, Exit};

/// What a poll or an ack says of an exec that has ended.
#[derive(Debug, Default, Deserialize, PartialEq, Eq)]
pub struct Ended {
    /// Exit code, unless a signal killed it.
    #[serde(rename = "exit_code")]
    pub code: Option<i64>,
    /// Signal that killed it.
    pub signal: Option<i64>,
    /// Whether a stream was longer than what is captured.
    pub truncated: bool,
    /// Whether the outcome was published with its pipes still open.
    pub writers_may_be_alive: bool,
    /// Captured standard output, decoded.
    pub stdout: String,
    /// Captured standard error, decoded.
    pub stderr: String,
}

/// A client with a connection of its own.
pub struct Client {
    /// Its connection, for what has no method here.
    pub connection: Connection,
}

/// A start request for a shell script.
pub fn script(id: &str, script: &str) -> Value {
    json!({ "exec_id": id, "command": [script], "shell": true })
}

/// `body` with more fields, which it does not have yet.
pub fn with(mut body: Value, more: Value) -> Value {
    if let (Value::Object(body), Value::Object(more)) = (&mut body, more) {
        body.extend(more);
    }
    body
}

impl Client {
    /// Connects.
    pub fn open(address: SocketAddr) -> Outcome<Self> {
        let connection = Connection::open(address)?;
        Ok(Self { connection })
    }

    /// Drops the connection, with whatever is under way on it, and makes another.
    pub fn reconnect(&mut self) -> Outcome<()> {
        self.connection = Connection::open(self.connection.address)?;
        Ok(())
    }

    /// An answer that must be 200.
    pub fn expect(&mut self, method: &str, path: &str, body: Option<&str>) -> Outcome<String> {
        match self.connection.fetch(method, path, body)? {
            (200, answer) => Ok(answer),
            (status, answer) => Err(format!("{method} {path} answered {status}: {answer}").into()),
        }
    }

    /// Starts a command.
    pub fn start(&mut self, body: &Value) -> Outcome<()> {
        let body = body.to_string();
        self.expect("POST", "/v1/exec/start", Some(&body)).map(drop)
    }

    /// Polls until the command has ended; asks again at once, for the daemon holds a young poll.
    pub fn wait(&mut self, id: &str) -> Outcome<Ended> {
        let path = format!("/v1/exec/{id}");
        loop {
            let answer: Value = serde_json::from_str(&self.expect("GET", &path, None)?)?;
            if answer["phase"] != "running" {
                return Ok(Ended::deserialize(answer)?);
            }
        }
    }

    /// Acknowledges.
    pub fn ack(&mut self, id: &str) -> Outcome<Ended> {
        let answer = self.expect("POST", &format!("/v1/exec/{id}/ack"), None)?;
        Ok(serde_json::from_str(&answer)?)
    }

    /// Follows the stream from `offset` to its exit, giving each event before it to `each`.
    pub fn follow(
        &mut self,
        id: &str,
        offset: u64,
        each: impl FnMut(Event<'_>) -> Outcome<()>,
    ) -> Outcome<Exit> {
        self.attach(id, offset)?;
        self.read_to_exit(each)
    }

    /// Begins to follow the stream: once this returns, the daemon has the reader.
    pub fn attach(&mut self, id: &str, offset: u64) -> Outcome<()> {
        let path = format!("/v1/exec/{id}/stream?offset={offset}");
        match self.connection.request("GET", &path, None)? {
            200 => Ok(()),
            status => Err(format!("GET {path} answered {status}").into()),
        }
    }

    /// Reads the stream attached to, giving each event before its exit to `each`.
    pub fn read_to_exit(
        &mut self,
        mut each: impl FnMut(Event<'_>) -> Outcome<()>,
    ) -> Outcome<Exit> {
        let mut events = Events::default();
        while let Some(event) = events.next(&mut self.connection)? {
            match event {
                Event::Exit(exit) => return Ok(exit),
                event => each(event)?,
            }
        }
        Err("a stream ended without an exit".into())
    }
}
