# docs: the guides and the API reference as pages in dist/docs, which need no server and no network. docs --check looks at
# them in Chromium and keeps pictures of three in dist/docs-pictures; as root it installs Debian's.
source "$root/scripts/build/setup.sh"
source "$root/scripts/build/debian.sh"

# What draws the reference: one file of npm's package, whose dependencies it holds.
scalar_version=1.72.1
scalar_sha512=5e9109d2b7dcfdc5db0ab47e882e242b4a3f5b05f6753b4641b4f4e3d3a53ca0070fa20c205753786cf6afe336ecfd840d62b25084d19bf37394ff33da9c3f3b
scalar=$tools/scalar-$scalar_version/standalone.js

ensure_scalar() {
  [ ! -e "$scalar" ] || return 0
  say "fetching npm's @scalar/api-reference $scalar_version (some 10 MB)"
  local place=$tools/scalar.new
  rm -rf "$place" "$tools"/scalar-*
  mkdir -p "$place"
  (
    cd "$place"
    quietly "$tools/log/npm.log" "$root/scripts/with_node" npm pack --silent "@scalar/api-reference@$scalar_version" &&
      echo "$scalar_sha512  scalar-api-reference-$scalar_version.tgz" | sha512sum --check --status &&
      tar -xzf scalar-*.tgz --strip-components=3 package/dist/browser/standalone.js && rm scalar-*.tgz
  ) || die "the docs need npm's @scalar/api-reference $scalar_version, as it was published"
  mv "$place" "$(dirname "$scalar")"
}

build_docs() {
  ensure_scalar
  local made=dist/docs.new document=$tools/openapi.json
  rm -rf "$made"
  mkdir -p "$made"
  scripts/guestd --print-openapi >"$document"
  "$deno" run --quiet --frozen --allow-read --allow-write=dist scripts/docs/build.ts "$made" "$document"
  "$deno" bundle --quiet --frozen --platform browser --format iife --minify -o "$made/page.js" scripts/docs/page.js >&2
  cp "$scalar" "$made/scalar.js"
  rm -rf dist/docs
  mv "$made" dist/docs
  say "dist/docs/index.html is the first page"
}

check_docs() {
  rm -rf dist/docs-pictures
  mkdir -p dist/docs-pictures
  "$deno" run --quiet --no-prompt --frozen --allow-all scripts/docs/check.ts dist/docs dist/docs-pictures
}

need_chromium() { need_commands "the pages are looked at in Chromium" chromium:chromium; }

build_and_check_docs() {
  build_docs
  check_docs
}

command_docs() {
  case "$*" in
    "") set_up && build_docs ;;
    --check) need_chromium && set_up && build_and_check_docs ;;
    *) die "docs takes --check or nothing" ;;
  esac
}
