# What build.sh says, always on stderr: stdout belongs to the command that it runs.

say() { printf 'build.sh: %s\n' "$*" >&2; }

# One sentence, then exit code 2: something is missing that is to be provided.
die() {
  say "$*"
  exit 2
}

# aside COMMAND...: runs it beside this shell, whose end is its end too: the terminal's interrupt does not reach it by
# itself. "$aside" is its process.
aside() {
  set -m
  ("$@") &
  set +m
  aside=$!
  # shellcheck disable=SC2064 # this one's process, not whose comes later
  trap "kill -- -$aside 2>/dev/null || true" EXIT
}

# quietly LOG COMMAND...: runs it with its output in LOG, and shows the end of that only when it fails.
quietly() {
  local log=$1
  shift
  mkdir -p "$(dirname "$log")"
  if "$@" >"$log" 2>&1; then return 0; fi
  tail -n 12 "$log" | sed 's/^/  | /' >&2
  return 1
}
