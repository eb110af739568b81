use super::*;
use proptest::prelude::*;

/// A caller's frame, masked, with its length in the shortest form unless `wide` bytes are asked for.
fn frame(first: u8, payload: &[u8], wide: usize) -> Vec<u8> {
    let key = [0x11, 0xa2, 0x33, 0xc4];
    let mut bytes = vec![first];
    let size = match (payload.len(), wide) {
        (0..126, 0) => 0,
        (0..65536, 0 | 2) => 2,
        _ => 8,
    };
    match size {
        0 => bytes.push(0x80 | payload.len() as u8),
        2 => {
            bytes.push(0x80 | 126);
            bytes.extend((payload.len() as u16).to_be_bytes());
        }
        _ => {
            bytes.push(0x80 | 127);
            bytes.extend((payload.len() as u64).to_be_bytes());
        }
    }
    bytes.extend(key);
    bytes.extend(
        payload
            .iter()
            .zip(key.iter().cycle())
            .map(|(byte, mask)| byte ^ mask),
    );
    bytes
}

#[derive(Debug, Default, PartialEq)]
struct Heard {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    pings: Vec<Vec<u8>>,
    closed: Option<(Option<u16>, Vec<u8>)>,
}

/// Feeds pieces of the given sizes, over and over, until all is taken.
fn hear(parser: &mut Parser, stream: &[u8], sizes: &[usize]) -> Result<Heard, Violation> {
    let mut heard = Heard::default();
    let mut rest = stream;
    let mut sizes = sizes.iter().cycle();
    while !rest.is_empty() {
        let size = sizes
            .next()
            .map_or(rest.len(), |&size| size.clamp(1, rest.len()));
        let mut piece = rest[..size].to_vec();
        rest = &rest[size..];
        let mut at = 0;
        loop {
            match parser.step(&mut piece, &mut at)? {
                Step::Payload { at, ends, .. } => {
                    heard.bytes.extend_from_slice(&piece[at]);
                    if ends {
                        heard.ends.push(heard.bytes.len());
                    }
                }
                Step::Ping => heard.pings.push(parser.control().to_vec()),
                Step::Close(code) => heard.closed = Some((code, parser.control().to_vec())),
                Step::More => break,
            }
        }
        assert_eq!(at, piece.len());
    }
    Ok(heard)
}

fn refused(stream: &[u8]) -> Option<Violation> {
    hear(&mut Parser::new(1 << 20), stream, &[]).err()
}

proptest! {
    #[test]
    fn however_the_bytes_are_cut_the_same_is_heard(
        messages in prop::collection::vec(
            prop::collection::vec((prop::collection::vec(any::<u8>(), 0..400), 0usize..3), 1..4),
            1..6,
        ),
        pings in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..125), 0..4),
        sizes in prop::collection::vec(1usize..97, 1..6),
    ) {
        let (mut stream, mut bytes, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        let mut pings_left = pings.iter();
        for fragments in &messages {
            for (index, (payload, wide)) in fragments.iter().enumerate() {
                let last = index + 1 == fragments.len();
                let first = u8::from(last) << 7 | if index == 0 { BINARY } else { 0 };
                stream.extend(frame(first, payload, *wide * 4));
                bytes.extend(payload);
                // Control frames may come between the fragments of a message.
                if let Some(ping) = pings_left.next() {
                    stream.extend(frame(FIN | PING, ping, 0));
                    stream.extend(frame(FIN | PONG, ping, 0));
                }
            }
            ends.push(bytes.len());
        }
        let mut parser = Parser::new(1 << 20);
        let heard = hear(&mut parser, &stream, &sizes).unwrap();
        prop_assert_eq!(&heard.bytes, &bytes);
        prop_assert_eq!(&heard.ends, &ends);
        let sent = pings.len() - pings_left.len();
        prop_assert_eq!(&heard.pings, &pings[..sent]);
        prop_assert!(parser.is_between_messages());
    }

    #[test]
    fn no_bytes_make_it_panic(stream in prop::collection::vec(any::<u8>(), 0..300), sizes in prop::collection::vec(1usize..40, 1..4)) {
        let _ = hear(&mut Parser::new(1000), &stream, &sizes);
    }

    #[test]
    fn a_head_to_the_caller_says_its_length(length in prop_oneof![0usize..300, 65_000usize..66_000, 1usize..10_000_000]) {
        let (head, size) = binary_head(length);
        // A caller's parser is ours but for the mask: set the bit and give it a mask of zeros.
        let mut masked = head[..size].to_vec();
        masked[1] |= MASKED;
        masked.extend([0; 4]);
        let mut parser = Parser::new(u64::MAX);
        let mut at = 0;
        let _ = parser.step(&mut masked, &mut at).unwrap();
        prop_assert_eq!(parser.left, length as u64);
    }
}

