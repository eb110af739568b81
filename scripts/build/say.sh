# What build.sh says, always on stderr: stdout belongs to the command that it runs.

say() { printf 'build.sh: %s\n' "$*" >&2; }

# One sentence, then exit code 2: something is missing that is to be provided.
die() {
  say "$*"
  exit 2
}

aside=
# aside COMMAND...: runs it beside this shell, in a process group of its own. The terminal's interrupt does not reach it:
# whoever calls this has end_aside in a trap.
aside() {
  set -m
  ("$@") &
  set +m
  aside=$!
}

# joined_aside: waits for it; its exit code.
joined_aside() {
  local code=0
  wait "$aside" || code=$?
  aside=
  return "$code"
}

end_aside() { [ -z "$aside" ] || kill -- "-$aside" 2>/dev/null || true; }

# quietly LOG COMMAND...: runs it with its output in LOG, and shows the end of that only when it fails.
quietly() {
  local log=$1
  shift
  mkdir -p "$(dirname "$log")"
  if "$@" >"$log" 2>&1; then return 0; fi
  tail -n 12 "$log" | sed 's/^/  | /' >&2
  return 1
}
