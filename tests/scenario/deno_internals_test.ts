import { deepStrictEqual, ok, strictEqual } from "node:assert/strict";
import { PROVOCATIONS } from "../contract/provocations.ts";
import { Daemon } from "../support/daemon.ts";
import { FIN, frame, OP } from "../support/frames.ts";
import { Scratch } from "../support/scratch.ts";
import { closedBy, TunnelClient } from "../support/tunnel_client.ts";
import { Guest } from "../support/tunnel_guest.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
const MIB = 1 << 20;

/** What is taken away, and how: by a name that is not there, or out of the launcher. Rows of docs/deno-internals.md. */
interface Absence {
  readonly from: "dist/guestd.js" | "scripts/guestd";
  readonly what: string;
  readonly instead: string;
}

const ABSENCES: Readonly<Record<string, Absence>> = {
  "[[readyState]]": { from: "dist/guestd.js", what: "[[readyState]]", instead: "[[none]]" },
  "[[eventLoop]]": { from: "dist/guestd.js", what: "[[eventLoop]]", instead: "[[none]]" },
  "ErrorEvent": { from: "dist/guestd.js", what: "EOF|os error", instead: "other words" },
  "DENO_TOKIO_EVENT_INTERVAL": {
    from: "scripts/guestd",
    what: "DENO_TOKIO_EVENT_INTERVAL=1 ",
    instead: "",
  },
  "--unstable-no-legacy-abort": {
    from: "scripts/guestd",
    what: "--unstable-no-legacy-abort ",
    instead: "",
  },
  "--unstable-vsock": { from: "scripts/guestd", what: "--unstable-vsock ", instead: "" },
  "--expose-gc": { from: "scripts/guestd", what: ",--expose-gc", instead: "" },
  "--max-semi-space-size": {
    from: "scripts/guestd",
    what: "--max-semi-space-size=1,",
    instead: "",
  },
};

/** A checkout as the launcher sees it, with something taken away. */
function without({ from, what, instead }: Absence, scratch: Scratch): string {
  for (const name of ["scripts", "dist"]) Deno.mkdirSync(scratch.join(name));
  Deno.symlinkSync(`${ROOT}.tools`, scratch.join(".tools"));
  Deno.symlinkSync(`${ROOT}dist/libguestd.so`, scratch.join("dist/libguestd.so"));
  for (const name of ["dist/guestd.js", "scripts/guestd"]) {
    const text = Deno.readTextFileSync(ROOT + name);
    ok(name !== from || text.includes(what), `${name} has no ${what}`);
    Deno.writeTextFileSync(
      scratch.join(name),
      name === from ? text.replaceAll(what, instead) : text,
    );
  }
  Deno.chmodSync(scratch.join("scripts/guestd"), 0o755);
  return scratch.join("scripts/guestd");
}

/** A daemon that is started by another launcher. */
function startedBy(launcher: string): Promise<Daemon> {
  return Daemon.bootstrapped({ through: ["/bin/sh", "-c", `exec ${launcher}`] });
}

for (const [name, absence] of Object.entries(ABSENCES)) {
  Deno.test(`all 20 routes are served without ${name}`, async () => {
    using house = new Scratch();
    await using daemon = await startedBy(without(absence, house));
    const { routes, hook_prefix } = daemon.document;
    const keys = routes.flatMap(({ method, path, statuses }) => {
      const [good] = statuses.filter(({ code }) => code < 300);
      return good === undefined ? [] : [[`${method} ${path.replace(hook_prefix, "")}`, good.code]];
    });
    strictEqual(keys.length, 20);
    // The last of the hooks ends the daemon.
    keys.sort(([one]) => one === "POST /terminate" ? 1 : -1);
    for (const [route, code] of keys) {
      using scratch = new Scratch();
      const answer = await PROVOCATIONS[`${route} ${code}`]?.(daemon, scratch);
      strictEqual(answer?.status, code, `${route}`);
      await answer?.body?.cancel();
    }
    strictEqual(await daemon.end(), 0);
  });
}

Deno.test("without a pause a tunnel works, and ends with 4500 where its guest takes 8 MiB less than is sent", async () => {
  using house = new Scratch();
  const absence = ABSENCES["[[eventLoop]]"];
  ok(absence !== undefined);
  await using daemon = await startedBy(without(absence, house));
  using guest = new Guest();
  using client = await TunnelClient.open(daemon, `?port=${guest.port}`);
  using connection = await guest.accept();
  await client.say("hello");
  strictEqual(await connection.text(5), "hello");
  await connection.send("to you");
  strictEqual(await client.text(6), "to you");
  const message = frame(FIN | OP.binary, new Uint8Array(MIB));
  const flooding = (async (): Promise<void> => {
    for (let sent = 0; sent < 64; sent++) await client.send(message);
  })().catch(() => {});
  const close = await client.frame();
  ok(close !== null);
  strictEqual(closedBy(close).code, 4500);
  client.socket.close();
  await flooding;
  await daemon.logWritten();
  const warnings = daemon.log.lines.filter(({ level }) => level === "warn");
  deepStrictEqual(warnings.map(({ deno }) => deno), [Deno.version.deno]);
});
