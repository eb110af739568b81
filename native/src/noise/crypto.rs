//! The primitives of the one Noise protocol that is spoken here, for `snow`. On the heap what they and `snow` give back is
//! wiped, as everything small is (`abi::memory`); what they and the libraries below leave on the stack stays there until
//! something else needs the place.

use rustix::rand::{GetRandomFlags, getrandom};
use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::{CryptoResolver, DefaultResolver, RingResolver};
use snow::types::{Cipher, Dh, Hash, Random};

/// The kernel's random numbers, X25519 and BLAKE2s as `snow` has them, and ring's ChaChaPoly, which is the fastest.
pub struct Primitives;

impl CryptoResolver for Primitives {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(Kernel))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        DefaultResolver.resolve_dh(choice)
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        DefaultResolver.resolve_hash(choice)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        RingResolver.resolve_cipher(choice)
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
