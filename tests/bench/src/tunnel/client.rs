//! The other end of a tunnel: a client that measures, over bare TCP, a WebSocket, or Noise in one.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use guestd::noise::crypto::{Primitives, TAG_BYTES, public_key};
use snow::TransportState;

use crate::Outcome;

const FRAME: usize = 64 << 10;
const CHUNK: usize = 32 << 10;
const ROUNDS: usize = 3000;
/// The keys of the published vectors.
const VM_SEED: [u8; 32] = [0x11; 32];
const HOST_SEED: [u8; 32] = [0x22; 32];

/// What is measured.
#[derive(Clone, Copy)]
pub enum Metric {
    /// The median round trip of a byte, in microseconds.
    RoundTrip,
    /// Megabytes a second to the sink.
    Up,
    /// Megabytes a second from the source.
    Down,
}

/// How a client speaks: to the port itself, or through a WebSocket with a path and a token.
#[derive(Clone, Copy)]
pub enum Speech<'a> {
    /// As it is.
    Tcp,
    /// In WebSocket messages.
    Ws(&'a str, &'a str),
    /// In Noise messages, by the keys of the published vectors.
    Noise(&'a str, &'a str),
}

/// Measures one metric at an address, over so many bytes.
pub fn run(speech: Speech<'_>, metric: Metric, bytes: usize, at: SocketAddr) -> Outcome<f64> {
    let stream = TcpStream::connect(at)?;
    stream.set_nodelay(true)?;
    measure(Client::new(speech, stream)?, metric, bytes)
}

/// Sends to the sink of a tunnel until it is told to stop.
pub fn flood(speech: Speech<'_>, at: SocketAddr, stop: &AtomicBool) -> Outcome<()> {
    let mut client = Client::new(speech, TcpStream::connect(at)?)?;
    client.say(&u64::MAX.to_le_bytes())?;
    let frame = masked(&vec![7; FRAME]);
    while !stop.load(Ordering::Relaxed) {
        client.stream.write_all(&frame)?;
    }
    Ok(())
}

/// A tunnel through which nothing goes; it lasts as long as the result.
pub fn idle(speech: Speech<'_>, at: SocketAddr) -> Outcome<impl Sized> {
    Client::new(speech, TcpStream::connect(at)?)
}

fn measure(mut client: Client, metric: Metric, bytes: usize) -> Outcome<f64> {
    match metric {
        Metric::RoundTrip => {
            let mut spans = Vec::with_capacity(ROUNDS);
            for _ in 0..ROUNDS {
                let start = Instant::now();
                client.say(b"x")?;
                client.hear(1)?;
                spans.push(start.elapsed().as_secs_f64() * 1e6);
            }
            spans.sort_by(f64::total_cmp);
            Ok(spans[ROUNDS / 2])
        }
        Metric::Up => {
            let start = Instant::now();
            client.say(&(bytes as u64).to_le_bytes())?;
            let payload = vec![7; FRAME];
            let prepared = client.prepare(&payload);
            for _ in 0..bytes / FRAME {
                match &prepared {
                    Some(frame) => client.stream.write_all(frame)?,
                    None => client.say(&payload)?,
                }
            }
            client.hear(1)?;
            Ok(bytes as f64 / 1e6 / start.elapsed().as_secs_f64())
        }
        Metric::Down => {
            let start = Instant::now();
            client.say(&(bytes as u64).to_le_bytes())?;
            client.hear(bytes)?;
            Ok(bytes as f64 / 1e6 / start.elapsed().as_secs_f64())
        }
    }
}

enum Kind {
    Tcp,
    Ws,
    Noise(Box<TransportState>),
}

/// Invariant: `buffer[start..end]` arrived and is not used yet; `left` bytes of the current frame's
/// payload are still to be used. `plain` is what a frame is opened into, `sealed` what is sent.
struct Client {
    kind: Kind,
    stream: TcpStream,
    buffer: Vec<u8>,
    plain: Vec<u8>,
    sealed: Vec<u8>,
    start: usize,
    end: usize,
    left: usize,
}

impl Client {
    fn new(speech: Speech<'_>, stream: TcpStream) -> Outcome<Self> {
        let mut client = Self {
            kind: Kind::Tcp,
            stream,
            buffer: vec![0; 512 << 10],
            plain: vec![0; CHUNK + TAG_BYTES],
            sealed: vec![0; 2 * FRAME],
            start: 0,
            end: 0,
            left: 0,
        };
        let (path, token) = match speech {
            Speech::Tcp => return Ok(client),
            Speech::Ws(path, token) | Speech::Noise(path, token) => (path, token),
        };
        write!(
            client.stream,
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
             Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Protocol: binary\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            client.stream.read_exact(&mut byte)?;
            head.push(byte[0]);
        }
        if !head.starts_with(b"HTTP/1.1 101 ") {
            return Err("not upgraded".into());
        }
        client.kind = Kind::Ws;
        if matches!(speech, Speech::Noise(..)) {
            client.shake_hands()?;
        }
        Ok(client)
    }

