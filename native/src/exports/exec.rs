//! Starting, reading, ending one exec; what tells one start from another; and the orphans that commands leave.
#![allow(unsafe_code)]

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use super::{send, with_core};
use crate::abi::{BAD_LAYOUT, UNKNOWN, bytes, bytes_mut, guard, negated};
use crate::process::context::Command;
use crate::process::exec::{Exit, decode_request};
use crate::process::log::Stream;
use crate::process::supervisor;

/// Size of the facts in a buffer, in bytes.
const FACTS_SIZE: usize = 56;

/// Starts a child from a request blob. Returns the exec's handle; completes `token` with 0 and the
/// pid, or an errno and the step that failed (then the handle names nothing).
///
/// # Safety
/// `blob` is null or points to `len` bytes that stay unchanged until this returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn guestd_exec_start(blob: *const u8, len: u32, token: u32) -> i32 {
    // SAFETY: bytes demands what this function does.
    let blob = unsafe { bytes(blob, len) };
    with_core(|core| {
        let request = decode_request(blob).ok_or(BAD_LAYOUT)?;
        Ok(core.start(request, token) as i32)
    })
}

/// Writes what is known of an exec: flags (1 exited, 2 published, 4 writers may be alive,
/// 8 truncated, 16 by a signal, 32 group gone), exit code or signal, pid (u32 each), padding, then
/// u64: start in epoch seconds, bytes captured of stdout and of stderr, total published.
///
/// # Safety
/// `out` points to `len` bytes that nobody else uses until this returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn guestd_exec_facts(exec: u32, out: *mut u8, len: u32) -> i32 {
    // SAFETY: bytes_mut demands what this function does.
    let out = unsafe { bytes_mut(out, len) };
    with_core(|core| {
        let exec = core.table.get(exec).ok_or(UNKNOWN)?;
        let out = out.get_mut(..FACTS_SIZE).ok_or(BAD_LAYOUT)?;
        let facts = exec.facts();
        let flags = u32::from(facts.exit.is_some())
            | u32::from(facts.published) << 1
            | u32::from(facts.writers_may_be_alive) << 2
            | u32::from(facts.log.is_truncated()) << 3
            | u32::from(matches!(facts.exit, Some(Exit::Signal(_)))) << 4
            | u32::from(facts.group_gone) << 5;
        let status = match facts.exit {
            Some(Exit::Code(number) | Exit::Signal(number)) => number,
            None => 0,
        };
        let words = [flags, status as u32, exec.pid as u32, 0];
        for (slot, word) in out.chunks_exact_mut(4).zip(words) {
            slot.copy_from_slice(&word.to_le_bytes());
        }
        let words = [
            exec.started_at,
            facts.log.captured(Stream::Stdout),
            facts.log.captured(Stream::Stderr),
            facts.log.total(),
        ];
        for (slot, word) in out[16..].chunks_exact_mut(8).zip(words) {
            slot.copy_from_slice(&word.to_le_bytes());
        }
        Ok(0)
    })
}

/// Copies captured bytes of a stream (0 stdout, 1 stderr) from `offset`. Returns their number, or
/// an errno of the file that they were spooled to.
///
/// # Safety
/// `out` points to `len` bytes that nobody else uses until this returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn guestd_exec_output(
    exec: u32,
    stream: u32,
    offset: u32,
    out: *mut u8,
    len: u32,
) -> i32 {
    // SAFETY: bytes_mut demands what this function does.
    let out = unsafe { bytes_mut(out, len) };
    with_core(|core| {
        let exec = core.table.get(exec).ok_or(UNKNOWN)?;
        let stream = [Stream::Stdout, Stream::Stderr][usize::from(stream != 0)];
        let log = &exec.facts().log;
        let read = log.read_captured(stream, u64::from(offset), out);
        Ok(read.map_err(negated)? as i32)
    })
}

/// Frees what was captured, and the stream's window once nobody reads it.
#[unsafe(no_mangle)]
pub extern "C" fn guestd_exec_release(exec: u32) -> i32 {
    with_core(|core| {
        core.table.get(exec).ok_or(UNKNOWN)?.facts().log.release();
        Ok(0)
    })
}

/// Forgets an exec: its handle names nothing from now on, nothing of it is signalled any more.
#[unsafe(no_mangle)]
pub extern "C" fn guestd_exec_collect(exec: u32) -> i32 {
    with_core(|core| {
        core.table.remove(exec).ok_or(UNKNOWN)?;
        core.send(Command::Collect { exec });
        Ok(0)
    })
}

/// Ends an exec's group. Completes `token` with 1 if it had a live member, else 0: as soon as none
/// is left, at the latest when SIGKILL was sent.
#[unsafe(no_mangle)]
pub extern "C" fn guestd_exec_kill(exec: u32, token: u32) -> i32 {
    send(Command::Kill { exec, token })
}

/// Writes to an exec's stdin, then closes it if `eof` is not 0. Completes `token` with the bytes
/// written and 0, ETIMEDOUT, EPIPE (closed for good) or another errno.
///
/// # Safety
/// `data` is null or points to `len` bytes that stay unchanged until this returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn guestd_exec_stdin(
    exec: u32,
    data: *const u8,
    len: u32,
    eof: u32,
    token: u32,
) -> i32 {
    // SAFETY: bytes demands what this function does.
    let data = unsafe { bytes(data, len) }.to_vec();
    send(Command::Stdin {
        exec,
        data,
        eof: eof != 0,
        token,
    })
}

/// A digest of `data`, from 0 on, under a key of this process's own: equal data have the same, and it tells nothing of
/// them to whoever has not the key.
///
/// # Safety
/// `data` is null or points to `len` bytes that stay unchanged until this returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn guestd_digest(data: *const u8, len: u32) -> i32 {
    static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    // SAFETY: bytes demands what this function does.
    let data = unsafe { bytes(data, len) };
    guard(|| Ok((KEY.hash_one(data) >> 33) as i32))
}

/// Reaps orphans; call it on the main thread. Returns their number.
#[unsafe(no_mangle)]
pub extern "C" fn guestd_reap_orphans() -> i32 {
    guard(|| Ok(supervisor::reap_orphans()))
}
