//! The primitives of the one Noise protocol that is spoken here, for `snow`: its own keep their
//! keys in memory that is given back as it is, these wipe what they keep. What they, `snow` and the
//! libraries below leave on the stack stays there until something else needs the place.

use blake2::{Blake2s256, Digest};
use curve25519_dalek::montgomery::MontgomeryPoint;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use rustix::rand::{GetRandomFlags, getrandom};
use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::CryptoResolver;
use snow::types::{Cipher, Dh, Hash, Random};
use zeroize::{Zeroize, Zeroizing};

/// Size of a key, in bytes.
pub const KEY_BYTES: usize = 32;
/// Size of the tag behind every ciphertext, in bytes.
pub const TAG_BYTES: usize = 16;

/// The public key of a secret one.
pub fn public_key(secret: &[u8; KEY_BYTES]) -> [u8; KEY_BYTES] {
    MontgomeryPoint::mul_base_clamped(*secret).to_bytes()
}

/// Resolves X25519, ChaChaPoly and BLAKE2s, and nothing else.
pub struct Primitives;

impl CryptoResolver for Primitives {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(Kernel))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        matches!(choice, DHChoice::Curve25519).then(|| Box::<X25519>::default() as Box<dyn Dh>)
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        matches!(choice, HashChoice::Blake2s).then(|| Box::<Blake2s>::default() as Box<dyn Hash>)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        matches!(choice, CipherChoice::ChaChaPoly)
            .then(|| Box::<ChaChaPoly>::default() as Box<dyn Cipher>)
    }
}

/// getrandom(2) at every call: a generator of our own would be cloned with a snapshot.
struct Kernel;

impl Random for Kernel {
    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), snow::Error> {
        // The few bytes of a key come whole.
        match getrandom(&mut *out, GetRandomFlags::empty()) {
            Ok(filled) if filled == out.len() => Ok(()),
            _ => Err(snow::Error::Rng),
        }
    }
}

#[derive(Default)]
struct X25519 {
    secret: Zeroizing<[u8; KEY_BYTES]>,
    public: [u8; KEY_BYTES],
}

impl Dh for X25519 {
    fn name(&self) -> &'static str {
        "25519"
    }

    fn pub_len(&self) -> usize {
        KEY_BYTES
    }

    fn priv_len(&self) -> usize {
        KEY_BYTES
    }

    fn set(&mut self, secret: &[u8]) {
        self.secret.copy_from_slice(secret);
        self.public = public_key(&self.secret);
    }

    fn generate(&mut self, rng: &mut dyn Random) -> Result<(), snow::Error> {
        rng.try_fill_bytes(&mut *self.secret)?;
        self.public = public_key(&self.secret);
        Ok(())
    }

    fn pubkey(&self) -> &[u8] {
        &self.public
    }

    fn privkey(&self) -> &[u8] {
        &*self.secret
    }

    fn dh(&self, public: &[u8], out: &mut [u8]) -> Result<(), snow::Error> {
        let mut point = [0; KEY_BYTES];
        point.copy_from_slice(public.get(..KEY_BYTES).ok_or(snow::Error::Dh)?);
        let shared = MontgomeryPoint(point).mul_clamped(*self.secret);
        let shared = Zeroizing::new(shared.to_bytes());
        out[..KEY_BYTES].copy_from_slice(&*shared);
        Ok(())
    }
}

#[derive(Default)]
struct ChaChaPoly {
    key: Zeroizing<[u8; KEY_BYTES]>,
}

impl ChaChaPoly {
    /// Made for each message: ring's does not wipe itself, so it must not be kept anywhere but on
    /// the stack.
    fn aead(&self) -> Result<LessSafeKey, snow::Error> {
        let key = UnboundKey::new(&CHACHA20_POLY1305, &*self.key);
        key.map(LessSafeKey::new).map_err(|_| snow::Error::Decrypt)
    }
}

/// Four zero bytes, then the counter: section 12.3 of the Noise specification.
fn nonce(counter: u64) -> Nonce {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&counter.to_le_bytes());
    Nonce::assume_unique_for_key(nonce)
}

impl Cipher for ChaChaPoly {
    fn name(&self) -> &'static str {
        "ChaChaPoly"
    }

    fn set(&mut self, key: &[u8; KEY_BYTES]) {
        self.key.copy_from_slice(key);
    }

    fn encrypt(&self, counter: u64, authtext: &[u8], plaintext: &[u8], out: &mut [u8]) -> usize {
        let (body, rest) = out.split_at_mut(plaintext.len());
        body.copy_from_slice(plaintext);
        let tag = self.aead().ok().and_then(|key| {
            let authtext = Aad::from(authtext);
            let tag = key.seal_in_place_separate_tag(nonce(counter), authtext, body);
            tag.ok()
        });
        match tag {
            Some(tag) => rest[..TAG_BYTES].copy_from_slice(tag.as_ref()),
            // It fails only beyond 256 GiB, which no Noise message reaches; plaintext goes nowhere.
            None => body.zeroize(),
        }
        plaintext.len() + TAG_BYTES
    }

    fn decrypt(
        &self,
        counter: u64,
        authtext: &[u8],
        ciphertext: &[u8],
        out: &mut [u8],
    ) -> Result<usize, snow::Error> {
        let length = ciphertext
            .len()
            .checked_sub(TAG_BYTES)
            .ok_or(snow::Error::Decrypt)?;
        let (body, tag) = ciphertext.split_at(length);
        let tag = tag.try_into().map_err(|_| snow::Error::Decrypt)?;
        let out = &mut out[..length];
        out.copy_from_slice(body);
        // On failure ring wipes what it has decrypted.
        self.aead()?
            .open_in_place_separate_tag(nonce(counter), Aad::from(authtext), tag, out, 0..)
            .map(|plain| plain.len())
            .map_err(|_| snow::Error::Decrypt)
    }
}

/// It is not wiped: with every hash that it gives it is reset, and no key is left in its last block.
#[derive(Default)]
struct Blake2s {
    hasher: Blake2s256,
}

impl Hash for Blake2s {
    fn name(&self) -> &'static str {
        "BLAKE2s"
    }

    fn block_len(&self) -> usize {
        64
    }

    fn hash_len(&self) -> usize {
        32
    }

    fn reset(&mut self) {
        self.hasher = Blake2s256::default();
    }

    fn input(&mut self, data: &[u8]) {
        self.hasher.update(data);
    }

    fn result(&mut self, out: &mut [u8]) {
        let hash = self.hasher.finalize_reset();
        out[..hash.len()].copy_from_slice(&hash);
    }
}
