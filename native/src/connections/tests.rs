use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Instant;

use super::*;
use crate::wake::EVENT_SIZE;

/// A served connection, and the client's end of it.
fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (listener.accept().unwrap().0, client)
}

fn ends_of(served: &TcpStream) -> Ends {
    let (peer, local) = (served.peer_addr().unwrap(), served.local_addr().unwrap());
    Ends::new(b"127.0.0.1", peer.port().into(), local.port().into()).unwrap()
}

struct Watcher {
    wake: Arc<Wake>,
    connections: Connections,
}

impl Watcher {
    fn new() -> Self {
        let wake = Arc::new(Wake::default());
        let connections = Connections::start(Arc::clone(&wake)).unwrap();
        Self { wake, connections }
    }

    /// Watches a connection until it is found; the handle.
    fn watch(&self, served: &TcpStream) -> u32 {
        let id = self.connections.watch(ends_of(served));
        self.facts_once(id, |_| true);
        id
    }

    /// Waits until the state of some connection changes; the handle.
    fn changed(&self) -> u32 {
        let mut event = [0; EVENT_SIZE];
        assert_eq!(self.wake.wait(&mut event), Some(1));
        assert_eq!(event[..4], (Kind::Connection as u32).to_le_bytes());
        u32::from_le_bytes(*event[4..].first_chunk().unwrap())
    }

    fn facts_once(&self, id: u32, wanted: impl Fn(&Facts) -> bool) -> Facts {
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            if let Some(facts) = self.connections.facts(id).filter(&wanted) {
                return facts;
            }
            assert!(Instant::now() < until, "it was not seen");
            thread::yield_now();
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.connections.close();
    }
}

#[test]
fn what_is_known_of_a_connection_is_what_the_kernel_says_now() {
    let watcher = Watcher::new();
    let (mut served, _client) = pair();
    let id = watcher.watch(&served);
    assert_eq!(watcher.connections.facts(id).unwrap().state, 1);
    served.set_nonblocking(true).unwrap();
    let mut written = 0;
    while let Ok(count) = served.write(&[0; 65536]) {
        written += count as u64;
    }
    let facts = watcher.facts_once(id, |facts| facts.acked + u64::from(facts.unsent) >= written);
    assert!(facts.unsent > 0, "the client takes nothing: {facts:?}");
}

#[test]
fn an_end_and_a_reset_of_the_other_end_are_told() {
    let watcher = Watcher::new();
    let (served, client) = pair();
    let id = watcher.watch(&served);
    client.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(watcher.changed(), id);
    assert_eq!(watcher.connections.facts(id).unwrap().state, 8);
    rustix::net::connect_unspec(&client).unwrap();
    assert_eq!(watcher.changed(), id);
    assert_eq!(watcher.connections.facts(id).unwrap().state, CLOSED);
    drop(served);
    assert_eq!(watcher.changed(), id);
    assert_eq!(watcher.connections.facts(id), None);
    assert!(!watcher.connections.end(id));
}

#[test]
fn a_connection_that_is_not_there_is_gone_at_once() {
    let watcher = Watcher::new();
    let (served, _client) = pair();
    let ends = ends_of(&served);
    drop(served);
    let id = watcher.connections.watch(ends);
    assert_eq!(watcher.changed(), id);
    assert_eq!(watcher.connections.facts(id), None);
}

#[test]
fn the_watched_one_is_ended_and_no_other() {
    let watcher = Watcher::new();
    let pairs = [pair(), pair(), pair()];
    let id = watcher.watch(&pairs[1].0);
    assert!(watcher.connections.end(id));
    for (number, (mut served, mut client)) in pairs.into_iter().enumerate() {
        let timeout = Some(Duration::from_secs(20));
        client.set_read_timeout(timeout).unwrap();
        let wrote = served.write_all(b"x");
        assert_eq!(wrote.is_ok(), number != 1);
        let read = client.read(&mut [0; 2]).unwrap();
        assert_eq!(read, usize::from(number != 1));
    }
}

#[test]
fn a_descriptor_that_belongs_to_another_connection_by_now_is_let_be() {
    let watcher = Watcher::new();
    let (served, _client) = pair();
    let id = watcher.watch(&served);
    let (other, mut other_client) = pair();
    // Its descriptor's number gets another connection, before anybody looks again.
    dup2(&other, &served);
    assert_eq!(watcher.connections.facts(id), None);
    assert!(!watcher.connections.end(id));
    (&served).write_all(b"x").unwrap();
    other_client.read_exact(&mut [0; 1]).unwrap();
}

#[allow(unsafe_code)]
fn dup2(from: &TcpStream, onto: &TcpStream) {
    // SAFETY: dup2 takes two open descriptors, which these are; both stay owned as they were.
    let result = unsafe { libc::dup2(from.as_raw_fd(), onto.as_raw_fd()) };
    assert!(result >= 0);
}

fn tcp(port: u32) -> Door {
    let is_vsock = false;
    Door { is_vsock, port }
}

fn probe_of(fd: i32, cookie: u64, peer: Option<&str>) -> Probe {
    Probe {
        fd,
        cookie,
        peer: peer.map(|peer| End::Tcp(peer.parse().unwrap())),
        local: tcp(9000),
        received: 100,
        facts: Facts {
            state: if peer.is_some() { 1 } else { CLOSED },
            ..Facts::default()
        },
    }
}

/// What becomes of a watch: whether its connection is watched then, or lost, and whether that is told.
fn settled(watch: Watch, probes: &[Probe]) -> (&'static str, bool) {
    let mut watches = HashMap::from([(1, watch)]);
    let told = !settle(&mut watches, probes).is_empty();
    let state = match watches[&1] {
        Watch::Fresh(_) | Watch::Seeking(_) => "seeking",
        Watch::Watching(_) => "watching",
        Watch::Lost => "lost",
    };
    (state, told)
}

