/** What a newcomer gets told: each row is a mistake, and what the answer has to say about it. */

import { deepStrictEqual, doesNotMatch, match, strictEqual } from "node:assert/strict";
import { HOOK_PREFIX } from "../support/daemon.ts";
import { Scratch } from "../support/scratch.ts";
import { archive } from "../support/tar_archive.ts";
import { withOptions } from "../support/with_daemon.ts";

interface Mistake {
  readonly what: string;
  readonly method?: string;
  readonly path: string;
  readonly body?: string | Uint8Array<ArrayBuffer>;
  readonly authorization?: string;
  readonly status: number;
  /** What the answer says; with `{}` for the test's directory. */
  readonly says: readonly string[];
}

const START = "/v1/exec/start";
const LIMITS = {
  GUESTD_MAX_BODY_BYTES: "5000000",
  GUESTD_MAX_STDIN_WRITE_BYTES: "1000",
  GUESTD_MAX_TAR_MEMBERS: "2",
};
/** Longer than what an answer repeats of a word. */
const LONG = "x".repeat(300);
const SHOWN = `"${"x".repeat(199)}`;

const start = (request: unknown): Pick<Mistake, "what" | "method" | "path" | "body"> => ({
  what: JSON.stringify(request).slice(0, 80),
  method: "POST",
  path: START,
  body: JSON.stringify({ exec_id: "x", ...request as Record<string, unknown> }),
});

const badJson = (body: string, says: string): Mistake => ({
  what: `a start of ${body}`,
  method: "POST",
  path: START,
  body,
  status: 400,
  says: [says],
});

async function gzip(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
  const packed = new Blob([bytes]).stream().pipeThrough(new CompressionStream("gzip"));
  return await new Response(packed).bytes();
}

const put = (path: string, body: string | Uint8Array<ArrayBuffer> = "x"): Pick<
  Mistake,
  "what" | "method" | "path" | "body"
> => ({ what: `PUT ${path}`, method: "PUT", path, body });

