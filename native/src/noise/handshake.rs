//! The handshake that proves both ends of a tunnel, and the messages after it. The daemon is the
//! responder of `Noise_KK_25519_ChaChaPoly_BLAKE2s`.

use snow::{Builder, HandshakeState, TransportState};

use super::crypto::Primitives;

/// Size of a key, in bytes.
const KEY_BYTES: usize = 32;
/// Size of the tag behind every ciphertext, in bytes.
const TAG_BYTES: usize = 16;
/// The protocol's name, which both ends hash.
const PROTOCOL: &str = "Noise_KK_25519_ChaChaPoly_BLAKE2s";
/// Bit of the handshake payload that offers an authenticated end of stream.
const OFFERS_END: u8 = 0x01;

/// This VM's secret and its client's public key. Neither `Debug` nor `Clone`.
pub struct Keys {
    secret: [u8; KEY_BYTES],
    client: [u8; KEY_BYTES],
}

impl Keys {
    /// Keys from the run hook's bytes; `None` unless both are of the right size.
    pub fn new(secret: &[u8], client: &[u8]) -> Option<Self> {
        Some(Self {
            secret: secret.try_into().ok()?,
            client: client.try_into().ok()?,
        })
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

/// Answers the client's first message: the messages from now on, and the second one, to be sent to the client. The
/// prologue is the one under which it can be read. `None`, here and below, for what the other end of these keys would
/// not have sent: it says no more on purpose.
pub fn respond(keys: &Keys, port: u16, first: &[u8]) -> Option<(Session, Vec<u8>)> {
    let with_port = port_prologue(port);
    let attempts = [(&[][..], false), (&with_port[..], true)];
    attempts.into_iter().find_map(|(prologue, must_confirm)| {
        let builder = builder(&keys.secret, &keys.client, prologue).ok()?;
        accept(builder.build_responder().ok()?, first, must_confirm)
    })
}

fn accept(
    mut state: HandshakeState,
    first: &[u8],
    must_confirm: bool,
) -> Option<(Session, Vec<u8>)> {
    let mut payload = vec![0; first.len()];
    let length = state.read_message(first, &mut payload).ok()?;
    // The end of stream is offered in answer to an offer only: an older client expects no payload.
    let (reply, authenticated_end): (&[u8], bool) = match payload[..length] {
        [] => (&[], false),
        [flags] => (&[OFFERS_END], flags & OFFERS_END != 0),
        _ => return None,
    };
    let mut answer = vec![0; KEY_BYTES + reply.len() + TAG_BYTES];
    state.write_message(reply, &mut answer).ok()?;
    let session = Session {
        state: state.into_transport_mode().ok()?,
        sealed: Vec::new(),
        must_confirm,
        authenticated_end,
    };
    Some((session, answer))
}

/// A tunnel's messages after the handshake.
pub struct Session {
    state: TransportState,
    /// A message that is being decrypted.
    sealed: Vec<u8>,
    /// The client must send the confirmation first, before anything is dialled.
    pub must_confirm: bool,
    /// Both ends offered to end their stream with an empty message.
    pub authenticated_end: bool,
}

impl Session {
    /// Encrypts a chunk into `out`, which must have room for it and a tag; returns the message's length.
    pub fn seal(&mut self, plain: &[u8], out: &mut [u8]) -> Option<usize> {
        self.state.write_message(plain, out).ok()
    }

    /// Decrypts a message where it lies; returns its length.
    pub fn open(&mut self, message: &mut [u8]) -> Option<usize> {
        self.sealed.clear();
        self.sealed.extend_from_slice(message);
        self.state.read_message(&self.sealed, message).ok()
    }
}

#[cfg(test)]
#[path = "handshake_tests.rs"]
mod tests;
