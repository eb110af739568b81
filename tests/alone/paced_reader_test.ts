import { ok } from "node:assert/strict";
import { eventually } from "../support/await_event.ts";
import { flood } from "../support/child_scripts.ts";
import {
  atRate,
  followThrough,
  gated,
  MB,
  pause,
  readers,
  Received,
  SIZE,
  whole,
} from "../support/paced_reader.ts";
import { withDaemon } from "../support/with_daemon.ts";

for (const rate of [50, 100]) {
  withDaemon.test(`a reader whose network carries ${rate} MB/s loses nothing`, async ({ daemon }) => {
    await atRate(daemon, rate);
  });
}

withDaemon.test("a reader 50 ms away, whose command writes from its start, loses nothing", async ({ daemon }) => {
  const id = await daemon.exec(flood(SIZE));
  await pause(50);
  whole([await followThrough(daemon, id, { rate: 50 * MB })]);
});

withDaemon.together("what takes time and little of a processor", {
  "a reader whose network carries 20 MB/s loses nothing": ({ daemon }) => atRate(daemon, 20),
  async "a reader that stops for half a second loses nothing"({ daemon }): Promise<void> {
    whole(await readers(daemon, { rate: 50 * MB, stopAt: 12 * MB }));
  },
  async "a reader whose connection is lost every second, and who is back within 50 ms, loses nothing"(
    { daemon },
  ): Promise<void> {
    whole(await readers(daemon, { rate: 4 * MB, cutMs: 1000 }));
  },
  async "a followed command is as slow as its reader, and its exit is not"(
    { daemon },
  ): Promise<void> {
    const id = await gated(daemon);
    const received = new Received();
    const reading = followThrough(daemon, id, { rate: 4 * MB }, received);
    await received.attached.promise;
    await daemon.stdin(id, "x", true);
    const began = performance.now();
    await eventually("its end", async () => (await daemon.group(id)).child_exited);
    const took = performance.now() - began;
    ok(took > 2000, `it was held back: ${took} ms`);
    await eventually(
      "its outcome",
      async () => (await daemon.guest.poll(id)).phase === "exited",
      100,
    );
    whole([await reading]);
  },
});
