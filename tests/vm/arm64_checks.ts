/**
 * The image for aarch64: it boots, answers and runs commands. What it is made of is all that differs from amd64, so the
 * rest is checked there, where emulation is faster.
 */

import { deepStrictEqual, match, strictEqual } from "node:assert/strict";
import { exportedFunctions } from "../support/elf.ts";
import { rustExports } from "../support/rust_exports.ts";
import { readSource, sourceFiles, sourceUrl } from "../support/source_files.ts";
import { Machine, Shelf } from "./machine.ts";

Deno.test("the library for arm64 exports exactly what the Rust source declares", () => {
  const own = Deno.build.arch === "aarch64";
  const library = sourceUrl(own ? "dist/libguestd.so" : "dist/arm64/libguestd.so");
  const declared = sourceFiles("native/src", ".rs")
    .flatMap((path) => [...rustExports(readSource(path)).keys()]);
  deepStrictEqual(exportedFunctions(library.pathname), declared.sort());
});

Deno.test("the arm64 image boots, answers, runs commands and powers off", async () => {
  using shelf = new Shelf();
  const disk = shelf.disk("disk", "arm64");
  const started = performance.now();
  await using machine = await Machine.boot({ arch: "arm64", disk });
  using guest = await machine.guest();
  strictEqual((await guest.client.health()).bootstrapped, false);
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  console.log(`health answered ${seconds} s after the start of QEMU`);

  for (const hook of ["ready", "validate"] as const) await guest.client.hooks[hook]();
  await guest.run();
  console.log(`after the run hook: ${await guest.daemonMemory()}`);
  strictEqual(await guest.sh("uname -m"), "aarch64");
  match(await guest.sh("tr '\\0' ' ' </proc/1/cmdline"), /guestd/);
  strictEqual(await guest.sh("id -u; id -g", { uid: 1000 }), "1000\n1000");
  const echo = await guest.start("read -r line; echo $line; exit 5", { stdin: "piped" });
  await guest.client.writeStdin(echo, new TextEncoder().encode("there and back\n"));
  const rest = await guest.follow(echo);
  deepStrictEqual([rest.text(), rest.exit.exit_code], ["there and back\n", 5]);
  const stuck = await guest.start("exec sleep 100000");
  await guest.client.kill(stuck);
  strictEqual((await guest.client.ack(stuck)).signal, 15);

  await guest.client.hooks.terminate();
  await machine.poweredOff();
});
