//! nginx with WebDAV, as the reference for files.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::Outcome;
use crate::peer::{Peer, free_port};

/// A running nginx.
pub struct Nginx {
    _peer: Peer,
    /// Where it listens.
    pub address: SocketAddr,
}

/// Starts one that serves and takes files below `root`, an absolute path; none where it is not
/// installed. Bodies lie below `root` meanwhile, so that the last step is a renaming.
pub fn start(root: &Path) -> Outcome<Option<Nginx>> {
    let port = free_port()?;
    let (shown, temporary) = (root.display(), root.join("nginx"));
    fs::create_dir_all(&temporary)?;
    let (temporary, configuration) = (temporary.display(), root.join("nginx/nginx.conf"));
    let text = format!(
        "daemon off; worker_processes 2; pid {temporary}/pid; error_log {temporary}/log; user root;\n\
         events {{ worker_connections 64; }}\n\
         http {{ access_log off; sendfile on; tcp_nopush on; client_max_body_size 2g;\n\
         client_body_temp_path {temporary}/body; root {shown};\n\
         server {{ listen 127.0.0.1:{port}; dav_methods PUT DELETE; create_full_put_path on; }} }}\n"
    );
    fs::write(&configuration, text)?;
    let mut command = Command::new("nginx");
    command.arg("-c").arg(&configuration).stderr(Stdio::null());
    let Some(mut peer) = Peer::start(&mut command) else {
        return Ok(None);
    };
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let listens = peer.listens(port)?;
    Ok(listens.then_some(Nginx {
        _peer: peer,
        address,
    }))
}
