import { deepStrictEqual, ok } from "node:assert/strict";
import { command } from "../support/command.ts";
import { sourceUrl } from "../support/source_files.ts";

const CONTAINED = sourceUrl("scripts/contained").pathname;

/** What may not work in there, each by itself. */
const ATTEMPTS = [
  `: >${sourceUrl("").pathname}written`,
  ": >/tmp/guestd-written",
  "mount -o remount,rw /",
  "umount /dev",
  "mknod device b 254 0",
  ": >/dev/shm/guestd-written",
  "echo 1 >/proc/sys/kernel/panic",
  "echo >/sys/written",
  `kill -0 ${Deno.pid}`,
  "head -c 3000000000 /dev/zero | tail -c 3000000000 >/dev/null",
  "grep -v -e '^Inter' -e '^ face' -e '^ *lo:' /proc/net/dev",
];

Deno.test({
  name: "what runs contained writes to its directory alone, reaches nobody else and leaves nobody",
  ignore: Deno.uid() !== 0,
  fn: async () => {
    // Scratch files may lie below /dev, which is another in there.
    const directory = Deno.makeTempDirSync({ dir: sourceUrl(".tools").pathname });
    using cleanup = new DisposableStack();
    cleanup.defer(() => Deno.removeSync(directory));
    const script = [
      "echo mine >file && cat file",
      ...ATTEMPTS.map((attempt, at) => `(${attempt}) 2>/dev/null && echo "attempt ${at} worked"`),
      "sleep 86399 >/dev/null 2>&1 &",
      "exec true",
    ].join("\n");
    const { code, out, said } = await command(CONTAINED, [directory, "sh", "-c", script], {
      signal: AbortSignal.timeout(60_000),
    });
    deepStrictEqual([code, out, said], [0, "mine", ""]);
    deepStrictEqual([...Deno.readDirSync(directory)], []);
    const left = [...Deno.readDirSync("/proc")].filter(({ name }) => /^\d+$/.test(name))
      .map(({ name }) => commandLine(name));
    ok(!left.includes("sleep\x0086399\x00"));
  },
});

/** The arguments of a process; nothing where it has gone. */
function commandLine(pid: string): string {
  try {
    return Deno.readTextFileSync(`/proc/${pid}/cmdline`);
  } catch {
    return "";
  }
}
