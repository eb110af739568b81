//! One kept HTTP/1.1 connection over a blocking socket.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::{Failure, Outcome};

const BUFFER_BYTES: usize = 256 << 10;
/// No answer of the daemon takes this long but a stream, which sends keepalives.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug)]
enum Framing {
    /// So many bytes are left.
    Length(usize),
    /// So many bytes are left of the chunk under way; `None` before a chunk's head.
    Chunked(Option<usize>),
    Done,
}

/// Made anew where an answer said `Connection: close`, as Deno's server says behind a body that did
/// not arrive in one piece with its head.
///
/// Invariant: `buffer[start..end]` was received and not yet used; `framing` is that of the body
/// under way, `Done` between answers.
pub struct Connection {
    socket: TcpStream,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    framing: Framing,
    address: SocketAddr,
    head: String,
    /// The answer under way said that no other follows on this connection.
    closes: bool,
}

fn connect(address: SocketAddr) -> Outcome<TcpStream> {
    let socket = TcpStream::connect(address)?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    Ok(socket)
}

impl Connection {
    /// Connects; `token` goes with every request.
    pub fn open(address: SocketAddr, token: &str) -> Outcome<Self> {
        Ok(Self {
            socket: connect(address)?,
            buffer: vec![0; BUFFER_BYTES],
            start: 0,
            end: 0,
            framing: Framing::Done,
            address,
            closes: false,
            head: format!("host: {address}\r\nauthorization: Bearer {token}\r\n"),
        })
    }

    /// Sends a request and reads the head of its answer; returns the status. The body that is
    /// still unread of the answer before is read and dropped.
    pub fn request(&mut self, method: &str, path: &str, body: Option<&str>) -> Outcome<u16> {
        self.ready()?;
        let body = body.unwrap_or_default();
        let length = match method {
            "GET" => String::new(),
            _ => format!("content-length: {}\r\n", body.len()),
        };
        let head = &self.head;
        let request = format!("{method} {path} HTTP/1.1\r\n{head}{length}\r\n{body}");
        let told = |failure: Failure| Failure::from(format!("{method} {path}: {failure}"));
        self.socket
            .write_all(request.as_bytes())
            .map_err(|error| told(error.into()))?;
        self.read_head().map_err(told)
    }

    /// PUTs a body that is `piece` so many times, declared or in chunks; returns the status.
    pub fn put(&mut self, path: &str, piece: &[u8], times: usize, chunked: bool) -> Outcome<u16> {
        self.ready()?;
        let framing = if chunked {
            "transfer-encoding: chunked".to_owned()
        } else {
            format!("content-length: {}", piece.len() * times)
        };
        let head = &self.head;
        write!(
            self.socket,
            "PUT {path} HTTP/1.1\r\n{head}{framing}\r\n\r\n"
        )?;
        let mut framed = piece.to_vec();
        if chunked {
            framed = format!("{:x}\r\n", piece.len()).into_bytes();
            framed.extend_from_slice(piece);
            framed.extend_from_slice(b"\r\n");
        }
        for _ in 0..times {
            self.socket.write_all(&framed)?;
        }
        if chunked {
            self.socket.write_all(b"0\r\n\r\n")?;
        }
        self.read_head()
    }

    /// Reads and drops what is unread of the answer before, behind which there may be no other on this connection.
    fn ready(&mut self) -> Outcome<()> {
        let mut unread = Vec::new();
        while self.read_body(&mut unread)? {
            unread.clear();
        }
        if std::mem::take(&mut self.closes) {
            self.socket = connect(self.address)?;
            (self.start, self.end) = (0, 0);
        }
        Ok(())
    }

    /// Sends a request and reads all of its answer.
    pub fn fetch(
        &mut self,
        method: &str,
        path: &str,
        body: Option<&str>,
    ) -> Outcome<(u16, String)> {
        let status = self.request(method, path, body)?;
        let mut answer = Vec::new();
        while self.read_body(&mut answer)? {}
        Ok((status, String::from_utf8(answer)?))
    }

    /// Adds what has arrived of the body to `out`; false at its end.
    pub fn read_body(&mut self, out: &mut Vec<u8>) -> Outcome<bool> {
        let before = out.len();
        while out.len() == before {
            match self.framing {
                Framing::Done => return Ok(false),
                Framing::Length(0) => self.framing = Framing::Done,
                Framing::Length(left) => self.framing = Framing::Length(self.take(left, out)?),
                Framing::Chunked(None) => {
                    let size = usize::from_str_radix(self.line()?.trim(), 16)?;
                    if size == 0 {
                        while !self.line()?.is_empty() {}
                        self.framing = Framing::Done;
                    } else {
                        self.framing = Framing::Chunked(Some(size));
                    }
                }
                Framing::Chunked(Some(left)) => {
                    let left = self.take(left, out)?;
                    self.framing = Framing::Chunked(Some(left));
                    if left == 0 {
                        self.line()?;
                        self.framing = Framing::Chunked(None);
                    }
                }
            }
        }
        Ok(true)
    }

    /// Moves up to `left` bytes to `out`; returns what is left then.
    fn take(&mut self, left: usize, out: &mut Vec<u8>) -> Outcome<usize> {
        if self.start == self.end {
            self.fill()?;
        }
        let count = left.min(self.end - self.start);
        out.extend_from_slice(&self.buffer[self.start..self.start + count]);
        self.start += count;
        Ok(left - count)
    }

    fn read_head(&mut self) -> Outcome<u16> {
        let status = self.line()?;
        let code = status
            .split(' ')
            .nth(1)
            .ok_or("an answer without a status")?
            .parse()?;
        self.framing = Framing::Length(0);
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Ok(code);
            }
            let (name, value) = line.split_once(':').ok_or("a header without a colon")?;
            match name.to_ascii_lowercase().as_str() {
                "content-length" => self.framing = Framing::Length(value.trim().parse()?),
                "connection" => self.closes = value.trim().eq_ignore_ascii_case("close"),
                "transfer-encoding" => self.framing = Framing::Chunked(None),
                _ => {}
            }
        }
    }

    fn line(&mut self) -> Outcome<String> {
        let mut searched = self.start;
        loop {
            if let Some(at) = self.buffer[searched..self.end]
                .iter()
                .position(|b| *b == b'\n')
            {
                let line = &self.buffer[self.start..searched + at];
                let line = std::str::from_utf8(line)?.trim_end_matches('\r').to_owned();
                self.start = searched + at + 1;
                return Ok(line);
            }
            let held = self.end - self.start;
            self.fill()?;
            searched = self.start + held;
        }
    }

    /// Receives more behind what is held.
    fn fill(&mut self) -> Outcome<()> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        match self.socket.read(&mut self.buffer[self.end..])? {
            0 => Err("the connection ended in an answer".into()),
            count => {
                self.end += count;
                Ok(())
            }
        }
    }
}
