import { deepStrictEqual, strictEqual } from "node:assert/strict";
import { AgentToken, Bootstrap } from "../../src/bootstrap/bootstrap.ts";
import { HookLog } from "../../src/bootstrap/hook_log.ts";
import { KeptLog } from "./http_fixture.ts";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

Deno.test("nothing matches before a token is installed, and only all of it afterwards", () => {
  const token = new AgentToken();
  strictEqual(token.matches(bytes("")), false);
  strictEqual(token.matches(bytes("x")), false);
  token.install("é\0x");
  strictEqual(token.matches(new Uint8Array([0xc3, 0xa9, 0, 0x78])), true);
  for (const wrong of ["", "é", "é\0", "é\0xy", "é\0y", "e\0x"]) {
    strictEqual(token.matches(bytes(wrong)), false, JSON.stringify(wrong));
  }
  strictEqual(token.matches(new Uint8Array([0xe9, 0, 0x78])), false);
});

Deno.test("the base environment keeps what execve can carry, and the rest is warned of by name alone", () => {
  const kept = new KeptLog();
  const bootstrap = new Bootstrap(kept.log);
  deepStrictEqual(bootstrap.environment, new Map());
  const carried: [string, string][] = [["A", "1"], ["__proto__", "p"], ["EMPTY", ""], ["E", "a=b"]];
  const dropped: [string, string][] = [
    ["", "S3CR3T"],
    ["B=", "S3CR3T"],
    ["C\0", "S3CR3T"],
    ["D", "S3CR3T\0y"],
    ["\ud800", "S3CR3T"],
    ["F", "S3CR3T\udfff"],
  ];
  bootstrap.install({ token: "t", env: new Map([...carried, ...dropped]), identity: null });
  deepStrictEqual([...bootstrap.environment], carried);
  deepStrictEqual(
    kept.lines.map(({ level, name }) => [level, name]),
    dropped.map(([name]) => ["warn", JSON.parse(JSON.stringify(name))]),
  );
  strictEqual(JSON.stringify(kept.lines).includes("S3CR3T"), false);
});

Deno.test("the hook log keeps the first 64 invocations and counts the others", () => {
  const hookLog = new HookLog();
  hookLog.record("ready", 1_999);
  for (let index = 1; index < 64; index++) hookLog.record("resume", index * 1000);
  strictEqual(hookLog.dropped, 0n);
  hookLog.record("terminate");
  hookLog.record("terminate");
  strictEqual(hookLog.entries.length, 64);
  deepStrictEqual(hookLog.entries[0], { hook: "ready", fired_at: 1 });
  deepStrictEqual(hookLog.entries[63], { hook: "resume", fired_at: 63 });
  strictEqual(hookLog.dropped, 2n);
});

Deno.test("an invocation is dated by the wall clock in seconds, never before the epoch", () => {
  const hookLog = new HookLog();
  const before = Math.floor(Date.now() / 1000);
  hookLog.record("run");
  hookLog.record("run", -5000);
  const [now, early] = hookLog.entries;
  strictEqual(Number(now?.fired_at) >= before && Number(now?.fired_at) <= Date.now() / 1000, true);
  strictEqual(early?.fired_at, 0);
});
