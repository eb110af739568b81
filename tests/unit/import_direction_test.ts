import { deepStrictEqual, notStrictEqual, strictEqual } from "node:assert/strict";
import { type Edge, findCycle, violations } from "../support/import_graph.ts";
import { moduleFiles, rustEdges } from "../support/rust_modules.ts";
import { importsOf, readSource, resolveSpecifier, sourceFiles } from "../support/source_files.ts";

const SOURCES = sourceFiles("src", ".ts");

function edges(): Edge[] {
  return SOURCES.flatMap((from) =>
    importsOf(readSource(from)).flatMap(({ specifier, typeOnly }) => {
      const to = resolveSpecifier(from, specifier);
      return to === undefined ? [] : [{ from, to, typeOnly }];
    })
  );
}

Deno.test("imports point one way: main, daemon, http, rooms, native, contract", () => {
  notStrictEqual(edges().length, 0);
  deepStrictEqual(violations(edges()), []);
});

Deno.test("every import of ours names a file that is there", () => {
  const files = [...SOURCES, ...sourceFiles("src", ".json")];
  const missing = edges().filter(({ to }) => !files.includes(to));
  deepStrictEqual(missing, []);
});

Deno.test("no module imports itself by way of others", () => {
  strictEqual(findCycle(edges()), undefined);
});

function coreEdges(): Edge[] {
  const files = moduleFiles(sourceFiles("native/src", ".rs"));
  return [...files.values()].flatMap((path) => rustEdges(path, readSource(path), files));
}

Deno.test("the core's imports point one way too: exports, core, rooms, what all use", () => {
  notStrictEqual(coreEdges().length, 0);
  deepStrictEqual(violations(coreEdges(), "native"), []);
});

Deno.test("no module of the core imports itself by way of others", () => {
  strictEqual(findCycle(coreEdges()), undefined);
});

Deno.test("only src/native opens a library or touches a pointer", () => {
  const others = SOURCES.filter((path) =>
    !path.startsWith("src/native/") && /\bDeno\.(dlopen|Unsafe\w+)/.test(readSource(path))
  );
  deepStrictEqual(others, []);
});

Deno.test("the daemon never starts a process through Deno, whose reaping would be in the core's way", () => {
  const daemon = SOURCES.filter((path) => !/^src\/(client|ctl)\//.test(path));
  deepStrictEqual(daemon.filter((path) => /\bDeno\.(Command|run)\b/.test(readSource(path))), []);
});

Deno.test("nothing of npm is bundled, but by the other end what its package names", () => {
  const foreign = SOURCES.flatMap((path) =>
    importsOf(readSource(path)).map(({ specifier }) => {
      const [, room = ""] = path.split("/");
      return { room, specifier };
    })
  ).filter(({ specifier }) => !/^(\.|node:)/.test(specifier));
  const allowed = {
    client: /^(@noble\/(ciphers|curves|hashes)\/|modern-tar$)/,
    ctl: /^(modern-tar\/fs|commander)$/,
  };
  const others = foreign.filter(({ room, specifier }) =>
    !(room in allowed && allowed[room as keyof typeof allowed].test(specifier))
  );
  deepStrictEqual(others, []);
});

Deno.test("the rule sees each kind of import that it forbids", () => {
  const forbidden = [
    ["src/contract/rows.ts", "src/log.ts"],
    ["src/contract/rows.ts", "src/http/router.ts"],
    ["src/log.ts", "src/native/library.ts"],
    ["src/settings.ts", "src/config.ts"],
    ["src/native/library.ts", "src/exec/exec.ts"],
    ["src/exec/exec.ts", "src/bootstrap/bootstrap.ts"],
    ["src/exec/exec.ts", "src/http/sse.ts"],
    ["src/http/router.ts", "src/daemon.ts"],
    ["src/daemon.ts", "src/main.ts"],
    ["src/exec/exec.ts", "src/helpers/strings.ts"],
    ["src/helpers/strings.ts", "src/contract/rows.ts"],
    ["src/client/guest.ts", "src/log.ts"],
    ["src/client/guest.ts", "src/ctl/main.ts"],
    ["src/ctl/main.ts", "src/within.ts"],
    ["src/http/router.ts", "src/client/guest.ts"],
    ["src/main.ts", "src/ctl/main.ts"],
  ] as const;
  for (const [from, to] of forbidden) strictEqual(violations([{ from, to }]).length, 1, from + to);
  const allowed = [
    ["src/main.ts", "src/native/library.ts"],
    ["src/daemon.ts", "src/exec/registry.ts"],
    ["src/http/routes/exec.ts", "src/http/respond.ts"],
    ["src/exec/exec.ts", "src/native/library.ts"],
    ["src/exec/exec.ts", "src/log.ts"],
    ["src/config.ts", "src/settings.ts"],
    ["src/settings.ts", "src/log.ts"],
    ["src/native/wake.ts", "src/contract/limits.ts"],
    ["src/client/guest.ts", "src/contract/limits.ts"],
    ["src/ctl/main.ts", "src/client/guest.ts"],
  ] as const;
  for (const [from, to] of allowed) deepStrictEqual(violations([{ from, to }]), []);
});

Deno.test("the core's rule sees what it forbids", () => {
  const edge = (from: string, to: string): Edge => ({
    from: `native/src/${from}.rs`,
    to: `native/src/${to}.rs`,
  });
  const forbidden = [
    edge("process/log", "core"),
    edge("core", "exports/exec"),
    edge("file/target", "tar/place"),
    edge("tar/pack", "transfer/upload"),
    edge("process/log", "file/target"),
    edge("reactor", "process/log"),
  ];
  for (const one of forbidden) strictEqual(violations([one], "native").length, 1, one.from);
  const allowed = [
    edge("exports/exec", "process/log"),
    edge("core", "process/log"),
    edge("tar/place", "file/target"),
    edge("process/log", "process/store"),
    edge("reactor", "clock"),
  ];
  deepStrictEqual(violations(allowed, "native"), []);
});
