import { helpText, readConfig, unknownVariables } from "./config.ts";
import { schemaDocument } from "./contract/document.ts";
import { encodeJson } from "./contract/json.ts";
import { ROWS, servedPath } from "./contract/rows.ts";
import { CLOSE_CODES } from "./contract/tunnel.ts";
import { VERSION } from "./contract/version.ts";
import { Daemon } from "./daemon.ts";
import { Log, StderrQueue } from "./log.ts";

/** How long the end waits for the log to be written, in milliseconds. */
const FLUSH_MS = 1000;

/** Runs `guestd` with its arguments and gives the exit code. */
async function main(args: readonly string[]): Promise<number> {
  const listenDefault = args[0] === "--listen-default" ? args[1] ?? "" : undefined;
  const [option, ...more] = listenDefault === undefined ? args : args.slice(2);
  // All at once, for a single variable whose value is not UTF-8 would be an exception; here it is as good as not set.
  const variables = new Map(Object.entries(Deno.env.toObject()));
  const env = (name: string): string | undefined => variables.get(name);
  const { config, warnings } = readConfig(env, listenDefault);
  if (option === "--version" && more.length === 0) return print(VERSION);
  if (option === "--help" && more.length === 0) return print(helpText(listenDefault).trimEnd());
  if (option === "--print-schema" && more.length === 0) {
    return print(encodeJson(schemaDocument(config)));
  }
  if (option === "--print-openapi" && more.length === 0) {
    const { openApiDocument } = await import("./contract/openapi.ts");
    const source = { rows: ROWS, servedPath, closeCodes: CLOSE_CODES, options: config };
    return print(encodeJson(openApiDocument({ ...source, schema: schemaDocument(config) })));
  }
  if (option !== undefined) {
    await Deno.stderr.write(new TextEncoder().encode(`guestd: unknown arguments; try --help\n`));
    return 2;
  }
  const stderr = new StderrQueue();
  const log = new Log(config.logLevel, (line) => stderr.write(line));
  for (const warning of [...warnings, ...unknownVariables(variables.keys())]) log.warn(warning);
  const library = config.library || new URL("./libguestd.so", import.meta.url);
  try {
    const daemon = new Daemon({ config, library, log, env });
    await serve(daemon, log);
    if (Deno.pid === 1) {
      await stderr.flush(FLUSH_MS);
      daemon.powerOff();
    }
  } catch (error) {
    // Not past the queue: a log that nobody reads would stop the daemon here.
    cannotServe(log, error);
    return 1;
  } finally {
    await stderr.flush(FLUSH_MS);
  }
  return 0;
}

function cannotServe(log: Log, error: unknown): void {
  log.error("cannot serve", { cause: error instanceof Error ? error.message : String(error) });
}

async function serve(daemon: Daemon, log: Log): Promise<void> {
  // Asked before the first listener: with any, Deno takes SIGHUP for itself and ends by it.
  const { signals } = daemon;
  for (const signal of signals) {
    Deno.addSignalListener(signal, () => daemon.terminate(signal));
  }
  if (!signals.includes("SIGHUP")) Deno.addSignalListener("SIGHUP", () => {});
  // One request's failure must not take the guest's only control API with it.
  globalThis.addEventListener("unhandledrejection", (event) => {
    event.preventDefault();
    log.error("a promise was rejected and nobody cared", { kind: kindOf(event.reason) });
  });
  globalThis.addEventListener("error", (event) => {
    event.preventDefault();
    log.error("an exception was not caught", { kind: kindOf(event.error) });
  });
  await daemon.listen();
  await daemon.ended;
}

function kindOf(error: unknown): string {
  return error instanceof Error ? error.name : typeof error;
}

async function print(text: string): Promise<number> {
  const bytes = new TextEncoder().encode(`${text}\n`);
  for (let at = 0; at < bytes.length;) at += await Deno.stdout.write(bytes.subarray(at));
  return 0;
}

if (import.meta.main) {
  // Deno.exit, because the call that is parked in the core would keep the process alive.
  Deno.exit(
    await main(Deno.args).catch((error: unknown) => {
      cannotServe(new Log("error"), error);
      return 1;
    }),
  );
}
