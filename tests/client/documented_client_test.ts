import { deepStrictEqual, ok, strictEqual } from "node:assert/strict";
import { command } from "../support/command.ts";
import { readSource, sourceUrl } from "../support/source_files.ts";
import { withStarted } from "../support/with_daemon.ts";

withStarted.test("the examples of docs/client.md run one after the other and print what they say", async ({ daemon, scratch }) => {
  const blocks = Array.from(
    readSource("docs/client.md").matchAll(/^```ts\n(.*?)^```$/gms),
    ([, block = ""]) => block,
  );
  ok(blocks.length >= 12);
  const program = blocks.join("")
    .replaceAll('"@guestd/client"', JSON.stringify(sourceUrl("src/client/mod.ts").href))
    .replaceAll("127.0.0.1:9000", `127.0.0.1:${daemon.port}`)
    .replaceAll("connect(9000)", `connect(${daemon.port})`)
    .replaceAll("/tmp/guestd-client", scratch.path);
  const file = scratch.file("examples.ts", program);
  const args = ["run", "--check", "--no-prompt", "--allow-net", "--config"];
  const { code, out, said } = await command(
    Deno.execPath(),
    [...args, sourceUrl("deno.json").pathname, file],
    { signal: AbortSignal.timeout(60_000) },
  );
  strictEqual(code, 0, said);
  const lines = out.split("\n");
  // What the comments promise comes in their order.
  const promised = Array.from(
    program.matchAll(/console\.log\(.*; \/\/ (.*)$/gm),
    ([, text = ""]) =>
      text.split(", ").length > 1 && !text.startsWith("hello,") ? text.split(", ") : [text],
  ).flat();
  let at = 0;
  const missing = promised.filter((text) => {
    const found = lines.indexOf(text, at);
    if (found !== -1) at = found + 1;
    return found === -1;
  });
  deepStrictEqual(missing, [], out);
});
