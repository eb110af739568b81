//! The other end of a tunnel: a client that measures, over bare TCP, a WebSocket, or Noise in one.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use snow::TransportState;
use snow::params::DHChoice;
use snow::resolvers::{CryptoResolver, DefaultResolver, FallbackResolver, RingResolver};

use crate::Outcome;
use crate::http::{Connection, connect};

const FRAME: usize = 64 << 10;
const CHUNK: usize = 32 << 10;
/// Size of the tag behind a ciphertext.
const TAG_BYTES: usize = 16;
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

/// How a client speaks: to the port itself, or through a WebSocket with a path.
#[derive(Clone, Copy)]
pub enum Speech<'a> {
    /// As it is.
    Tcp,
    /// In WebSocket messages.
    Ws(&'a str),
    /// In Noise messages, by the keys of the published vectors.
    Noise(&'a str),
}

/// Measures one metric at an address, over so many bytes.
pub fn run(speech: Speech<'_>, metric: Metric, bytes: usize, at: SocketAddr) -> Outcome<f64> {
    let mut client = Client::new(speech, at)?;
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
                    Some(frame) => client.reader.get_mut().write_all(frame)?,
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

/// Sends to the sink of a tunnel until it is told to stop.
pub fn flood(speech: Speech<'_>, at: SocketAddr, stop: &AtomicBool) -> Outcome<()> {
    let mut client = Client::new(speech, at)?;
    client.say(&u64::MAX.to_le_bytes())?;
    let frame = masked(&vec![7; FRAME]);
    while !stop.load(Ordering::Relaxed) {
        client.reader.get_mut().write_all(&frame)?;
    }
    Ok(())
}

/// A tunnel through which nothing goes; it lasts as long as the result.
pub fn idle(speech: Speech<'_>, at: SocketAddr) -> Outcome<impl Sized> {
    Client::new(speech, at)
}

enum Kind {
    Tcp,
    Ws,
    Noise(Box<TransportState>),
}

/// Invariant: `left` bytes of the current frame's payload are still to be used. `message` is what a
/// frame is read into, `plain` what it is opened into, `sealed` what is sent.
struct Client {
    kind: Kind,
    reader: BufReader<TcpStream>,
    message: Vec<u8>,
    plain: Vec<u8>,
    sealed: Vec<u8>,
    left: usize,
}

impl Client {
    fn new(speech: Speech<'_>, at: SocketAddr) -> Outcome<Self> {
        let (kind, reader) = match speech {
            Speech::Tcp => (Kind::Tcp, connect(at)?),
            Speech::Ws(path) | Speech::Noise(path) => (Kind::Ws, upgraded(path, at)?),
        };
        let mut client = Self {
            kind,
            reader,
            message: vec![0; FRAME],
            plain: vec![0; CHUNK + TAG_BYTES],
            sealed: vec![0; 2 * FRAME],
            left: 0,
        };
        if matches!(speech, Speech::Noise(..)) {
            client.shake_hands()?;
        }
        Ok(client)
    }

    fn shake_hands(&mut self) -> Outcome<()> {
        // ring's cipher is the fastest; what ring has not is snow's.
        let primitives = FallbackResolver::new(Box::new(RingResolver), Box::new(DefaultResolver));
        let curve = primitives.resolve_dh(&DHChoice::Curve25519);
        let mut other = curve.ok_or("there is no X25519")?;
        other.set(&VM_SEED);
        let mut state = snow::Builder::with_resolver(
            "Noise_KK_25519_ChaChaPoly_BLAKE2s".parse()?,
            Box::new(primitives),
        )
        .local_private_key(&HOST_SEED)?
        .remote_public_key(other.pubkey())?
        .build_initiator()?;
        let mut message = [0; 256];
        let length = state.write_message(&[], &mut message)?;
        self.say(&message[..length])?;
        let length = self.whole()?;
        state.read_message(&self.message[..length], &mut message)?;
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
            Kind::Tcp => self.reader.get_mut().write_all(payload)?,
            Kind::Ws => self.reader.get_mut().write_all(&masked(payload))?,
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
                self.reader.get_mut().write_all(&self.sealed[..used])?;
            }
        }
        Ok(())
    }

    fn hear(&mut self, bytes: usize) -> Outcome<()> {
        let mut heard = 0;
        while heard < bytes {
            heard += match self.kind {
                Kind::Tcp => self.piece(usize::MAX)?,
                Kind::Ws => {
                    if self.left == 0 {
                        self.left = self.head()?;
                    }
                    let count = self.piece(self.left)?;
                    self.left -= count;
                    count
                }
                Kind::Noise(_) => self.opened()?,
            };
        }
        Ok(())
    }

    /// Drops at most so much of what has arrived.
    fn piece(&mut self, most: usize) -> Outcome<usize> {
        let count = self.reader.fill_buf()?.len().min(most);
        if count == 0 {
            return Err("the tunnel ended".into());
        }
        self.reader.consume(count);
        Ok(count)
    }

    /// Opens the next frame, and returns the plaintext's size.
    fn opened(&mut self) -> Outcome<usize> {
        let length = self.whole()?;
        let Kind::Noise(state) = &mut self.kind else {
            return Err("not a Noise tunnel".into());
        };
        Ok(state.read_message(&self.message[..length], &mut self.plain)?)
    }

    /// Reads the next frame's payload into `message`; returns its size.
    fn whole(&mut self) -> Outcome<usize> {
        let length = self.head()?;
        self.reader.read_exact(&mut self.message[..length])?;
        Ok(length)
    }

    fn number<const BYTES: usize>(&mut self) -> Outcome<usize> {
        let mut bytes = [0; 8];
        self.reader.read_exact(&mut bytes[8 - BYTES..])?;
        Ok(u64::from_be_bytes(bytes) as usize)
    }

    /// Reads the next frame's head, which says the size of its payload.
    fn head(&mut self) -> Outcome<usize> {
        match self.number::<2>()? {
            0x827e => Ok(self.number::<2>()?),
            0x827f => Ok(self.number::<8>()?),
            short @ 0x8200..0x827e => Ok(short - 0x8200),
            _ => Err("not a binary frame".into()),
        }
    }
}

/// A connection upgraded to a WebSocket.
fn upgraded(path: &str, at: SocketAddr) -> Outcome<BufReader<TcpStream>> {
    let mut connection = Connection::open(at)?;
    let head = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
                sec-websocket-protocol: binary\r\n\
                sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    match connection.send("GET", path, head)? {
        101 => Ok(connection.reader),
        status => Err(format!("not upgraded but {status}").into()),
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
