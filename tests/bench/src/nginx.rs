//! nginx with WebDAV, as the reference for files.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::Outcome;

/// A running nginx; dropping it ends it.
pub struct Nginx {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
}

/// Starts one that serves and takes files below `root`, an absolute path; none where it is not
/// installed. Bodies lie below `root` meanwhile, so that the last step is a renaming.
pub fn start(root: &Path) -> Outcome<Option<Nginx>> {
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
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
    let started = Command::new("nginx")
        .arg("-c")
        .arg(&configuration)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(child) = started else { return Ok(None) };
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let mut nginx = Nginx { child, address };
    while TcpStream::connect(address).is_err() {
        if nginx.child.try_wait()?.is_some() {
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(Some(nginx))
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // Its workers end with it at SIGTERM, not at SIGKILL.
        let _ = Command::new("kill")
            .arg(self.child.id().to_string())
            .status();
        let _ = self.child.wait();
    }
}