    fn shake_hands(&mut self) -> Outcome<()> {
        let other = public_key(&VM_SEED);
        let mut state = snow::Builder::with_resolver(
            "Noise_KK_25519_ChaChaPoly_BLAKE2s".parse()?,
            Box::new(Primitives),
        )
        .local_private_key(&HOST_SEED)?
        .remote_public_key(&other)?
        .build_initiator()?;
        let mut message = [0; 256];
        let length = state.write_message(&[], &mut message)?;
        self.say(&message[..length])?;
        let (start, length) = self.whole()?;
        state.read_message(&self.buffer[start..start + length], &mut message)?;
        self.kind = Kind::Noise(Box::new(state.into_transport_mode()?));
        Ok(())
    }

    /// What goes out for `payload` each time, where it does not change.
    fn prepare(&self, payload: &[u8]) -> Option<Vec<u8>> {
        match self.kind {
            Kind::Tcp => Some(payload.to_vec()),
            Kind::Ws => Some(masked(payload)),
            Kind::Noise(_) => None,
        }
    }

    fn say(&mut self, payload: &[u8]) -> Outcome<()> {
        match &mut self.kind {
            Kind::Tcp => self.stream.write_all(payload)?,
            Kind::Ws => self.stream.write_all(&masked(payload))?,
            Kind::Noise(state) => {
                let mut used = 0;
                for chunk in payload.chunks(CHUNK) {
                    let head = masked_head(chunk.len() + TAG_BYTES);
                    self.sealed[used..used + head.len()].copy_from_slice(&head);
                    used += head.len();
                    let length = state.write_message(chunk, &mut self.sealed[used..])?;
                    mask(&mut self.sealed[used..used + length]);
                    used += length;
                }
                self.stream.write_all(&self.sealed[..used])?;
            }
        }
        Ok(())
    }

    fn hear(&mut self, bytes: usize) -> Outcome<()> {
        let mut heard = 0;
        while heard < bytes {
            heard += match self.kind {
                Kind::Tcp => self
                    .stream
                    .read(&mut self.buffer)
                    .map(Some)?
                    .filter(|&n| n > 0),
                Kind::Ws => self.piece()?,
                Kind::Noise(_) => Some(self.message()?),
            }
            .ok_or("cut short")?;
        }
        Ok(())
    }

    /// Opens the next frame, which is in the buffer as a whole, and returns the plaintext's size.
    fn message(&mut self) -> Outcome<usize> {
        let (start, length) = self.whole()?;
        let Kind::Noise(state) = &mut self.kind else {
            return Err("not a Noise tunnel".into());
        };
        let sealed = &self.buffer[start..start + length];
        Ok(state.read_message(sealed, &mut self.plain)?)
    }

    /// Where the payload of the next frame is, once all of it is in the buffer.
    fn whole(&mut self) -> Outcome<(usize, usize)> {
        self.head()?;
        let length = std::mem::take(&mut self.left);
        while self.end - self.start < length {
            self.fill()?;
        }
        self.start += length;
        Ok((self.start - length, length))
    }

    /// Some payload of the current frame; it ends at `start` of the buffer.
    fn piece(&mut self) -> Outcome<Option<usize>> {
        self.head()?;
        if self.start == self.end {
            self.fill()?;
        }
        let count = self.left.min(self.end - self.start);
        self.start += count;
        self.left -= count;
        Ok(Some(count))
    }

    /// Reads the next frame's head, unless some payload is left.
    fn head(&mut self) -> Outcome<()> {
        while self.left == 0 {
            let head = &self.buffer[self.start..self.end];
            let (size, length) = match head {
                [0x82, 126, a, b, ..] => (4, usize::from(u16::from_be_bytes([*a, *b]))),
                [0x82, 127, _, _, _, _, a, b, c, d, ..] => {
                    (10, u32::from_be_bytes([*a, *b, *c, *d]) as usize)
                }
                [0x82, 126 | 127, ..] | [] | [0x82] => {
                    self.fill()?;
                    continue;
                }
                [0x82, short, ..] => (2, usize::from(*short)),
                _ => return Err("not a binary frame".into()),
            };
            self.start += size;
            self.left = length;
        }
        Ok(())
    }

    fn fill(&mut self) -> Outcome<()> {
        if self.end == self.start || self.end == self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        let count = self.stream.read(&mut self.buffer[self.end..])?;
        if count == 0 {
            return Err("the tunnel ended".into());
        }
        self.end += count;
        Ok(())
    }
}

const KEY: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// A masked binary frame.
fn masked(payload: &[u8]) -> Vec<u8> {
    let mut frame = masked_head(payload.len());
    let body = frame.len();
    frame.extend_from_slice(payload);
    mask(&mut frame[body..]);
    frame
}

fn masked_head(length: usize) -> Vec<u8> {
    let mut head = vec![0x82];
    match length {
        short @ 0..126 => head.push(0x80 | short as u8),
        long @ 126..65536 => {
            head.push(0x80 | 126);
            head.extend((long as u16).to_be_bytes());
        }
        longer => {
            head.push(0x80 | 127);
            head.extend((longer as u64).to_be_bytes());
        }
    }
    head.extend(KEY);
    head
}

/// Takes whole keys at a time, which the compiler makes wider: one byte after the other, masking took
/// as long as the daemon takes to decrypt.
fn mask(bytes: &mut [u8]) {
    let mut blocks = bytes.chunks_exact_mut(KEY.len());
    for block in &mut blocks {
        for (byte, key) in block.iter_mut().zip(KEY) {
            *byte ^= key;
        }
    }
    for (byte, key) in blocks.into_remainder().iter_mut().zip(KEY) {
        *byte ^= key;
    }
}