#[test]
fn what_breaks_the_protocol_is_refused() {
    let unmasked = [FIN | BINARY, 3, b'a', b'b', b'c'];
    assert_eq!(refused(&unmasked), Some(Violation::Protocol));
    for bits in [0x40, 0x20, 0x10] {
        assert_eq!(
            refused(&frame(FIN | bits | BINARY, b"x", 0)),
            Some(Violation::Protocol)
        );
    }
    for opcode in [3, 4, 5, 6, 7, 11, 12, 13, 14, 15] {
        assert_eq!(
            refused(&frame(FIN | opcode, b"x", 0)),
            Some(Violation::Protocol)
        );
    }
    for opcode in [CLOSE, PING, PONG] {
        assert_eq!(
            refused(&frame(FIN | opcode, &[b'1'; 126], 0)),
            Some(Violation::Protocol)
        );
        assert_eq!(
            refused(&frame(opcode, b"", 0)),
            Some(Violation::Protocol),
            "fragmented control"
        );
    }
    assert_eq!(
        refused(&frame(FIN, b"x", 0)),
        Some(Violation::Protocol),
        "continues nothing"
    );
    let twice = [frame(BINARY, b"x", 0), frame(FIN | BINARY, b"y", 0)].concat();
    assert_eq!(
        refused(&twice),
        Some(Violation::Protocol),
        "a message within a message"
    );
}

#[test]
fn a_length_of_two_to_the_63rd_is_refused_before_its_payload_comes() {
    let mut head = vec![FIN | BINARY, 0x80 | 127];
    head.extend((1u64 << 63).to_be_bytes());
    assert_eq!(refused(&head), Some(Violation::Protocol));
    assert_eq!(refused(&head[..3]), Some(Violation::Protocol));
    // Just below it the length is valid, and too long for this parser.
    let mut head = vec![FIN | BINARY, 0x80 | 127];
    head.extend((u64::MAX >> 1).to_be_bytes());
    head.extend([0; 4]);
    assert_eq!(refused(&head), Some(Violation::TooLong));
    assert_eq!(
        hear(&mut Parser::new(u64::MAX), &head, &[]).unwrap().ends,
        Vec::<usize>::new()
    );
}

#[test]
fn fragments_count_together_against_the_longest_message() {
    let one = frame(BINARY, &[0; 60], 0);
    let two = frame(FIN, &[0; 41], 0);
    let mut parser = Parser::new(100);
    hear(&mut parser, &one, &[]).unwrap();
    assert_eq!(hear(&mut parser, &two, &[]), Err(Violation::TooLong));
}

#[test]
fn a_close_says_its_code_or_is_refused() {
    let code = |payload: &[u8]| {
        hear(&mut Parser::new(1), &frame(FIN | CLOSE, payload, 0), &[1]).map(|heard| heard.closed)
    };
    assert_eq!(code(b""), Ok(Some((None, vec![]))));
    assert_eq!(
        code(b"\x03\xe8bye"),
        Ok(Some((Some(1000), b"\x03\xe8bye".to_vec())))
    );
    for bad in [
        &b"\x03"[..],
        b"\x03\xed",
        b"\x03\xee",
        b"\x00\x00",
        b"\x13\x88",
        b"\x03\xe8\xff",
    ] {
        assert_eq!(code(bad), Err(Violation::Protocol));
    }
}

#[test]
fn a_close_to_the_caller_is_cut_at_a_characters_border() {
    let frame = close(Some(4500), &"é".repeat(100));
    assert_eq!(frame.len(), 2 + 2 + 122);
    assert!(std::str::from_utf8(&frame[4..]).is_ok());
    assert_eq!(close(None, "dropped"), vec![0x88, 0]);
    assert_eq!(pong(b"hi"), vec![0x8a, 2, b'h', b'i']);
}
