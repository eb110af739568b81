import { deepStrictEqual, match, ok, strictEqual } from "node:assert/strict";
import { allSettings, parseSetting } from "../../src/settings.ts";
import { readSource } from "../support/source_files.ts";

/** The settings that `NAME=value` lines make. */
function settings(text: string): [string, string][] {
  return Array.from(text.matchAll(/\b(GUESTD_[A-Z_]+)=(\S+)/g), ([, name = "", value = ""]) => [
    name,
    value,
  ]);
}

const DOCKERFILE = readSource("image/Dockerfile");
const ENV = settings(readSource("image/guestd.env"));

Deno.test("the image's settings are settings of the daemon's, and parse", () => {
  ok(ENV.length > 0);
  for (const [name, value] of ENV) {
    const setting = allSettings().find(({ variable }) => variable === name);
    ok(setting !== undefined && parseSetting(setting, value) !== undefined, `${name}=${value}`);
  }
});

Deno.test("the Dockerfile's guest has the settings of the image's, but for vsock, which may be that of whoever runs it", () => {
  const env = /^ENV (.*\\\n)*.*/m.exec(DOCKERFILE)?.[0] ?? "";
  const tcp = ENV.map(([name, value]) => [name, value?.replace(",vsock:9000", "")]);
  deepStrictEqual(settings(env), tcp);
});

Deno.test("the Dockerfile installs by the image's own steps, and starts what they install", () => {
  const entrypoint = /^ENTRYPOINT \["([^"]+)"\]$/m.exec(DOCKERFILE)?.[1];
  strictEqual(entrypoint, "/usr/bin/guestd");
  match(DOCKERFILE, /^RUN \.\/build\.sh install \/guest$/m);
  match(readSource("scripts/build/image.sh"), /^ +install_into "\$stage"$/m);
  match(readSource("scripts/build/install.sh"), /^ +install_into "\$directory" /m);
  match(readSource("scripts/build/stage.sh"), /scripts\/guestd "\$2\/usr\/bin\/guestd"/);
  match(readSource("image/init"), new RegExp(`exec ${entrypoint};`));
});
