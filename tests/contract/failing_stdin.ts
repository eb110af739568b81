import { Exec } from "../../src/exec/exec.ts";
import type { Registry } from "../../src/exec/registry.ts";
import { DEFAULT_LIMITS } from "../../src/contract/limits.ts";
import { Bodies } from "../../src/http/body.ts";
import { execRoutes } from "../../src/http/routes/exec.ts";
import { createRouter, type Handlers } from "../../src/http/router.ts";
import { Log } from "../../src/log.ts";
import { Published } from "../support/published.ts";
import { schemaDocument } from "../../src/contract/document.ts";
import { encodeJson } from "../../src/contract/json.ts";

const EIO = 5;

/**
 * A write to stdin that fails with an errno other than EPIPE. No kernel gives one for a healthy pipe, so the core is
 * played here; routing, decoding and the answer are the daemon's own. The answer is checked against the schema.
 */
export async function failingStdin(): Promise<Response> {
  const native = {
    onPublished: (): void => {},
    writeStdin: () => Promise.resolve({ status: EIO, value: 0 }),
  };
  const exec = new Exec({
    id: "x",
    hasStdin: true,
    reap: false,
    fingerprint: new Uint32Array(),
    native: native as never,
    onPublished: () => {},
  });
  const registry = { get: () => Promise.resolve(exec) };
  const log = new Log("error");
  const limits = DEFAULT_LIMITS;
  const bodies = new Bodies(limits, 10_000);
  const routes = execRoutes({ registry: registry as never as Registry, limits, log, bodies });
  const options = {
    limits,
    hookPrefix: "/platform/runtime/v1",
    versionHeader: "service-version",
  };
  const { serve } = createRouter({
    ...options,
    handlers: routes as never as Handlers,
    token: { installed: true, matches: () => true },
    log,
  });
  const request = new Request("http://guest/v1/exec/x/stdin", {
    method: "POST",
    headers: { authorization: "Bearer t" },
    body: JSON.stringify({ data_b64: "YQ==" }),
  });
  const answer = await serve(request, { completed: Promise.resolve() } as Deno.ServeHandlerInfo);
  const published = new Published(JSON.parse(encodeJson(schemaDocument(options))));
  return await published.checked("POST", "/v1/exec/x/stdin", answer);
}
