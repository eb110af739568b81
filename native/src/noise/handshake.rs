//! The handshake that proves both ends of a tunnel, and the messages after it. The daemon is the
//! responder of `Noise_KK_25519_ChaChaPoly_BLAKE2s`.

use std::sync::Arc;

use snow::{Builder, HandshakeState, TransportState};
use zeroize::Zeroizing;

use super::crypto::{KEY_BYTES, Primitives, TAG_BYTES};

/// The protocol's name, which both ends hash.
const PROTOCOL: &str = "Noise_KK_25519_ChaChaPoly_BLAKE2s";
/// What the client's first transport message says under the second prologue.
const READY: &[u8] = b"microvms-tunnel-ready";
/// Bit of the handshake payload that offers an authenticated end of stream.
const OFFERS_END: u8 = 0x01;

/// What is sent in one message at most, in bytes of plaintext.
pub const CHUNK_BYTES: usize = 32_768;

/// The handshake or a message was not what the other end of these keys would have sent. It says
/// no more on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

/// This VM's secret and its client's public key. Neither `Debug` nor `Clone`, wiped when
/// dropped.
pub struct Keys {
    secret: Zeroizing<[u8; KEY_BYTES]>,
    client: [u8; KEY_BYTES],
}

impl Keys {
    /// Keys from the run hook's bytes; `None` unless both are of the right size. The secret is copied
    /// to where it stays, for what is moved leaves a copy behind.
    pub fn new(secret: &[u8], client: &[u8]) -> Option<Arc<Self>> {
        let mut keys = Arc::new(Self {
            secret: Zeroizing::new([0; KEY_BYTES]),
            client: client.try_into().ok()?,
        });
        if secret.len() != KEY_BYTES {
            return None;
        }
        Arc::get_mut(&mut keys)?.secret.copy_from_slice(secret);
        Some(keys)
    }
}

/// The second prologue binds the handshake to its purpose and the guest's port.
fn port_prologue(port: u16) -> Vec<u8> {
    let mut prologue = Vec::new();
    for part in ["microvms-tunnel", PROTOCOL, "2", "/v1/tcp"] {
        prologue.extend(part.as_bytes());
        prologue.push(0);
    }
    prologue.extend(port.to_be_bytes());
    prologue
}

fn builder<'a>(
    own_secret: &'a [u8; KEY_BYTES],
    other_public: &'a [u8; KEY_BYTES],
    prologue: &'a [u8],
) -> Result<Builder<'a>, snow::Error> {
    Builder::with_resolver(PROTOCOL.parse()?, Box::new(Primitives))
        .local_private_key(own_secret)?
        .remote_public_key(other_public)?
        .prologue(prologue)
}

/// What the responder answers to the client's first message.
pub struct Accepted {
    /// The second message, to be sent to the client.
    pub answer: Vec<u8>,
    /// The messages from now on.
    pub session: Session,
    /// The client must send [`Session::confirms`] first, before anything is dialled.
    pub must_confirm: bool,
}

/// Answers the client's first message. The prologue is the one under which it can be read.
pub fn respond(keys: &Keys, port: u16, first: &[u8]) -> Result<Accepted, Refused> {
    let with_port = port_prologue(port);
    let attempts = [(&[][..], false), (&with_port[..], true)];
    for (prologue, must_confirm) in attempts {
        let state = builder(&keys.secret, &keys.client, prologue)
            .and_then(Builder::build_responder)
            .map_err(|_| Refused)?;
        if let Some((state, payload)) = read_first(state, first) {
            return accept(state, &payload, must_confirm);
        }
    }
    Err(Refused)
}

fn read_first(mut state: HandshakeState, first: &[u8]) -> Option<(HandshakeState, Vec<u8>)> {
    let mut payload = vec![0; first.len()];
    let length = state.read_message(first, &mut payload).ok()?;
    payload.truncate(length);
    Some((state, payload))
}

fn accept(
    mut state: HandshakeState,
    payload: &[u8],
    must_confirm: bool,
) -> Result<Accepted, Refused> {
    // The end of stream is offered in answer to an offer only: an older client expects no payload.
    let (reply, authenticated_end): (&[u8], bool) = match payload {
        [] => (&[], false),
        [flags] => (&[OFFERS_END], flags & OFFERS_END != 0),
        _ => return Err(Refused),
    };
    let mut answer = vec![0; KEY_BYTES + reply.len() + TAG_BYTES];
    let length = state
        .write_message(reply, &mut answer)
        .map_err(|_| Refused)?;
    answer.truncate(length);
    let session = Session {
        state: state.into_transport_mode().map_err(|_| Refused)?,
        authenticated_end,
        sealed: Vec::new(),
    };
    Ok(Accepted {
        answer,
        session,
        must_confirm,
    })
}

/// A tunnel's messages after the handshake.
pub struct Session {
    state: TransportState,
    authenticated_end: bool,
    /// A message that is being decrypted.
    sealed: Vec<u8>,
}

impl Session {
    /// Both ends offered to end their stream with an empty message.
    pub fn has_authenticated_end(&self) -> bool {
        self.authenticated_end
    }

    /// Encrypts at most [`CHUNK_BYTES`] into `out`; returns the message's length.
    pub fn seal(&mut self, plain: &[u8], out: &mut [u8]) -> Result<usize, Refused> {
        self.state.write_message(plain, out).map_err(|_| Refused)
    }

    /// Decrypts a message into `out`, which must have room for its plaintext; returns its length.
    pub fn open(&mut self, message: &[u8], out: &mut [u8]) -> Result<usize, Refused> {
        self.state.read_message(message, out).map_err(|_| Refused)
    }

    /// Decrypts a message where it lies; returns its length.
    pub fn open_in_place(&mut self, message: &mut [u8]) -> Result<usize, Refused> {
        self.sealed.clear();
        self.sealed.extend_from_slice(message);
        let opened = self.state.read_message(&self.sealed, message);
        opened.map_err(|_| Refused)
    }

    /// Whether a message is the confirmation that the second prologue demands.
    pub fn confirms(&mut self, message: &[u8]) -> bool {
        let mut plain = vec![0; message.len()];
        self.open(message, &mut plain)
            .is_ok_and(|length| &plain[..length] == READY)
    }
}

#[cfg(test)]
#[path = "handshake_tests.rs"]
mod tests;
