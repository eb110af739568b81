import { deepStrictEqual, rejects, strictEqual } from "node:assert/strict";
import { eventually, TimeoutError, within } from "./await_event.ts";
import { LogLines } from "./log_lines.ts";
import {
  childrenOf,
  fdCount,
  gone,
  isLive,
  processStat,
  residentBytes,
  threadCount,
} from "./proc.ts";

Deno.test("a wait gives the promise's own value or error, and ends in time without one", async () => {
  strictEqual(await within("one", Promise.resolve(1)), 1);
  await rejects(within("it", Promise.reject(new RangeError("own"))), /own/);
  await rejects(within("nothing", new Promise(() => {}), 1), TimeoutError);
});

Deno.test("a fact is asked for until it is so", async () => {
  let asked = 0;
  strictEqual(await eventually("the third time", () => ++asked === 3 && asked), 3);
  await rejects(eventually("never", () => false, 5), /never/);
});

/** A log that the test writes itself. */
function logOf(): { log: LogLines; write: (text: string) => void; end: () => void } {
  const { readable, writable } = new TransformStream<string, string>();
  const writer = writable.getWriter();
  return {
    log: new LogLines(readable.pipeThrough(new TextEncoderStream())),
    write: (text) => void writer.write(text),
    end: () => void writer.close(),
  };
}

Deno.test("a log line is found whether it was written before or comes later", async () => {
  const { log, write, end } = logOf();
  const waiting = log.until("b", ({ msg }) => msg === "b");
  write('{"level":"info","msg":"a"}\n{"level":"info","m');
  write('sg":"b","port":7}\npanic: no JSON\n');
  strictEqual((await waiting)["port"], 7);
  strictEqual((await log.until("a", ({ msg }) => msg === "a")).level, "info");
  strictEqual((await log.until("a panic", ({ level }) => level === "raw")).msg, "panic: no JSON");
  write("rest");
  end();
  await log.ended;
  strictEqual(log.lines.length, 4);
  strictEqual(log.withMessage("a").length, 1);
  strictEqual(log.toString().split("\n")[3], "rest");
});

Deno.test("waiting for a line fails as soon as the log has ended, and shows it", async () => {
  const { log, write, end } = logOf();
  const waiting = log.until("b", ({ msg }) => msg === "b");
  write('{"level":"error","msg":"broken"}\n');
  end();
  await rejects(waiting, /broken/);
  await rejects(log.until("c", ({ msg }) => msg === "c"), /log has ended/);
});

Deno.test("a process, its children, its end and its resources are seen in /proc", async () => {
  const child = new Deno.Command("cat", { stdin: "piped", stdout: "null" }).spawn();
  await eventually("cat to be itself", () => processStat(child.pid)?.comm === "cat");
  const stat = processStat(child.pid);
  deepStrictEqual([stat?.ppid, stat?.pid], [Deno.pid, child.pid]);
  strictEqual(isLive(child.pid), true);
  strictEqual(childrenOf(Deno.pid).some(({ pid }) => pid === child.pid), true);
  strictEqual(fdCount(child.pid) >= 3, true);
  strictEqual(threadCount(child.pid), 1);
  strictEqual(residentBytes(child.pid) > 4096, true);
  await child.stdin.close();
  await child.status;
  await gone(child.pid);
  strictEqual(isLive(child.pid), false);
});
