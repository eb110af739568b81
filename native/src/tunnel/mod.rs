//! A WebSocket relayed to a TCP port of the guest, and the handshake that proves who may.
//!
//! Map:
//! - `engine`    one thread that pumps all tunnels
//! - `context`   what every relay works with
//! - `relay`     one tunnel: its two connections and what is known of them
//! - `upward`    the caller's frames, to the guest
//! - `downward`  the guest's bytes, to the caller
//! - `ending`    how a tunnel comes to its end
//! - `frames`, `mask`   WebSocket frames
//! - `noise`, `crypto`  the handshake and the messages after it
//! - `seen`      first messages that were taken already
//! - `outbox`, `socket` bytes that wait, connections

mod context;
pub mod crypto;
mod downward;
mod ending;
pub mod engine;
pub mod frames;
pub mod mask;
pub mod noise;
mod outbox;
mod relay;
mod seen;
pub mod socket;
mod upward;

#[cfg(test)]
mod stall_tests;
