//! What a guest would listen with: an echo, a sink and a source.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use crate::Outcome;

const BLOCK: usize = 64 << 10;

/// The ports of an echo, a sink and a source, which serve as long as the process lives.
pub fn serve() -> Outcome<[u16; 3]> {
    let serves: [fn(TcpStream) -> Outcome<()>; 3] = [echo, sink, source];
    let mut ports = [0; 3];
    for (port, serve) in ports.iter_mut().zip(serves) {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        *port = listener.local_addr()?.port();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || {
                    let _ = stream.set_nodelay(true);
                    // A client that leaves is the usual end.
                    let _ = serve(stream);
                });
            }
        });
    }
    Ok(ports)
}

fn echo(mut stream: TcpStream) -> Outcome<()> {
    let mut buffer = vec![0; BLOCK];
    loop {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        stream.write_all(&buffer[..count])?;
    }
}

fn wanted(stream: &mut TcpStream) -> Outcome<usize> {
    let mut total = [0; 8];
    stream.read_exact(&mut total)?;
    Ok(u64::from_le_bytes(total) as usize)
}

fn sink(mut stream: TcpStream) -> Outcome<()> {
    let mut left = wanted(&mut stream)?;
    let mut buffer = vec![0; 256 << 10];
    while left > 0 {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            return Err("cut short".into());
        }
        left -= count;
    }
    stream.write_all(b"!")?;
    Ok(())
}

fn source(mut stream: TcpStream) -> Outcome<()> {
    let mut left = wanted(&mut stream)?;
    let buffer = vec![7; BLOCK];
    while left > 0 {
        let count = left.min(buffer.len());
        stream.write_all(&buffer[..count])?;
        left -= count;
    }
    stream.read_to_end(&mut Vec::new())?;
    Ok(())
}
