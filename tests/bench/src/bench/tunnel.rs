//! The tunnel, against bare TCP to the same echo, sink and source, `ssh -L` and websockify.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use serde_json::json;

use super::{commands, health, say, say_round};
use crate::Outcome;
use crate::daemon::{Daemon, TOKEN};
use crate::figures::{Goal, Line, Unit, percentile};
use crate::peer::{Peer, free_port};
use crate::ssh::{self, Ssh};
use crate::tunnel::client::{self, Metric, Speech};
use crate::tunnel::guest;

/// Sent and received each time, in bytes.
const BYTES: usize = 256 << 20;
/// The keys that the client has, those of the published vectors: a seed of 0x11, and the public key
/// of a secret of 0x22; both in base64.
const SEED: &str = "ERERERERERERERERERERERERERERERERERERERERERE=";
const CLIENT: &str = "D6poTtKIZ7l/Smot7l34zpdOdrcBjj8iocTPJnhXDyA=";

/// What is measured, in the order of the guest's ports.
const METRICS: [Metric; 3] = [Metric::RoundTrip, Metric::Up, Metric::Down];

fn local(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// A port of `ssh`'s for each of the guest's.
fn forwarded(ssh: &Ssh, guest: [u16; 3]) -> Outcome<[u16; 3]> {
    let mut ports = [0; 3];
    for (port, to) in ports.iter_mut().zip(guest) {
        *port = free_port()?;
        ssh.forward(*port, to)?;
    }
    Ok(ports)
}

/// websockify in front of each of the guest's ports; `None` where it is not installed.
fn websockify(guest: [u16; 3]) -> Outcome<Option<([u16; 3], Vec<Peer>)>> {
    let (mut ports, mut peers) = ([0; 3], Vec::new());
    for (port, to) in ports.iter_mut().zip(guest) {
        *port = free_port()?;
        let mut command = Command::new("websockify");
        command.args([*port, to].map(|port| format!("127.0.0.1:{port}")));
        let Some(mut peer) = Peer::start(command.stderr(Stdio::null())) else {
            return Ok(None);
        };
        if !peer.listens(*port)? {
            return Err("websockify has ended".into());
        }
        peers.push(peer);
    }
    Ok(Some((ports, peers)))
}

/// Measures all lines of the tunnel. `scratch` is a directory for what OpenSSH needs.
pub fn run(root: &Path, scratch: &Path, rounds: usize) -> Outcome<Vec<Line>> {
    let guest = guest::serve()?;
    let daemon = Daemon::launch(root, &[])?;
    daemon.bootstrap(&json!({
        "agent_token": TOKEN,
        "identity_seed": SEED,
        "identity_host_public_key": CLIENT,
    }))?;
    let ssh = ssh::start(&scratch.join("ssh"))?;
    let by_ssh = ssh.as_ref().map(|ssh| forwarded(ssh, guest)).transpose()?;
    let websockify = websockify(guest)?;
    if by_ssh.is_none() {
        say("OpenSSH is not installed: its column stays empty");
    }
    if websockify.is_none() {
        say("websockify is not installed: its column stays empty");
    }
    let rate = Unit::MbPerSecond;
    let mut plain = [
        Line::new("tunnel: round trip", Unit::Us, Goal::AheadInTime),
        Line::new("tunnel: 256 MiB up", rate, Goal::AheadInRate(1.0)),
        Line::new("tunnel: 256 MiB down", rate, Goal::AheadInRate(0.7)),
    ];
    // Against the plain tunnel; of a round trip, twice as long at most.
    let mut proven = [
        Line::new("identity: round trip", Unit::Us, Goal::RatioAtMost(2.0)),
        Line::new("identity: 256 MiB up", rate, Goal::RatioAtLeast(0.5)),
        Line::new("identity: 256 MiB down", rate, Goal::RatioAtLeast(0.5)),
    ];
    let name = "health p99 beside 200 tunnels, 20 flooding";
    let mut health = Line::new(name, Unit::Ms, Goal::AtMost(25.0));
    let name = "start to exit beside a flooding tunnel";
    let mut command = Line::new(name, Unit::Ms, Goal::RatioAtMost(1.5));
    for round in 0..rounds {
        for (index, metric) in METRICS.into_iter().enumerate() {
            let port = guest[index];
            let measure = |speech, at| client::run(speech, metric, BYTES, at);
            let (plain, proven) = (&mut plain[index], &mut proven[index]);
            plain.limit.push(measure(Speech::Tcp, local(port))?);
            let path = format!("/v1/tcp?port={port}");
            let ours = measure(Speech::Ws(&path), daemon.address)?;
            plain.ours.push(ours);
            proven.limit.push(ours);
            let path = format!("{path}&identity=1");
            let ours = measure(Speech::Noise(&path), daemon.address)?;
            proven.ours.push(ours);
            if let Some(ports) = by_ssh {
                plain.ssh.push(measure(Speech::Tcp, local(ports[index]))?);
            }
            if let Some((ports, _)) = &websockify {
                let ours = measure(Speech::Ws("/"), local(ports[index]))?;
                plain.websockify.push(ours);
            }
        }
        beside(&daemon, guest[1], round, &mut health, &mut command)?;
        say_round("tunnel", round, rounds);
    }
    let lines = plain.into_iter().chain(proven);
    Ok(lines.chain([health, command]).collect())
}

/// What others have of the daemon beside floods to the sink at `port`.
fn beside(
    daemon: &Daemon,
    port: u16,
    round: usize,
    health: &mut Line,
    command: &mut Line,
) -> Outcome<()> {
    let path = format!("/v1/tcp?port={port}");
    let speech = Speech::Ws(&path);
    let flooded = |count: usize, measure: &(dyn Fn() -> Outcome<f64> + Sync)| {
        let flood = |_, stop: &AtomicBool| client::flood(speech, daemon.address, stop);
        health::beside(count, flood, |_| {
            thread::sleep(Duration::from_millis(300));
            measure()
        })
    };
    let commands = |kind: &'static str| -> Outcome<f64> {
        let mut client = daemon.client()?;
        commands::latency(100, |turn| {
            let id = format!("{kind}-{round}-{turn}");
            commands::by_stream(&mut client, &id)?;
            client.ack(&id).map(drop)
        })
    };
    let alone = commands("alone")?;
    command.add(alone, flooded(1, &|| commands("beside"))?);
    let idle = || client::idle(speech, daemon.address);
    let _idle = (0..180).map(|_| idle()).collect::<Outcome<Vec<_>>>()?;
    let watch = || health::watch(daemon, Duration::from_secs(2), Duration::from_millis(5));
    let p99 = flooded(20, &|| Ok(percentile(&watch()?, 0.99)))?;
    health.ours.push(p99);
    Ok(())
}
