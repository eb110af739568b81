import { deepStrictEqual, match, ok, strictEqual } from "node:assert/strict";
import { schemaDocument } from "../../src/contract/document.ts";
import { encodeJson } from "../../src/contract/json.ts";
import { DEFAULT_LIMITS } from "../../src/contract/limits.ts";
import { openApiDocument } from "../../src/contract/openapi.ts";
import { ROWS, servedPath } from "../../src/contract/rows.ts";
import { CLOSE_CODES } from "../../src/contract/tunnel.ts";
import { command } from "../support/command.ts";
import { LAUNCHER } from "../support/daemon.ts";

interface Content {
  readonly schema: { readonly $ref?: string; readonly allOf?: readonly JsonPart[] };
  readonly example?: unknown;
  readonly examples?: Readonly<Record<string, unknown>>;
}

type JsonPart = Readonly<{ properties?: { error: { enum: string[] } } }>;

interface Operation {
  readonly operationId: string;
  readonly security: unknown[];
  readonly parameters?: readonly { name: string; required: boolean; schema: object }[];
  readonly requestBody?: { content: Record<string, Content> };
  readonly responses: Record<string, { headers: object; content?: Record<string, Content> }>;
  readonly "x-codeSamples": readonly { source: string }[];
}

const options = { limits: DEFAULT_LIMITS, hookPrefix: "/hooks", versionHeader: "x-v" };
const schema = schemaDocument(options);
const source = { options, rows: ROWS, servedPath, closeCodes: CLOSE_CODES, schema };
const text = encodeJson(openApiDocument(source));
const document = JSON.parse(text);
const operations = Object.entries<Record<string, Operation>>(document.paths)
  .flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, operation }))
  );

function operationOf(name: string): Operation {
  const found = operations.find(({ operation }) => operation.operationId === name);
  if (found === undefined) throw new Error(`Cannot find ${name}: it is no operation`);
  return found.operation;
}

Deno.test("the OpenAPI document has the 20 routes, under the settings in force, and each type that it refers to", () => {
  deepStrictEqual(
    operations.map(({ path, method, operation }) => [operation.operationId, method, path]).sort(),
    ROWS.map((row) => [row.name, row.method.toLowerCase(), servedPath(row, "/hooks")]).sort(),
  );
  for (const [, name = ""] of text.matchAll(/"\$ref":"#\/components\/schemas\/(\w+)"/g)) {
    ok(Object.hasOwn(document.components.schemas, name), name);
  }
  ok(!text.includes("$defs"));
  ok(text.includes('"maximum":18446744073709551615'));
  deepStrictEqual(document["x-limits"], DEFAULT_LIMITS);
});

Deno.test("each operation has the statuses and slugs of its row, and 400 for what is no HTTP", () => {
  for (const { name, statuses, auth, request } of ROWS) {
    const { responses, security } = operationOf(name);
    const added = auth === "PlatformHook" ? [400, 404] : [400];
    const codes = new Set([...statuses.map(({ code }) => code), ...added]);
    deepStrictEqual(Object.keys(responses).map(Number), [...codes].sort((a, b) => a - b), name);
    deepStrictEqual(security, auth === "Bearer" ? [{ Bearer: [] }] : [], name);
    for (const [code, { headers, content = {} }] of Object.entries(responses)) {
      ok(Object.hasOwn(headers, "x-v"), name);
      const rows = statuses.filter((status) => status.code === Number(code));
      const slugs = rows.map(({ error }) => error).filter((error) => error !== "");
      const narrowed = content["application/json"]?.schema.allOf?.[1]?.properties?.error.enum ?? [];
      deepStrictEqual(narrowed, slugs, `${name} ${code}`);
      const isProse = rows.some(({ error, code }) => error === "" && code > 400) ||
        code === "400" && (rows.some(({ error }) => error === "") || request !== null) ||
        code === "404" && auth === "PlatformHook";
      strictEqual("text/plain" in content, isProse, `${name} ${code}`);
    }
  }
});

Deno.test("each operation has an example of its request, as a line of curl too, and of what it answers as JSON", () => {
  for (const { path, method, operation } of operations) {
    const { operationId, requestBody, responses } = operation;
    const [sample] = operation["x-codeSamples"];
    ok(sample?.source.includes(`"$G${path.replace("{id}", "job-1")}`), operationId);
    ok(method === "get" || /-X POST|-d '|-T FILE/.test(sample?.source ?? ""), operationId);
    for (const [type, content] of Object.entries(requestBody?.content ?? {})) {
      ok(type !== "application/json" || content.example !== undefined, operationId);
    }
    for (const [code, { content = {} }] of Object.entries(responses)) {
      const { example, examples, schema } = content["application/json"] ?? { schema: {} };
      ok(schema.$ref === undefined || example !== undefined, `${operationId} ${code}`);
      ok(schema.allOf === undefined || examples !== undefined, `${operationId} ${code}`);
    }
  }
  const { parameters = [] } = operationOf("tcp");
  deepStrictEqual(parameters.map(({ name, required }) => [name, required]), [
    ["port", true],
    ["identity", false],
  ]);
  deepStrictEqual(parameters[1]?.schema, {
    type: "string",
    enum: ["1", "true", "0", "false"],
    default: "false",
  });
});

Deno.test("--print-openapi prints it", async () => {
  const settings = { GUESTD_HOOK_PREFIX: "/hooks", GUESTD_VERSION_HEADER: "x-v" };
  const { code, out, said } = await command(LAUNCHER, ["--print-openapi"], { env: settings });
  deepStrictEqual([code, said], [0, ""]);
  strictEqual(out, text);
  match(out, /^\{"openapi":"3\.1\.0"/);
});
