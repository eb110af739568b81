use super::super::crypto::public_key;
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

fn keys() -> Arc<Keys> {
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
    assert_eq!(public_key(&key("vm_seed")), key("vm_pub"));
    assert_eq!(cases().len(), 3);
    for case in cases() {
        let value = |name: &str| value(case, name);
        let prologue = value("prologue");
        let state = end(["vm_seed", "host_pub", "eph_r"], &prologue, false);
        let (state, payload) = read_first(state, &value("msg1")).expect(case);
        assert_eq!(payload, value("payload"));
        let accepted = accept(state, &payload, !prologue.is_empty()).unwrap();
        assert_eq!(accepted.answer, value("msg2"));
        let mut session = accepted.session;
        assert_eq!(session.has_authenticated_end(), !payload.is_empty());
        assert!(session.confirms(&value("i2r_0(microvms-tunnel-ready)")));
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
        let accepted = respond(&keys(), 8080, &first).unwrap();
        assert_eq!(accepted.must_confirm, confirms);
        // The vectors' second prologue names this port.
        assert_eq!(respond(&keys(), 8081, &first).is_err(), confirms);
    }
}

#[test]
fn ephemerals_are_new_each_time() {
    let first = value(cases()[0], "msg1");
    let answer = || respond(&keys(), 1, &first).unwrap().answer;
    assert_ne!(answer()[..32], answer()[..32]);
}

#[test]
fn a_first_message_that_is_not_the_clients_is_refused() {
    let first = value(cases()[0], "msg1");
    let refused = |message: &[u8]| respond(&keys(), 8080, message).is_err();
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
    assert!(respond(&stranger, 8080, &first).is_err());
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
        respond(&keys(), 1, &first(payload)).map(|accepted| {
            (
                accepted.session.has_authenticated_end(),
                accepted.answer.len(),
            )
        })
    };
    assert_eq!(ends(b""), Ok((false, 48)));
    assert_eq!(ends(&[0]), Ok((false, 49)));
    assert_eq!(ends(&[0xff]), Ok((true, 49)));
    assert_eq!(ends(&[1, 1]), Err(Refused));
}

#[test]
fn messages_cannot_be_replayed_reordered_or_changed() {
    let mut state = client();
    let mut buffer = [0; 256];
    let length = state.write_message(&[], &mut buffer).unwrap();
    let accepted = respond(&keys(), 1, &buffer[..length]).unwrap();
    state.read_message(&accepted.answer, &mut buffer).unwrap();
    let mut client = state.into_transport_mode().unwrap();
    let mut say = |text: &[u8]| {
        let mut out = vec![0; text.len() + TAG_BYTES];
        client.write_message(text, &mut out).unwrap();
        out
    };
    let (one, two) = (say(b"one"), say(b"two"));
    let mut session = accepted.session;
    let mut plain = [0; 64];
    assert_eq!(session.open(&two, &mut plain), Err(Refused));
    assert_eq!(session.open(&one, &mut plain), Ok(3));
    assert_eq!(session.open(&one, &mut plain), Err(Refused));
    let mut flipped = two.clone();
    flipped[0] ^= 1;
    assert_eq!(session.open(&flipped, &mut plain), Err(Refused));
    assert!(!session.confirms(&two), "a message that is no confirmation");
}

#[test]
fn keys_of_another_size_are_no_keys() {
    assert!(Keys::new(&[1; 32], &[1; 32]).is_some());
    assert!(Keys::new(&[1; 31], &[1; 32]).is_none());
    assert!(Keys::new(&[1; 32], &[1; 33]).is_none());
}