#[test]
fn in_doubt_nothing_is_found() {
    let peer = Some("127.0.0.1:5000");
    let own = probe_of(1_000_001, 1, peer);
    let mapped = Probe {
        peer: End::parse("::ffff:127.0.0.1", 5000),
        ..own
    };
    let other = Probe {
        local: tcp(9001),
        ..own
    };
    let twin = probe_of(1_000_002, 2, peer);
    // It may have been the one that is sought, and the other its successor from the same port.
    let reset = probe_of(1_000_002, 2, None);
    // What was never connected is nobody's.
    let unused = Probe {
        received: 0,
        ..reset
    };
    let table: [(&[Probe], _); 7] = [
        (&[own], ("watching", false)),
        (&[mapped], ("watching", false)),
        (&[other], ("lost", true)),
        (&[own, twin], ("seeking", false)),
        (&[own, reset], ("seeking", false)),
        (&[reset], ("lost", true)),
        (&[own, unused], ("watching", false)),
    ];
    for (probes, wanted) in table {
        let sought = Ends::new(b"127.0.0.1", 5000, 9000).unwrap();
        let found = settled(Watch::Seeking(sought), probes);
        assert_eq!(found, wanted, "{probes:?}");
    }
}

#[test]
fn a_found_connection_stays_the_one_that_it_was() {
    let peer = Some("127.0.0.1:5000");
    let own = probe_of(1_000_001, 1, peer);
    let successor = probe_of(1_000_001, 2, peer);
    let reset = probe_of(1_000_001, 1, None);
    let settled = |probes: &[Probe]| settled(Watch::Watching(own.found()), probes);
    assert_eq!(settled(&[own]), ("watching", false));
    assert_eq!(settled(&[successor]), ("lost", true));
    assert_eq!(settled(&[reset, successor]), ("watching", true));
}

#[test]
fn an_idle_client_is_asked_whether_it_is_there() {
    let (served, _client) = pair();
    probe::keep_alive(&probe::look(served.as_raw_fd()).unwrap());
    assert_eq!(rustix::net::sockopt::socket_keepalive(&served), Ok(true));
    let idle = rustix::net::sockopt::tcp_keepidle(&served).unwrap();
    assert_eq!(idle, Duration::from_secs(60));
}

fn changes(watcher: &Watcher, wanted: impl Fn(&Change) -> bool) -> Change {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(change) = watcher.connections.changes(1).into_iter().find(&wanted) {
            return change;
        }
        assert!(Instant::now() < until, "it was not seen");
        thread::yield_now();
    }
}

#[test]
fn clients_are_told_when_they_come_and_go_and_may_be_expelled() {
    let watcher = Watcher::new();
    // One client each.
    let servers = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    // Of another server, of which nobody follows but vsock's port of the same number.
    let (other, _its_client) = pair();
    let (is_vsock, port) = (true, other.local_addr().unwrap().port().into());
    watcher.connections.follow(Door { is_vsock, port });
    let addresses = servers.each_ref().map(|it| it.local_addr().unwrap());
    for address in addresses {
        let port = u32::from(address.port());
        watcher.connections.follow(tcp(port));
    }
    let clients = addresses.map(|address| TcpStream::connect(address).unwrap());
    let served = servers.each_ref().map(|server| server.accept().unwrap().0);
    let cookies = clients.each_ref().map(|client| {
        let came = changes(&watcher, |change| change.peer.is_some());
        assert!(
            clients
                .iter()
                .any(|client| client.local_addr().ok().map(End::Tcp) == came.peer)
        );
        assert!(client.peer_addr().is_ok());
        came
    });
    let [first, second] = cookies;
    assert!(watcher.connections.expel(first.cookie));
    let expelled = |client: &&TcpStream| client.local_addr().ok().map(End::Tcp) == first.peer;
    for (mut client, mut ours) in clients.iter().zip(&served) {
        if expelled(&client) {
            assert_eq!(client.read(&mut [0; 1]).unwrap(), 0);
        } else {
            ours.write_all(b"x").unwrap();
            assert_eq!(client.read(&mut [0; 1]).unwrap(), 1);
        }
    }
    drop(served);
    let gone = [(); 2].map(|()| changes(&watcher, |change| change.peer.is_none()).cookie);
    assert!(gone.contains(&first.cookie) && gone.contains(&second.cookie));
    assert!(!watcher.connections.expel(first.cookie));
}

#[test]
fn what_was_reset_before_it_was_seen_is_nobody_and_what_was_seen_stays_until_it_is_gone() {
    let mut roll = Roll::default();
    let known = probe_of(1_000_001, 1, Some("127.0.0.1:5000"));
    let reset = |cookie| probe_of(1_000_001, cookie, None);
    assert!(!roll.call(&[known]), "nobody wants to know");
    roll.follow(tcp(9000));
    for _ in 0..2 {
        assert_eq!(roll.sought(), HashSet::from([tcp(9000)]));
    }
    roll.found(tcp(9000));
    assert_eq!(roll.sought(), HashSet::new());
    assert!(roll.call(&[known, reset(2)]));
    assert!(!roll.call(&[reset(1)]));
    assert!(roll.call(&[]));
    let told: Vec<_> = roll
        .changes(9)
        .iter()
        .map(|change| (change.cookie, change.peer.is_some()))
        .collect();
    assert_eq!(told, [(1, true), (1, false)]);
    assert!(roll.is_empty() && roll.changes(9).is_empty());
}
