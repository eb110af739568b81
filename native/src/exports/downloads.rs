//! Files and trees on their way out. What ends badly leaves a sentence, as in `files`.
#![allow(unsafe_code)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::files::path_of;
use super::with_core;
use crate::abi::{BAD_LAYOUT, Lent, UNKNOWN, bytes_mut};
use crate::disk::number;
use crate::file::failure::Failure;
use crate::file::read::WholeFile;
use crate::file::reader::Opened;
use crate::file::window::LineWindow;
use crate::tar::Limits;
use crate::tar::pack::Packer;

/// Opens a file for reading: from line `first` to line `last`, or whole if `first` is 0. Returns a
/// handle; completes `token` with the bytes put into the buffer, fewer than fit if they were all.
///
/// # Safety
/// `path` is null or points to `path_len` bytes that stay unchanged until this returns; `out`
/// points to `len` bytes that nobody else uses until `token` was completed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn guestd_file_open(
    path: *const u8,
    path_len: u32,
    first: u64,
    last: u64,
    out: *mut u8,
    len: u32,
    token: u32,
) -> i32 {
    // SAFETY: bytes and Lent::new demand what this function demands of its caller.
    let (path, out) = unsafe { (path_of(path, path_len), Lent::new(out, len)) };
    begin_reading(path, out, token, move |path, cancelled| {
        if first == 0 {
            let (file, size) = WholeFile::open(path)?;
            return Ok((Box::new(file) as _, size));
        }
        let window = LineWindow::open(path, first, last, cancelled)?;
        Ok((Box::new(window) as _, 0))
    })
}

/// Measures a directory and begins to pack it. Returns a handle; completes `token` like
/// [`guestd_file_open`].
///
/// # Safety
/// As [`guestd_file_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn guestd_tree_open(
    path: *const u8,
    path_len: u32,
    max_members: u64,
    max_bytes: u64,
    out: *mut u8,
    len: u32,
    token: u32,
) -> i32 {
    // SAFETY: bytes and Lent::new demand what this function demands of its caller.
    let (path, out) = unsafe { (path_of(path, path_len), Lent::new(out, len)) };
    let limits = Limits {
        members: max_members,
        bytes: max_bytes,
    };
    begin_reading(path, out, token, move |path, cancelled| {
        Ok((Box::new(Packer::open(path, limits, &cancelled)?) as _, 0))
    })
}

/// Begins a download of what `open` opens at `path`, told also what is set once nobody wants it.
fn begin_reading(
    path: PathBuf,
    out: Lent,
    token: u32,
    open: impl FnOnce(&Path, Arc<AtomicBool>) -> Result<Opened, Failure> + Send + 'static,
) -> i32 {
    with_core(|core| {
        let transfers = &core.transfers;
        let (handle, reader) = transfers.new_reader();
        let (cancelled, at) = (reader.cancelled(), path.clone());
        reader.open(
            &transfers.readers,
            move || number(&at),
            move || open(&path, cancelled),
            out,
            transfers.ticket(token),
        );
        handle as i32
    })
}

/// Writes the size that an opened file claims to have, in bytes, as a u64.
///
/// # Safety
/// `out` points to `len` bytes that nobody else uses until this returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn guestd_read_size(handle: u32, out: *mut u8, len: u32) -> i32 {
    // SAFETY: bytes_mut demands what this function demands of its caller.
    let out = unsafe { bytes_mut(out, len) };
    with_core(|core| {
        let Some(reader) = core.transfers.reader(handle) else {
            return UNKNOWN;
        };
        let Some(out) = out.first_chunk_mut::<8>() else {
            return BAD_LAYOUT;
        };
        *out = reader.size().to_le_bytes();
        0
    })
}

/// Reads on. Completes `token` with the bytes put into the buffer; fewer than fit are the last.
///
/// # Safety
/// `out` points to `len` bytes that nobody else uses until `token` was completed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn guestd_read_next(handle: u32, out: *mut u8, len: u32, token: u32) -> i32 {
    // SAFETY: Lent::new demands what this function demands of its caller.
    let out = unsafe { Lent::new(out, len) };
    with_core(|core| {
        let transfers = &core.transfers;
        let Some(reader) = transfers.reader(handle) else {
            return UNKNOWN;
        };
        reader.next(&transfers.readers, out, transfers.ticket(token));
        0
    })
}

/// Ends a download, wherever it is. Operations under way are still completed.
#[unsafe(no_mangle)]
pub extern "C" fn guestd_read_close(handle: u32) -> i32 {
    with_core(|core| {
        let transfers = &core.transfers;
        let Some(reader) = transfers.remove_reader(handle) else {
            return UNKNOWN;
        };
        reader.close(&transfers.readers);
        0
    })
}
