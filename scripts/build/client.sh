# client: src/client as an npm package in dist/npm: ES modules and their types, for Node, Bun and bundlers.
source "$root/scripts/build/setup.sh"

typescript=npm:typescript@6.0.3

command_client() {
  set_up
  rm -rf dist/npm.new
  say "compiling the client"
  "$deno" run --quiet --frozen --allow-read --allow-env --allow-sys --allow-write=dist "$typescript/tsc" \
    --project scripts/npm/tsconfig.json
  "$deno" run --quiet --no-lock --no-remote --no-npm --allow-read=deno.json --allow-write=dist \
    scripts/npm/package.ts dist/npm.new
  cp LICENSE dist/npm.new/
  cp docs/client.md dist/npm.new/README.md
  rm -rf dist/npm
  mv dist/npm.new dist/npm
  say "dist/npm is the package: npm install $root/dist/npm"
}
