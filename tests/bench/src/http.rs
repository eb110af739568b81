//! One kept HTTP/1.1 connection over a blocking socket. What is read from it is the body under way.

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustix::fs::sendfile;

use crate::daemon::TOKEN;
use crate::{Failure, Outcome};

/// What fits into a processor's own cache.
const BUFFER_BYTES: usize = 256 << 10;
/// No answer of the daemon takes this long but a stream, which sends keepalives.
const PATIENCE: Duration = Duration::from_secs(120);

/// Connects.
pub fn connect(address: SocketAddr) -> Outcome<BufReader<TcpStream>> {
    let socket = TcpStream::connect(address)?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    Ok(BufReader::with_capacity(BUFFER_BYTES, socket))
}

/// Made anew where an answer said `Connection: close`, as Deno's server says behind a body that did
/// not arrive in one piece with its head.
///
/// Invariant: `left` bytes of the body under way, or of its chunk, are unread; behind them there are
/// more chunks if it is `chunked`.
pub struct Connection {
    /// What is received; behind the head of a 101 it is the tunnel.
    pub reader: BufReader<TcpStream>,
    /// Whom it is to.
    pub address: SocketAddr,
    left: usize,
    chunked: bool,
    /// The answer under way said that no other follows on this connection.
    closes: bool,
}

impl Connection {
    /// Connects.
    pub fn open(address: SocketAddr) -> Outcome<Self> {
        Ok(Self {
            reader: connect(address)?,
            address,
            left: 0,
            chunked: false,
            closes: false,
        })
    }

    /// Sends a request, whose `rest` is what follows the head's first lines, and reads the head of
    /// its answer; returns the status. The body still unread of the answer before is dropped.
    pub fn send(&mut self, method: &str, path: &str, rest: &str) -> Outcome<u16> {
        self.begin(method, path, rest)
            .and_then(|()| self.read_head())
            .map_err(|failure| Failure::from(format!("{method} {path}: {failure}")))
    }

    /// Sends a request with this body or none; returns the status.
    pub fn request(&mut self, method: &str, path: &str, body: Option<&str>) -> Outcome<u16> {
        match body {
            None if method == "GET" => self.send(method, path, "\r\n"),
            _ => {
                let body = body.unwrap_or_default();
                let rest = format!("content-length: {}\r\n\r\n{body}", body.len());
                self.send(method, path, &rest)
            }
        }
    }

    /// Sends a request and reads all of its answer.
    pub fn fetch(
        &mut self,
        method: &str,
        path: &str,
        body: Option<&str>,
    ) -> Outcome<(u16, String)> {
        let status = self.request(method, path, body)?;
        let mut answer = String::new();
        self.read_to_string(&mut answer)?;
        Ok((status, answer))
    }

    /// PUTs a body that is `piece` so many times, declared or in chunks; returns the status.
    pub fn put(&mut self, path: &str, piece: &[u8], times: usize, chunked: bool) -> Outcome<u16> {
        let length = piece.len();
        let framing = match chunked {
            true => "transfer-encoding: chunked\r\n\r\n".to_owned(),
            false => format!("content-length: {}\r\n\r\n", length * times),
        };
        self.begin("PUT", path, &framing)?;
        let framed = match chunked {
            true => [format!("{length:x}\r\n").as_bytes(), piece, b"\r\n"].concat(),
            false => piece.to_vec(),
        };
        let socket = self.reader.get_mut();
        for _ in 0..times {
            socket.write_all(&framed)?;
        }
        if chunked {
            socket.write_all(b"0\r\n\r\n")?;
        }
        self.read_head()
    }

    /// PUTs a file by the kernel alone, for `io::copy` would read and write it in pieces.
    pub fn put_file(&mut self, path: &str, file: &File) -> Outcome<u16> {
        let length = file.metadata()?.len();
        self.begin("PUT", path, &format!("content-length: {length}\r\n\r\n"))?;
        let mut sent = 0;
        while sent < length {
            let left = (length - sent) as usize;
            if sendfile(self.reader.get_ref(), file, Some(&mut sent), left)? == 0 {
                return Err("the file became shorter".into());
            }
        }
        self.read_head()
    }

    fn begin(&mut self, method: &str, path: &str, rest: &str) -> Outcome<()> {
        self.drain(|_| Ok(()))?;
        if std::mem::take(&mut self.closes) {
            self.reader = connect(self.address)?;
        }
        let host = self.address;
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {TOKEN}\r\n{rest}"
        );
        Ok(self.reader.get_mut().write_all(request.as_bytes())?)
    }

    /// Gives the rest of the body to `each`; returns its size.
    pub fn drain(&mut self, mut each: impl FnMut(&[u8]) -> io::Result<()>) -> Outcome<u64> {
        let mut bytes = 0;
        loop {
            let piece = self.fill_buf()?;
            let count = piece.len();
            if count == 0 {
                return Ok(bytes);
            }
            each(piece)?;
            self.consume(count);
            bytes += count as u64;
        }
    }

    fn read_head(&mut self) -> Outcome<u16> {
        let status = self.line()?;
        let code = status.split(' ').nth(1);
        let code = code.ok_or("an answer without a status")?.parse()?;
        loop {
            let line = self.line()?.to_ascii_lowercase();
            match line
                .split_once(':')
                .map(|(name, value)| (name, value.trim()))
            {
                None => return Ok(code),
                Some(("content-length", length)) => self.left = length.parse()?,
                Some(("connection", value)) => self.closes = value == "close",
                Some(("transfer-encoding", _)) => self.chunked = true,
                Some(_) => {}
            }
        }
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.reader.read_line(&mut line)?;
        match line.strip_suffix("\r\n") {
            Some(line) => Ok(line.to_owned()),
            None => Err(ErrorKind::UnexpectedEof.into()),
        }
    }
}

impl BufRead for Connection {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.left == 0 && self.chunked {
            let mut size = self.line()?;
            if size.is_empty() {
                // The end of the chunk before.
                size = self.line()?;
            }
            self.left = usize::from_str_radix(&size, 16).map_err(io::Error::other)?;
            if self.left == 0 {
                self.chunked = false;
                while !self.line()?.is_empty() {}
            }
        }
        if self.left == 0 {
            return Ok(&[]);
        }
        match self.reader.fill_buf()? {
            [] => Err(ErrorKind::UnexpectedEof.into()),
            held => Ok(&held[..held.len().min(self.left)]),
        }
    }

    fn consume(&mut self, count: usize) {
        self.left -= count;
        self.reader.consume(count);
    }
}

impl Read for Connection {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(into)?;
        self.consume(count);
        Ok(count)
    }
}
