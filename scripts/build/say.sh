# What build.sh says, always on stderr: stdout belongs to the command that it runs.

say() { printf 'build.sh: %s\n' "$*" >&2; }

# One sentence, then exit code 2: something is missing that is to be provided.
die() {
  say "$*"
  exit 2
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
