use super::*;

/// The vectors come from another implementation. The file is small and regular, so that a few
/// lines read it without a JSON parser.
const VECTORS: &str = include_str!("../../tests/data/noise_vectors.json");

fn value(text: &str, name: &str) -> Vec<u8> {
    let key = format!("\"{name}\": \"");
    let from = text.find(&key).expect(name) + key.len();
    let hex = text[from..].split('"').next().expect(name);
    let digits = hex.as_bytes().chunks(2);
    digits
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn key(name: &str) -> [u8; 32] {
    value(VECTORS, name).try_into().unwrap()
}

fn cases() -> Vec<&'static str> {
    VECTORS.split("\"name\"").skip(1).collect()
}

fn keys() -> Keys {
    Keys::new(&key("vm_seed"), &key("host_pub")).unwrap()
}

/// One end with its own secret, the other's public key and an ephemeral that is known.
fn end(names: [&str; 3], prologue: &[u8], is_client: bool) -> HandshakeState {
    let [secret, other, ephemeral] = names.map(key);
    let builder = builder(&secret, &other, prologue).unwrap();
    let builder = builder.fixed_ephemeral_key_for_testing_only(&ephemeral);
    match is_client {
        true => builder.build_initiator().unwrap(),
        false => builder.build_responder().unwrap(),
    }
}

fn client() -> HandshakeState {
    end(["host_seed", "vm_pub", "eph_i"], b"", true)
}

#[test]
fn the_responder_speaks_byte_for_byte_what_the_vectors_say() {
    assert_eq!(cases().len(), 3);
    for case in cases() {
        let value = |name: &str| value(case, name);
        let prologue = value("prologue");
        let state = end(["vm_seed", "host_pub", "eph_r"], &prologue, false);
        let (mut session, answer) = accept(state, &value("msg1"), false).expect(case);
        assert_eq!(answer, value("msg2"));
        assert_eq!(session.authenticated_end, !value("payload").is_empty());
        let mut ready = value("i2r_0(microvms-tunnel-ready)");
        let length = session.open(&mut ready).unwrap();
        assert_eq!(ready[..length], *b"microvms-tunnel-ready");
        let mut sealed = [0; 64];
        let length = session.seal(b"hello", &mut sealed).unwrap();
        assert_eq!(sealed[..length], value("r2i_0(hello)"));
        let length = session.seal(b"", &mut sealed).unwrap();
        assert_eq!(sealed[..length], value("r2i_1(empty=end of stream)"));
    }
}

#[test]
fn the_prologue_is_the_one_that_reads_the_first_message_and_binds_the_port() {
    for (case, confirms) in cases().into_iter().zip([false, false, true]) {
        let first = value(case, "msg1");
        let (session, _) = respond(&keys(), 8080, &first).unwrap();
        assert_eq!(session.must_confirm, confirms);
        // The vectors' second prologue names this port.
        assert_eq!(respond(&keys(), 8081, &first).is_none(), confirms);
    }
}

#[test]
fn ephemerals_are_new_each_time() {
    let first = value(cases()[0], "msg1");
    let answer = || respond(&keys(), 1, &first).unwrap().1;
    assert_ne!(answer()[..32], answer()[..32]);
}

#[test]
fn a_first_message_that_is_not_the_clients_is_refused() {
    let first = value(cases()[0], "msg1");
    let refused = |message: &[u8]| respond(&keys(), 8080, message).is_none();
    assert!(!refused(&first));
    for length in 0..first.len() {
        assert!(refused(&first[..length]), "cut to {length}");
    }
    assert!(refused(&[&first[..], b"x"].concat()));
    for bit in 0..first.len() * 8 {
        let mut flipped = first.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(refused(&flipped), "bit {bit}");
    }
    let stranger = Keys::new(&[7; 32], &key("host_pub")).unwrap();
    assert!(respond(&stranger, 8080, &first).is_none());
}

#[test]
fn only_an_empty_payload_or_one_byte_is_understood() {
    let first = |payload: &[u8]| {
        let mut message = [0; 256];
        let mut state = client();
        let length = state.write_message(payload, &mut message).unwrap();
        message[..length].to_vec()
    };
    let ends = |payload: &[u8]| {
        let accepted = respond(&keys(), 1, &first(payload));
        accepted.map(|(session, answer)| (session.authenticated_end, answer.len()))
    };
    assert_eq!(ends(b""), Some((false, 48)));
    assert_eq!(ends(&[0]), Some((false, 49)));
    assert_eq!(ends(&[0xff]), Some((true, 49)));
    assert_eq!(ends(&[1, 1]), None);
}

#[test]
fn messages_cannot_be_replayed_reordered_or_changed() {
    let mut state = client();
    let mut buffer = [0; 256];
    let length = state.write_message(&[], &mut buffer).unwrap();
    let (mut session, answer) = respond(&keys(), 1, &buffer[..length]).unwrap();
    state.read_message(&answer, &mut buffer).unwrap();
    let mut client = state.into_transport_mode().unwrap();
    let mut say = |text: &[u8]| {
        let mut out = vec![0; text.len() + TAG_BYTES];
        client.write_message(text, &mut out).unwrap();
        out
    };
    let (one, two) = (say(b"one"), say(b"two"));
    let mut open = |message: &[u8]| session.open(&mut message.to_vec());
    assert_eq!(open(&two), None);
    assert_eq!(open(&one), Some(3));
    assert_eq!(open(&one), None);
    let mut flipped = two.clone();
    flipped[0] ^= 1;
    assert_eq!(open(&flipped), None);
    assert_eq!(open(&two), Some(3));
}

#[test]
fn keys_of_another_size_are_no_keys() {
    assert!(Keys::new(&[1; 32], &[1; 32]).is_some());
    assert!(Keys::new(&[1; 31], &[1; 32]).is_none());
    assert!(Keys::new(&[1; 32], &[1; 33]).is_none());
}
