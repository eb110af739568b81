use std::io::Write;
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
    Ends::new(peer, Some(local.port()))
}

struct House {
    wake: Arc<Wake>,
    connections: Connections,
}

impl House {
    fn new() -> Self {
        let wake = Arc::new(Wake::default());
        let connections = Connections::new(Arc::clone(&wake));
        Self { wake, connections }
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

impl Drop for House {
    fn drop(&mut self) {
        self.connections.close();
    }
}

#[test]
fn what_is_known_of_a_connection_is_what_the_kernel_says_now() {
    let house = House::new();
    let (mut served, _client) = pair();
    let id = house.connections.watch(ends_of(&served)).unwrap();
    assert_eq!(house.facts_once(id, |_| true).state, 1);
    served.set_nonblocking(true).unwrap();
    let mut written = 0;
    while let Ok(count) = served.write(&[0; 65536]) {
        written += count as u64;
    }
    let facts = house.facts_once(id, |facts| facts.acked + u64::from(facts.unsent) >= written);
    assert!(facts.unsent > 0, "the client takes nothing: {facts:?}");
    assert!(facts.went_ms < 20_000, "{facts:?}");
}

#[test]
fn an_end_and_a_reset_of_the_other_end_are_told() {
    let house = House::new();
    let (served, client) = pair();
    let id = house.connections.watch(ends_of(&served)).unwrap();
    house.facts_once(id, |_| true);
    client.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(house.changed(), id);
    assert_eq!(house.connections.facts(id).unwrap().state, 8);
    rustix::net::connect_unspec(&client).unwrap();
    assert_eq!(house.changed(), id);
    assert_eq!(house.connections.facts(id).unwrap().state, CLOSED);
    drop(served);
    assert_eq!(house.changed(), id);
    assert_eq!(house.connections.facts(id), None);
    assert!(!house.connections.end(id, Ending::Shut));
}

#[test]
fn a_connection_that_is_not_there_is_gone_at_once() {
    let house = House::new();
    let (served, _client) = pair();
    let ends = ends_of(&served);
    drop(served);
    let id = house.connections.watch(ends).unwrap();
    assert_eq!(house.changed(), id);
    assert_eq!(house.connections.facts(id), None);
}

#[test]
fn the_watched_one_is_ended_and_no_other() {
    for ending in [Ending::Shut, Ending::Reset] {
        let house = House::new();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let pairs: Vec<(TcpStream, TcpStream)> = (0..3)
            .map(|_| {
                let client = TcpStream::connect(address).unwrap();
                (listener.accept().unwrap().0, client)
            })
            .collect();
        let id = house.connections.watch(ends_of(&pairs[1].0)).unwrap();
        house.facts_once(id, |_| true);
        assert!(house.connections.end(id, ending));
        for (number, (mut served, mut client)) in pairs.into_iter().enumerate() {
            client
                .set_read_timeout(Some(Duration::from_secs(20)))
                .unwrap();
            let wrote = served.write_all(b"x");
            assert_eq!(wrote.is_ok(), number != 1);
            let read = std::io::Read::read(&mut client, &mut [0; 2]);
            match (number, ending) {
                (1, Ending::Shut) => assert_eq!(read.unwrap(), 0),
                (1, Ending::Reset) => assert!(read.is_err()),
                _ => assert_eq!(read.unwrap(), 1),
            }
        }
    }
}

#[test]
fn a_descriptor_that_belongs_to_another_connection_by_now_is_let_be() {
    let house = House::new();
    let (served, _client) = pair();
    let id = house.connections.watch(ends_of(&served)).unwrap();
    house.facts_once(id, |_| true);
    let (other, mut other_client) = pair();
    // Its descriptor's number gets another connection, before anybody looks again.
    rustix_dup2(&other, &served);
    assert_eq!(house.connections.facts(id), None);
    assert!(!house.connections.end(id, Ending::Reset));
    (&served).write_all(b"x").unwrap();
    std::io::Read::read_exact(&mut other_client, &mut [0; 1]).unwrap();
}

#[allow(unsafe_code)]
fn rustix_dup2(from: &TcpStream, onto: &TcpStream) {
    // SAFETY: dup2 takes two open descriptors, which these are; both stay owned as they were.
    let result = unsafe { libc::dup2(from.as_raw_fd(), onto.as_raw_fd()) };
    assert!(result >= 0);
}

fn probe_of(fd: i32, cookie: u64, peer: Option<&str>) -> Probe {
    Probe {
        fd,
        cookie,
        peer: peer.map(|peer| peer.parse().unwrap()),
        local_port: 9000,
        received: 100,
        facts: Facts {
            state: if peer.is_some() { 1 } else { CLOSED },
            ..Facts::default()
        },
    }
}

fn settled(watch: Watch, probes: &[Probe]) -> (Watch, bool) {
    let mut watches = HashMap::from([(1, watch)]);
    let told = !settle(&mut watches, probes).is_empty();
    (watches.remove(&1).unwrap(), told)
}

#[test]
fn in_doubt_nothing_is_found() {
    let peer = "127.0.0.1:5000";
    let seek = || Watch::Seeking(Ends::new(peer.parse().unwrap(), Some(9000)));
    let own = probe_of(1_000_001, 1, Some(peer));
    assert!(matches!(
        settled(seek(), &[own]),
        (Watch::Watching(_), false)
    ));
    let mapped = probe_of(1_000_001, 1, Some("[::ffff:127.0.0.1]:5000"));
    let mapped = Probe {
        peer: mapped.peer.map(plain),
        ..mapped
    };
    assert!(matches!(
        settled(seek(), &[mapped]),
        (Watch::Watching(_), false)
    ));
    let other = Probe {
        local_port: 9001,
        ..own
    };
    assert!(matches!(settled(seek(), &[other]), (Watch::Lost, true)));
    let twin = probe_of(1_000_002, 2, Some(peer));
    assert!(matches!(
        settled(seek(), &[own, twin]),
        (Watch::Seeking(_), false)
    ));
    // It may have been the one that is sought, and the other its successor from the same port.
    let reset = probe_of(1_000_002, 2, None);
    assert!(matches!(
        settled(seek(), &[own, reset]),
        (Watch::Seeking(_), false)
    ));
    assert!(matches!(settled(seek(), &[reset]), (Watch::Lost, true)));
    // What was never connected is nobody's.
    let unused = Probe {
        received: 0,
        ..reset
    };
    assert!(matches!(
        settled(seek(), &[own, unused]),
        (Watch::Watching(_), false)
    ));
}

#[test]
fn a_found_connection_stays_the_one_that_it_was() {
    let peer = "127.0.0.1:5000";
    let own = probe_of(1_000_001, 1, Some(peer));
    let found = || Watch::Watching(own.found());
    assert!(matches!(
        settled(found(), &[own]),
        (Watch::Watching(_), false)
    ));
    let successor = probe_of(1_000_001, 2, Some(peer));
    assert!(matches!(
        settled(found(), &[successor]),
        (Watch::Lost, true)
    ));
    let reset = probe_of(1_000_001, 1, None);
    assert!(matches!(
        settled(found(), &[reset, successor]),
        (Watch::Watching(_), true)
    ));
}

#[test]
fn an_idle_client_is_asked_whether_it_is_there() {
    let (served, _client) = pair();
    probe::keep_alive(&probe::look(&served).unwrap());
    assert_eq!(rustix::net::sockopt::socket_keepalive(&served), Ok(true));
    let idle = rustix::net::sockopt::tcp_keepidle(&served).unwrap();
    assert_eq!(idle, Duration::from_secs(60));
}
