//! Names of members, resolved without looking at any disk.

/// Most bytes that Linux takes for one component of a path.
const MAX_COMPONENT: usize = 255;
/// Most bytes that Linux takes for a path, and so for a symlink's target.
pub const MAX_TARGET: usize = 4095;

/// Resolves `path` beneath a root, starting at `from`, which is resolved already. The result has no
/// empty component, no `.` and no `..`; empty is the root itself. An error says what is wrong.
pub fn resolve(from: &[u8], path: &[u8]) -> Result<Vec<u8>, &'static str> {
    resolve_within(from, path, MAX_COMPONENT)
}

/// As [`resolve`], for a symlink's target, of which nothing is made: its components may be longer
/// than any name.
pub fn resolve_target(from: &[u8], target: &[u8]) -> Result<Vec<u8>, &'static str> {
    resolve_within(from, target, MAX_TARGET)
}

fn resolve_within(from: &[u8], path: &[u8], max: usize) -> Result<Vec<u8>, &'static str> {
    if path.contains(&0) {
        return Err("holds a NUL");
    }
    if path.first() == Some(&b'/') {
        return Err("is absolute");
    }
    let mut resolved = Vec::with_capacity(from.len() + path.len() + 1);
    resolved.extend_from_slice(from);
    for component in path.split(|byte| *byte == b'/') {
        match component {
            b"" | b"." => {}
            b".." if resolved.is_empty() => return Err("leads out of the root"),
            b".." => {
                let above = split(&resolved).0.len();
                resolved.truncate(above);
            }
            _ if component.len() > max => return Err("has a component above 255 bytes"),
            _ => {
                if !resolved.is_empty() {
                    resolved.push(b'/');
                }
                resolved.extend_from_slice(component);
            }
        }
    }
    Ok(resolved)
}

/// How many directories a symlink's target goes above the one that the symlink is in.
pub fn climbs(target: &[u8]) -> u32 {
    let (mut at, mut highest) = (0i32, 0);
    for component in target.split(|byte| *byte == b'/') {
        match component {
            b"" | b"." => {}
            b".." => at -= 1,
            _ => at += 1,
        }
        highest = highest.min(at);
    }
    highest.unsigned_abs()
}

/// How many directories beneath the root a resolved name's directory is.
pub fn depth(name: &[u8]) -> u32 {
    name.iter().filter(|byte| **byte == b'/').count() as u32
}

/// A resolved name's directory, empty for the root, and its last component.
pub fn split(name: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memrchr(b'/', name) {
        Some(slash) => (&name[..slash], &name[slash + 1..]),
        None => (&name[..0], name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn dots_are_resolved_and_may_not_leave() {
        let name =
            |path: &str| resolve(b"", path.as_bytes()).map(|name| String::from_utf8(name).unwrap());
        assert_eq!(name("a/../b"), Ok("b".into()));
        assert_eq!(name("./a//b/./c/"), Ok("a/b/c".into()));
        assert_eq!(name("a/b/../.."), Ok(String::new()));
        assert_eq!(name("../x"), Err("leads out of the root"));
        assert_eq!(name("a/../../a"), Err("leads out of the root"));
        assert_eq!(name("/a"), Err("is absolute"));
        assert_eq!(name("a\0b"), Err("holds a NUL"));
        assert!(name(&"x".repeat(255)).is_ok() && name(&"x".repeat(256)).is_err());
        assert_eq!(resolve(b"d/e", b"../f"), Ok(b"d/f".to_vec()));
        assert_eq!(resolve(b"d", b"../../f"), Err("leads out of the root"));
        assert_eq!(split(b"a/b/c"), (&b"a/b"[..], &b"c"[..]));
        assert_eq!(split(b"c"), (&b""[..], &b"c"[..]));
    }

    proptest! {
        #[test]
        fn a_target_leads_out_where_it_climbs_above_the_root(
            dir in "(x(/x){0,3})?", target in "[a./]{1,24}",
        ) {
            prop_assume!(!target.starts_with('/'));
            let name = if dir.is_empty() { "s".to_owned() } else { format!("{dir}/s") };
            let leads_out = resolve(dir.as_bytes(), target.as_bytes()).is_err();
            prop_assert_eq!(climbs(target.as_bytes()) > depth(name.as_bytes()), leads_out);
        }

        #[test]
        fn a_resolved_name_is_plain_and_resolves_to_itself(path in "[a./]{0,24}") {
            if let Ok(name) = resolve(b"", path.as_bytes()) {
                prop_assert_eq!(resolve(b"", &name), Ok(name.clone()));
                let plain = |part: &[u8]| !matches!(part, b"" | b"." | b"..");
                prop_assert!(name.is_empty() || name.split(|byte| *byte == b'/').all(plain));
            }
        }
    }
}
