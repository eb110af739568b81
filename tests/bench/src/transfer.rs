//! Bodies of megabytes over bare connections, with as little work for the client as there can be, so
//! that it is not what is measured.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::daemon::TOKEN;

/// What fits into a processor's own cache.
const BUFFER_BYTES: usize = 256 << 10;
const PATIENCE: Duration = Duration::from_secs(120);

/// Connects.
pub fn connect(address: SocketAddr) -> Outcome<TcpStream> {
    let socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    Ok(socket)
}

/// PUTs a file. Returns the seconds until the answer.
pub fn upload(address: SocketAddr, target: &str, body: &Path) -> Outcome<f64> {
    let begin = Instant::now();
    put(&mut connect(address)?, target, body)?;
    Ok(begin.elapsed().as_secs_f64())
}

/// PUTs a file over a connection.
pub fn put(socket: &mut TcpStream, target: &str, body: &Path) -> Outcome<()> {
    let file = File::open(body)?;
    let length = file.metadata()?.len();
    let head = format!(
        "PUT {target} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {TOKEN}\r\n\
         content-length: {length}\r\n\r\n"
    );
    socket.write_all(head.as_bytes())?;
    send(&file, length, socket)?;
    let mut answer = [0; 1024];
    let count = socket.read(&mut answer)?;
    match answer.get(9..12) {
        Some(b"201" | b"204") => Ok(()),
        _ => {
            let answer = String::from_utf8_lossy(&answer[..count]);
            Err(format!("PUT {target} answered {answer}").into())
        }
    }
}

/// Sends a file from its beginning by the kernel alone: `io::copy` would read and write it in pieces.
fn send(file: &File, length: u64, socket: &TcpStream) -> io::Result<()> {
    let mut sent: libc::off_t = 0;
    while (sent as u64) < length {
        let left = (length - sent as u64) as usize;
        // SAFETY: sendfile takes descriptors, which both stay open, and the address of an offset that
        // it moves on.
        let result =
            unsafe { libc::sendfile(socket.as_raw_fd(), file.as_raw_fd(), &raw mut sent, left) };
        match result {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            1.. => {}
            _ => return Err(io::Error::last_os_error()),
        }
    }
    Ok(())
}

/// GETs into a file, or to nowhere. Returns the seconds until the end and the bytes.
pub fn download(address: SocketAddr, target: &str, into: Option<&Path>) -> Outcome<(f64, u64)> {
    let mut out = into.map(File::create).transpose()?;
    let begin = Instant::now();
    let mut socket = connect(address)?;
    // HTTP/1.0 has no chunks: what follows the head is the body.
    write!(
        socket,
        "GET {target} HTTP/1.0\r\nhost: bench\r\nauthorization: Bearer {TOKEN}\r\n\r\n"
    )?;
    let mut buffer = vec![0; BUFFER_BYTES];
    let (mut held, mut bytes, mut in_body) = (0, 0, false);
    loop {
        let count = socket.read(&mut buffer[held..])?;
        if count == 0 {
            break;
        }
        let mut piece = &buffer[..held + count];
        if !in_body {
            let Some(end) = piece.windows(4).position(|window| window == b"\r\n\r\n") else {
                held += count;
                continue;
            };
            if piece.get(9..12) != Some(b"200") {
                return Err(format!("GET {target} was refused").into());
            }
            piece = &piece[end + 4..];
            (in_body, held) = (true, 0);
        }
        bytes += piece.len() as u64;
        // `io::copy` would do it in pieces of 8 KiB.
        if let Some(out) = &mut out {
            out.write_all(piece)?;
        }
    }
    Ok((begin.elapsed().as_secs_f64(), bytes))
}
