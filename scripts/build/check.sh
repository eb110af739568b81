# check: everything that can be seen without running the daemon. All of it runs, then the failed ones are named.
# shellcheck source=scripts/build/setup.sh
source "$root/scripts/build/setup.sh"

bad=()

# checked NAME COMMAND...
checked() {
  local name=$1
  shift
  say "$name"
  "$@" || bad+=("$name")
}

all_sources() { find src -name '*.ts' | sort; }

command_check() {
  set_up
  ensure_cargo
  local sources shell=(build.sh .ci/run scripts/guestd scripts/build/*.sh image/*.sh image/init image/udhcpc.script)
  mapfile -t sources < <(all_sources)
  checked "deno fmt" "$deno" fmt --check
  checked "deno lint" "$deno" lint --quiet
  checked "deno check" "$deno" check --quiet --frozen src tests scripts
  checked "deno doc --lint" "$deno" doc --lint --quiet "${sources[@]}"
  checked "cargo fmt" "$cargo" fmt --manifest-path native/Cargo.toml --check
  checked "cargo clippy" "$cargo" clippy --quiet --locked --all-targets --manifest-path native/Cargo.toml \
    --target-dir target -- -D warnings
  if command -v shellcheck >/dev/null; then checked "shellcheck" shellcheck -x "${shell[@]}"; fi
  if command -v hadolint >/dev/null; then checked "hadolint" hadolint image/Dockerfile; fi
  [ ${#bad[@]} -eq 0 ] || { say "failed: $(IFS=,; echo "${bad[*]}")"; return 1; }
}