const MISTAKES: readonly Mistake[] = [
  { what: "GET on start", path: START, status: 404, says: ["POST", START] },
  {
    what: "an id that nobody has",
    path: "/v1/exec/no%20body",
    status: 404,
    says: ['"no body"'],
  },
  {
    what: "a long id that nobody has",
    path: `/v1/exec/${LONG}`,
    status: 404,
    says: [`"${"x".repeat(200)}…"`],
  },
  { what: "an id that is no UTF-8", path: "/v1/exec/%ff", status: 404, says: ["UTF-8"] },
  {
    ...start({ command: ["no such"], cwd: "/" }),
    status: 500,
    says: ['"no such"', "ENOENT", '"shell": true'],
  },
  { ...start({ command: ["no\nsuch", "s3cret"] }), status: 500, says: ['"no\\nsuch"', "ENOENT"] },
  { ...start({ command: [LONG] }), status: 500, says: [SHOWN, "…"] },
  {
    ...start({ command: ["true"], cwd: "/no/such" }),
    status: 500,
    says: ["working directory", '"/no/such"', "ENOENT"],
  },
  {
    ...start({ command: ["echo s3cret"], shell: true, cwd: `/${LONG}` }),
    status: 500,
    says: [`"/${"x".repeat(199)}…"`],
  },
  { ...put("/v1/fs/file?path={}"), status: 500, says: ["{}", "it is a directory"] },
  {
    ...put("/v1/fs/file?path={}/file/below"),
    status: 500,
    says: ["{}/file/below", "a file where a directory is needed"],
  },
  {
    ...put("/v1/fs/tar?path={}/new", await gzip(archive([{ name: "a", content: "a" }]))),
    status: 400,
    says: ["gzip", "uncompressed"],
  },
  {
    ...put("/v1/fs/tar?path={}/new", await gzip(crypto.getRandomValues(new Uint8Array(60000)))),
    status: 400,
    says: ["gzip", "uncompressed"],
  },
  { ...put("/v1/fs/tar?path={}/new", "no archive"), status: 400, says: ["truncated"] },
  { what: "an unmatched path", path: "/v2", status: 404, says: ["/v1/schema"] },
  { what: "a wrong method", method: "PUT", path: START, status: 405, says: ["POST, GET"] },
  { what: "a wrong method", method: "PUT", path: "/v1/health", status: 405, says: ["GET"] },
  {
    what: "no token",
    path: "/v1/procs",
    authorization: "",
    status: 401,
    says: ["Authorization", "missing", "Bearer"],
  },
  {
    what: "another scheme",
    path: "/v1/procs",
    authorization: "Basic s3cret",
    status: 401,
    says: ["Authorization", "wrong", "Bearer"],
  },
  {
    what: "another token",
    path: "/v1/procs",
    authorization: "Bearer s3cret",
    status: 401,
    says: ["Authorization", "wrong", "not the installed"],
  },
  badJson("", "the body is empty"),
  badJson(" ", "not valid JSON at position 1"),
  badJson('{"exec_id":"s3cret",}', "not valid JSON at position 20"),
  {
    what: "a run hook without a body",
    method: "POST",
    path: `${HOOK_PREFIX}/run`,
    status: 400,
    says: ["the body is empty"],
  },
  {
    what: "a payload that is no JSON",
    method: "POST",
    path: `${HOOK_PREFIX}/run`,
    body: JSON.stringify({ runHookPayload: '{"agent_token":s3cret}' }),
    status: 400,
    says: ["runHookPayload is not valid JSON at position 15"],
  },
  {
    what: "a start that is too large",
    method: "POST",
    path: START,
    body: new Uint8Array(5_000_001),
    status: 413,
    says: ["5000000", "GUESTD_MAX_BODY_BYTES"],
  },
  {
    ...put("/v1/fs/file?path={}/new", new Uint8Array(5_000_001)),
    status: 413,
    says: ["5000000", "GUESTD_MAX_BODY_BYTES"],
  },
  {
    ...put(
      "/v1/fs/tar?path={}/new",
      archive(["a", "b", "c"].map((name) => ({ name, content: "" }))),
    ),
    status: 413,
    says: ["2 members", "GUESTD_MAX_TAR_MEMBERS"],
  },
  {
    what: "a stdin body that is too large",
    method: "POST",
    path: "/v1/exec/cat/stdin",
    body: new Uint8Array(3_000_000),
    status: 413,
    says: ["GUESTD_MAX_STDIN_WRITE_BYTES"],
  },
  {
    what: "a write to stdin that is too large",
    method: "POST",
    path: "/v1/exec/cat/stdin",
    body: JSON.stringify({ data_b64: new Uint8Array(1001).toBase64() }),
    status: 413,
    says: ["1000", "GUESTD_MAX_STDIN_WRITE_BYTES"],
  },
];

withOptions({ env: LIMITS }).test(
  "each mistake of a newcomer is told what is wrong, on one line, and no secret is",
  async ({ daemon, scratch, t }) => {
    scratch.file("file", "");
    await daemon.exec(["cat"], { id: "cat", stdin: "piped" });
    for (const { what, method = "GET", path, body, authorization, status, says } of MISTAKES) {
      await t.step(`${what} is ${status}: ${says.join(", ").slice(0, 60)}`, async () => {
        const here = (text: string): string => text.replace("{}", scratch.path);
        const response = await daemon.fetch(here(path), {
          method,
          body: body ?? null,
          headers: authorization === undefined ? {} : { authorization },
        });
        const answer = await response.text();
        strictEqual(response.status, status, answer);
        const isJson = response.headers.get("content-type") === "application/json";
        const sentence = isJson ? JSON.parse(answer).detail : answer.trimEnd();
        for (const word of says) strictEqual(sentence.includes(here(word)), true, sentence);
        match(sentence, /^[^\n]+$/);
        doesNotMatch(sentence, /s3cret|x{201}/);
      });
    }
    deepStrictEqual(names(scratch), ["file"]);
    await daemon.logWritten();
    doesNotMatch(daemon.log.toString(), /s3cret/);
  },
);

function names(scratch: Scratch): string[] {
  return [...Deno.readDirSync(scratch.path)].map(({ name }) => name);
}
