import { deepStrictEqual, strictEqual } from "node:assert/strict";
import {
  childEnvironment,
  Environments,
  type EnvironmentSources,
  inherited,
} from "../../src/exec/launch.ts";
import type { PasswdEntry } from "../../src/exec/passwd.ts";
import { encodeEnvironment } from "../../src/native/exec.ts";

const APP: PasswdEntry = {
  name: "app",
  uid: 1000,
  gid: 1000,
  home: "/home/app",
  shell: "/bin/zsh",
};

Deno.test("an inherited name that no variable can have is never asked for", () => {
  const asked: string[] = [];
  const environment = inherited(["", "A=B", "NUL\0", "OK"], (name) => {
    asked.push(name);
    return "v";
  });
  deepStrictEqual(asked, ["OK"]);
  deepStrictEqual([...environment], [["OK", "v"]]);
});

Deno.test("an environment is kept until user, base or request is another", () => {
  let user: PasswdEntry | undefined = APP;
  const base = { environment: new Map([["A", "base"]]) };
  const sources: EnvironmentSources = {
    inherit: ["TZ"],
    daemonEnv: (name) => (name === "TZ" ? "UTC" : undefined),
    passwd: { entry: (uid) => (uid === APP.uid ? user : undefined) },
    base,
  };
  const environments = new Environments(sources);
  const nothing = new Map<string, string>();
  const first = environments.of(APP.uid, nothing);
  strictEqual(environments.of(APP.uid, nothing), first);
  const changes: (() => readonly [uid: number, request: Map<string, string>])[] = [
    () => [APP.uid, nothing],
    () => [7, nothing],
    () => {
      user = { ...APP, home: "/moved" };
      return [APP.uid, nothing];
    },
    () => {
      base.environment = new Map([["A", "other"]]);
      return [APP.uid, nothing];
    },
    () => [APP.uid, new Map([["A", "asked"]])],
    () => [APP.uid, nothing],
  ];
  for (const change of changes) {
    const [uid, request] = change();
    const wanted = encodeEnvironment(childEnvironment(sources, uid, request));
    deepStrictEqual(environments.of(uid, request), wanted);
  }
});
