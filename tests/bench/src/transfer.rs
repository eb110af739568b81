//! Bodies of megabytes, with as little work for the client as there can be, so that it is not what
//! is measured.

use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Instant;

use crate::Outcome;
use crate::http::Connection;

/// PUTs a file over a connection of its own. Returns the seconds until the answer.
pub fn upload(address: SocketAddr, target: &str, body: &Path) -> Outcome<f64> {
    let begin = Instant::now();
    put(&mut Connection::open(address)?, target, body)?;
    Ok(begin.elapsed().as_secs_f64())
}

/// PUTs a file over a connection.
pub fn put(connection: &mut Connection, target: &str, body: &Path) -> Outcome<()> {
    match connection.put_file(target, &File::open(body)?)? {
        201 | 204 => Ok(()),
        status => Err(format!("PUT {target} answered {status}").into()),
    }
}

/// GETs into a file, or to nowhere. Returns the seconds until the end and the bytes.
pub fn download(address: SocketAddr, target: &str, into: Option<&Path>) -> Outcome<(f64, u64)> {
    let mut out = into.map(File::create).transpose()?;
    let begin = Instant::now();
    let mut connection = Connection::open(address)?;
    let status = connection.request("GET", target, None)?;
    if status != 200 {
        return Err(format!("GET {target} answered {status}").into());
    }
    // `io::copy` would do it in pieces of 8 KiB.
    let bytes = connection.drain(|piece| match &mut out {
        Some(out) => out.write_all(piece),
        None => Ok(()),
    })?;
    Ok((begin.elapsed().as_secs_f64(), bytes))
}
