//! Files and trees on their way in and out. Every operation that ends badly leaves a sentence, which [`guestd_failure_take`]
//! gives; its status is an errno or one of the codes in `file::failure`.
#![allow(unsafe_code)]

use super::{known, with_core};
use crate::abi::{Lent, UNKNOWN, bytes_mut, path_of};
use crate::file::reserve::Reserve;
use crate::tar::Limits;

/// Begins to read a file: from line `first` to line `last`, or whole if `first` is 0. Returns a handle; completes `token`
/// with the size that the file claims to have, 0 for a window.
///
/// # Safety
/// `path` is null or points to `path_len` bytes that stay unchanged until this returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn guestd_file_open(
    path: *const u8,
    path_len: u32,
    first: u64,
    last: u64,
    token: u32,
) -> i32 {
    // SAFETY: path_of demands what this function does.
    let path = unsafe { path_of(path, path_len) };
    with_core(|core| Ok(core.transfers.read_file(path, (first, last), token) as i32))
}

/// Measures a directory and begins to pack it. Returns a handle; completes `token` when it was measured.
///
/// # Safety
/// As [`guestd_file_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn guestd_tree_open(
    path: *const u8,
    path_len: u32,
    members: u64,
    bytes: u64,
    token: u32,
) -> i32 {
    // SAFETY: path_of demands what this function does.
    let path = unsafe { path_of(path, path_len) };
    let limits = Limits { members, bytes };
    with_core(|core| Ok(core.transfers.read_tree(path, limits, token) as i32))
}

/// Begins to write a file, with `mode` unless that is negative, unless the space available falls below `reserve` bytes. The
/// body is spooled in `spool` where it cannot lie beside the target. Returns a handle; completes `token` when buffers can
/// be taken.
///
/// # Safety
/// `path` and `spool` are null or point to as many bytes as the number after them says, which stay unchanged until this
/// returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn guestd_upload_file(
    path: *const u8,
    path_len: u32,
    mode: i32,
    reserve: u64,
    spool: *const u8,
    spool_len: u32,
    token: u32,
) -> i32 {
    // SAFETY: path_of demands what this function does.
    let (path, spool) = unsafe { (path_of(path, path_len), path_of(spool, spool_len)) };
    let (mode, reserve) = (u32::try_from(mode).ok(), Reserve::new(reserve));
    with_core(|core| {
        let transfers = &core.transfers;
        Ok(transfers.write_file(path, mode, reserve, spool, token) as i32)
    })
}

/// Begins to spool an archive for the directory `root`, as [`guestd_upload_file`].
///
/// # Safety
/// As [`guestd_upload_file`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn guestd_upload_tree(
    root: *const u8,
    root_len: u32,
    reserve: u64,
    spool: *const u8,
    spool_len: u32,
    token: u32,
) -> i32 {
    // SAFETY: path_of demands what this function does.
    let (root, spool) = unsafe { (path_of(root, root_len), path_of(spool, spool_len)) };
    let reserve = Reserve::new(reserve);
    with_core(|core| Ok(core.transfers.write_tree(root, reserve, spool, token) as i32))
}

/// Has a download fill a buffer, or an upload take what is in it. Completes `token` with the bytes when the buffer is not
/// needed any more; fewer than fit are a download's last.
///
/// # Safety
/// `data` points to `len` bytes that nobody else uses until `token` was completed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn guestd_transfer_carry(
    handle: u32,
    data: *mut u8,
    len: u32,
    token: u32,
) -> i32 {
    // SAFETY: Lent::new demands what this function does.
    let data = unsafe { Lent::new(data, len) };
    with_core(|core| known(core.transfers.carry(handle, data, token)))
}

/// Ends an upload well: puts the file in its place, or checks and extracts the archive within the limits, which a file
/// ignores. Completes `token` with 0.
#[unsafe(no_mangle)]
pub extern "C" fn guestd_transfer_finish(handle: u32, members: u64, bytes: u64, token: u32) -> i32 {
    let limits = Limits { members, bytes };
    with_core(|core| known(core.transfers.finish(handle, limits, token)))
}

/// Ends a transfer, wherever it is; of an upload that is not finished nothing is left, and one that is being extracted
/// stops between two members. Completes `token` when nothing more is done. The handle names nothing any more.
#[unsafe(no_mangle)]
pub extern "C" fn guestd_transfer_close(handle: u32, token: u32) -> i32 {
    with_core(|core| known(core.transfers.close(handle, token)))
}

/// Takes the sentence that operation `token` failed with, cut to what fits. Returns its length.
///
/// # Safety
/// `out` points to `len` bytes that nobody else uses until this returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn guestd_failure_take(token: u32, out: *mut u8, len: u32) -> i32 {
    // SAFETY: bytes_mut demands what this function does.
    let out = unsafe { bytes_mut(out, len) };
    with_core(|core| {
        let text = core.transfers.take_text(token).ok_or(UNKNOWN)?;
        let length = text.len().min(out.len());
        out[..length].copy_from_slice(&text.as_bytes()[..length]);
        Ok(length as i32)
    })
}
