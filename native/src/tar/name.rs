//! Names of members, resolved without looking at any disk.

/// Most bytes that Linux takes for one component of a path.
const MAX_COMPONENT: usize = 255;

/// Resolves `path` beneath a root. The result has no empty component, no `.` and no `..`; empty is the root itself. An
/// error says what is wrong.
pub fn resolve(path: &[u8]) -> Result<Vec<u8>, &'static str> {
    if path.contains(&0) {
        return Err("holds a NUL");
    }
    if path.starts_with(b"/") {
        return Err("is absolute");
    }
    let mut resolved = Vec::with_capacity(path.len());
    for component in components(path) {
        match component {
            b".." if resolved.is_empty() => return Err("leads out of the root"),
            b".." => resolved.truncate(split(&resolved).0.len()),
            _ if component.len() > MAX_COMPONENT => return Err("has a component above 255 bytes"),
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

/// The components of a path but those that lead nowhere else.
pub fn components(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let parts = path.split(|byte| *byte == b'/');
    parts.filter(|part| !matches!(*part, b"" | b"."))
}

/// How many directories a symlink's target goes above the one that the symlink is in.
pub fn climbs(target: &[u8]) -> u32 {
    let (mut at, mut highest) = (0i32, 0);
    for component in components(target) {
        at += if component == b".." { -1 } else { 1 };
        highest = highest.min(at);
    }
    highest.unsigned_abs()
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
        let (most, more) = ("x".repeat(255), "x".repeat(256));
        for (path, wanted) in [
            ("a/../b", Ok("b")),
            ("./a//b/./c/", Ok("a/b/c")),
            ("a/b/../..", Ok("")),
            ("../x", Err("leads out of the root")),
            ("a/../../a", Err("leads out of the root")),
            ("/a", Err("is absolute")),
            ("a\0b", Err("holds a NUL")),
            (&most, Ok(&most)),
            (&more, Err("has a component above 255 bytes")),
        ] {
            let wanted = wanted.map(|name| name.as_bytes().to_vec());
            assert_eq!(resolve(path.as_bytes()), wanted, "{path}");
        }
        assert_eq!(split(b"a/b/c"), (&b"a/b"[..], &b"c"[..]));
        assert_eq!(split(b"c"), (&b""[..], &b"c"[..]));
    }

    proptest! {
        #[test]
        fn a_resolved_name_is_plain_and_a_target_leads_out_where_it_climbs_above_the_root(
            dir in "(x(/x){0,3})?", target in "[a./]{1,24}",
        ) {
            prop_assume!(!target.starts_with('/'));
            let depth = components(dir.as_bytes()).count() as u32;
            let path = format!("{dir}/{target}");
            let resolved = resolve(path.trim_start_matches('/').as_bytes());
            prop_assert_eq!(climbs(target.as_bytes()) > depth, resolved.is_err());
            if let Ok(name) = resolved {
                prop_assert_eq!(resolve(&name), Ok(name.clone()));
                let plain = |part: &[u8]| !matches!(part, b"" | b"." | b"..");
                prop_assert!(name.is_empty() || name.split(|byte| *byte == b'/').all(plain));
            }
        }
    }
}
