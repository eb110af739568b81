//! Files and trees on their way in, and what both ways have in common. Every operation that ends badly leaves a sentence, which
//! [`guestd_failure_take`] gives; its status is an errno or one of the codes in `file::failure`.
#![allow(unsafe_code)]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use rustix::fs::{Mode, stat};

use super::with_core;
use crate::abi::{Lent, UNKNOWN, bytes, bytes_mut};
use crate::disk::number;
use crate::file::failure::Failure;
use crate::file::parents::nearest_dir;
use crate::file::reserve::Reserve;
use crate::file::target::{Target, resolve};
use crate::file::temp::Temp;
use crate::file::upload::{Goal, Staged};
use crate::tar::Limits;
use crate::tar::extract::unpack;
use crate::tar::spool::Spool;

/// Begins to write a file, with `mode` unless that is negative, unless the space available falls
/// below `reserve` bytes. The body is spooled in `spool_dir` where it cannot lie beside the target.
/// Returns a handle; completes `token` when chunks can be taken.
///
/// # Safety
/// `path` and `spool_dir` are null or point to as many bytes as the number after them says, which
/// stay unchanged until this returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn guestd_upload_file(
    path: *const u8,
    path_len: u32,
    mode: i32,
    reserve: u64,
    spool_dir: *const u8,
    spool_dir_len: u32,
    token: u32,
) -> i32 {
    // SAFETY: path_of demands what this function demands of its caller.
    let (path, spool) = unsafe { (path_of(path, path_len), path_of(spool_dir, spool_dir_len)) };
    with_core(|core| {
        let transfers = &core.transfers;
        let (handle, upload) = transfers.new_upload();
        let at = path.clone();
        let find_lane = move || number(&at);
        let open = move || {
            let (path, exists) = resolve(&path)?;
            let reserve = Reserve::new(reserve);
            reserve.check(&path, 0)?;
            let spools = [spool.as_path(), &std::env::temp_dir()];
            let target = Target::prepare(path, exists, u32::try_from(mode).ok(), &spools)?;
            let goal = Goal::File(target);
            Ok(Staged { goal, reserve })
        };
        upload.open(&transfers.writers, find_lane, open, transfers.ticket(token));
        handle as i32
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
    spool_dir: *const u8,
    spool_dir_len: u32,
    token: u32,
) -> i32 {
    // SAFETY: path_of demands what this function demands of its caller.
    let (root, spool) = unsafe { (path_of(root, root_len), path_of(spool_dir, spool_dir_len)) };
    with_core(|core| {
        let transfers = &core.transfers;
        let (handle, upload) = transfers.new_upload();
        let at = root.clone();
        let find_lane = move || number(&at);
        let open = move || {
            let reserve = Reserve::new(reserve);
            reserve.check(&root, 0)?;
            let near = nearest_dir(&root);
            let spools = [near.as_path(), spool.as_path(), &std::env::temp_dir()];
            let file = Temp::unlinked(&spools)
                .map_err(|errno| Failure::of("spool the archive for", &root, errno))?;
            reserve.check_file(&file)?;
            // What is made in a set-group-id directory gets its group, and so cannot be made elsewhere.
            let inherits = stat(&near).is_ok_and(|near| near.st_mode & Mode::SGID.bits() != 0);
            let own_dir = (!inherits).then_some(near);
            let goal = Goal::Tree(Box::new(Spool::new(file, own_dir)), root);
            Ok(Staged { goal, reserve })
        };
        upload.open(&transfers.writers, find_lane, open, transfers.ticket(token));
        handle as i32
    })
}

/// Writes a chunk. Completes `token` with its length when the buffer is not needed any more.
///
/// # Safety
/// `data` points to `len` bytes that nobody changes until `token` was completed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn guestd_upload_write(
    handle: u32,
    data: *mut u8,
    len: u32,
    token: u32,
) -> i32 {
    // SAFETY: Lent::new demands what this function demands of its caller.
    let data = unsafe { Lent::new(data, len) };
    with_core(|core| {
        let transfers = &core.transfers;
        let Some(upload) = transfers.upload(handle) else {
            return UNKNOWN;
        };
        upload.write(&transfers.writers, data, transfers.ticket(token));
        0
    })
}

/// Ends an upload well: puts the file in its place, or checks and extracts the archive within the
/// limits, which a file ignores. Completes `token` with 0; then the handle names nothing any more.
#[unsafe(no_mangle)]
pub extern "C" fn guestd_upload_finish(
    handle: u32,
    max_members: u64,
    max_bytes: u64,
    token: u32,
) -> i32 {
    with_core(|core| {
        let transfers = &core.transfers;
        let Some(upload) = transfers.upload(handle) else {
            return UNKNOWN;
        };
        let forgetting = transfers.forgetting(handle);
        let limits = Limits {
            members: max_members,
            bytes: max_bytes,
        };
        let finish = move |staged: Staged, stopped: &AtomicBool| {
            let _forgetting = forgetting;
            let reserve = staged.reserve;
            let finished = match staged.goal {
                Goal::File(target) => target.commit(&reserve),
                Goal::Tree(spool, root) => unpack(&spool, &root, limits, reserve, stopped),
            };
            finished.map(|()| 0)
        };
        upload.finish(&transfers.writers, finish, transfers.ticket(token));
        0
    })
}

/// Ends an upload and leaves nothing of it; one that is being extracted stops between two members.
/// Completes `token` when nothing more is done. The handle names nothing any more.
#[unsafe(no_mangle)]
pub extern "C" fn guestd_upload_abort(handle: u32, token: u32) -> i32 {
    with_core(|core| {
        let transfers = &core.transfers;
        let Some(upload) = transfers.remove_upload(handle) else {
            return UNKNOWN;
        };
        upload.abort(&transfers.writers, transfers.ticket(token));
        0
    })
}

/// Takes the sentence that operation `token` failed with, cut to what fits. Returns its length.
///
/// # Safety
/// `out` points to `len` bytes that nobody else uses until this returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn guestd_failure_take(token: u32, out: *mut u8, len: u32) -> i32 {
    // SAFETY: bytes_mut demands what this function demands of its caller.
    let out = unsafe { bytes_mut(out, len) };
    with_core(|core| {
        let Some(text) = core.transfers.take_text(token) else {
            return UNKNOWN;
        };
        let length = text.len().min(out.len());
        out[..length].copy_from_slice(&text.as_bytes()[..length]);
        length as i32
    })
}

/// # Safety
/// `ptr` is null or points to `len` bytes that stay unchanged until this returns.
pub(super) unsafe fn path_of(ptr: *const u8, len: u32) -> PathBuf {
    // SAFETY: bytes demands what this function demands of its caller.
    PathBuf::from(OsStr::from_bytes(unsafe { bytes(ptr, len) }))
}
