import { deepStrictEqual, ok, strictEqual } from "node:assert/strict";
import { Log, type LogFields, type LogLevel } from "../../src/log.ts";

/** What a log of `level` writes when `use` uses it. */
function written(level: LogLevel, use: (log: Log) => void): string {
  let text = "";
  use(
    new Log(level, (line) => {
      text += line;
    }),
  );
  return text;
}

Deno.test("a line is one JSON object: time, level, msg, fields", () => {
  const before = Date.now();
  const line = written("info", (log) => log.info("a\nb", { n: 1, big: 2n ** 64n, no: null }));
  ok(line.endsWith("}\n"));
  strictEqual(line.indexOf("\n"), line.length - 1);
  ok(line.includes('"big":18446744073709551616'));
  const { time, ...rest } = JSON.parse(line);
  deepStrictEqual(Object.keys(rest), ["level", "msg", "n", "big", "no"]);
  strictEqual(rest.level, "info");
  strictEqual(rest.msg, "a\nb");
  ok(Date.parse(time) >= before && Date.parse(time) <= Date.now());
});

Deno.test("what is below the level is dropped", () => {
  const levels = ["debug", "info", "warn", "error"] as const;
  for (const [index, level] of levels.entries()) {
    const lines = written(level, (log) => {
      for (const each of levels) log[each]("x");
    }).trimEnd().split("\n");
    deepStrictEqual(lines.map((line) => JSON.parse(line).level), levels.slice(index));
  }
});

Deno.test("a field cannot pose as time, level or message", () => {
  const line = written("info", (log) => {
    // @ts-expect-error the compiler keeps the names of the head from being fields
    log.warn("true", { msg: "false" });
    log.info("bare");
  });
  deepStrictEqual(Object.keys(JSON.parse(line.split("\n")[1] ?? "")), ["time", "level", "msg"]);
});

Deno.test("a line of any length is whole", () => {
  for (const length of [1, 1300, 1400, 5000, 100_000]) {
    const text = "é".repeat(length);
    strictEqual(JSON.parse(written("info", (log) => log.info("x", { text }))).text, text);
  }
});

Deno.test("a sink that fails loses the line and nothing else", () => {
  let text = "";
  let failing = true;
  const log = new Log("info", (line) => {
    if (failing) throw new Deno.errors.BrokenPipe("gone");
    text += line;
  });
  log.error("lost");
  failing = false;
  log.error("kept");
  const [hole, kept] = text.trimEnd().split("\n").map((line) => JSON.parse(line));
  deepStrictEqual([hole.level, hole.msg, hole.count], ["warn", "log lines were lost", 1]);
  strictEqual(kept.msg, "kept");
});

Deno.test("what cannot be written as JSON throws nothing", () => {
  const circular: Record<string, unknown> = {};
  circular["self"] = circular;
  strictEqual(written("info", (log) => log.info("x", circular as LogFields)), "");
});

Deno.test("a closed standard error does not kill the process", async () => {
  const source = `
    import { Log } from ${JSON.stringify(new URL("../../src/log.ts", import.meta.url).href)};
    const log = new Log("info");
    await Deno.stdin.readable.getReader().read();
    for (let n = 0; n < 10000; n++) log.info("x".repeat(1000));
    console.log("alive");`;
  const child = new Deno.Command(Deno.execPath(), {
    args: ["eval", source],
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  await child.stderr.cancel();
  const writer = child.stdin.getWriter();
  await writer.write(new Uint8Array(1));
  await writer.close();
  strictEqual(new TextDecoder().decode((await child.output()).stdout), "alive\n");
});
