/** The requests about commands, one by one, as they are on the wire. */

import type { KillResponse, PollResponse, StartResponse, StdinResponse } from "../contract/exec.ts";
import { toBase64 } from "./bytes.ts";
import { GuestError } from "./errors.ts";
import { checkedBody, type Requests } from "./requests.ts";

/** How a command ended, and the first 8 MiB of each stream as text. */
export type Outcome = Required<PollResponse>;

/** The path of a command's route. Throws for an id that no URL can carry. */
export function execPath(id: string, route?: string): string {
  if (id === "." || id === ".." || id === "") {
    throw new GuestError(`Cannot ask for the command '${id}': a URL has no such segment`);
  }
  return `/v1/exec/${encodeURIComponent(id)}${route === undefined ? "" : `/${route}`}`;
}

/** Starts what a request of the wire says, again after a lost answer. */
export async function startExec(requests: Requests, request: object): Promise<StartResponse> {
  const body = new TextEncoder().encode(JSON.stringify(request));
  const path = "/v1/exec/start";
  return await requests.json({
    what: "start the command",
    method: "POST",
    path,
    body,
    repeatable: true,
  });
}

/** State and outcome. */
export async function pollExec(
  requests: Requests,
  id: string,
  signal?: AbortSignal,
): Promise<PollResponse> {
  const path = execPath(id);
  return await requests.json({
    what: "poll the command",
    method: "GET",
    path,
    repeatable: true,
    signal,
  });
}

/** Takes the result over, which the guest forgets with that. */
export async function ackExec(
  requests: Requests,
  id: string,
  signal?: AbortSignal,
): Promise<Outcome> {
  const path = execPath(id, "ack");
  return await requests.json({
    what: "ack the command",
    method: "POST",
    path,
    repeatable: true,
    signal,
  });
}

/** What is read of an answer that nobody wants: more costs more than a new connection. */
const MAX_UNWANTED_BYTES = 64 * 1024;

/** The same for a result that is here already. The answer has it once more, as text: a long one is not waited for. */
export async function forgetExec(
  requests: Requests,
  id: string,
  signal?: AbortSignal,
): Promise<void> {
  const what = "ack the command";
  const ask = { what, method: "POST", path: execPath(id, "ack"), repeatable: true, signal };
  await requests.send(ask, async (response) => {
    let room = MAX_UNWANTED_BYTES;
    for await (const { length } of checkedBody(response, ask)) {
      room -= length;
      if (room < 0) return;
    }
  });
}

/** Ends the process group; whether anybody lived in it. */
export async function killExec(
  requests: Requests,
  id: string,
  signal?: AbortSignal,
): Promise<boolean> {
  const { killed } = await requests.json<KillResponse>({
    what: "kill the command",
    method: "POST",
    path: execPath(id, "kill"),
    repeatable: true,
    signal,
  });
  return killed;
}

/** Writes to stdin once. It is never sent again: after a lost answer nobody knows what was written. */
export async function writeStdin(
  requests: Requests,
  id: string,
  bytes: Uint8Array,
  { eof = false, signal }: { readonly eof?: boolean; readonly signal?: AbortSignal | undefined },
): Promise<StdinResponse> {
  const request = {
    ...(bytes.length === 0 ? {} : { data_b64: toBase64(bytes) }),
    ...(eof ? { signal: "eof" } : {}),
  };
  return await requests.json({
    what: "write to stdin",
    method: "POST",
    path: execPath(id, "stdin"),
    body: new TextEncoder().encode(JSON.stringify(request)),
    // The end alone may come twice.
    repeatable: bytes.length === 0,
    signal,
  });
}
