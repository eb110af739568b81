import { deepStrictEqual, strictEqual } from "node:assert/strict";
import {
  childEnvironment,
  DEFAULT_PATH,
  defaults,
  Environments,
  type EnvironmentSources,
  inherited,
} from "../../src/exec/launch.ts";
import type { PasswdEntry } from "../../src/exec/passwd.ts";

const APP: PasswdEntry = {
  name: "app",
  uid: 1000,
  gid: 1000,
  home: "/home/app",
  shell: "/bin/zsh",
};

const reader = (variables: Record<string, string>): (name: string) => string | undefined => {
  const map = new Map(Object.entries(variables));
  return (name) => map.get(name);
};

/** What a test says of a command; the rest is nothing. */
interface Asked {
  readonly inherit?: readonly string[];
  readonly daemonEnv?: (name: string) => string | undefined;
  readonly uid?: number;
  readonly base?: Iterable<readonly [string, string]>;
  readonly request?: Iterable<readonly [string, string]>;
}

const passwd = {
  entry: (uid: number): PasswdEntry | undefined => (uid === APP.uid ? APP : undefined),
};

function environmentOf(asked: Asked): Map<string, string> {
  const { inherit = [], daemonEnv = (): undefined => undefined, uid = APP.uid } = asked;
  const base = new Map(asked.base ?? []);
  const sources = { inherit, daemonEnv, passwd, base: { environment: base } };
  return childEnvironment(sources, uid, new Map(asked.request ?? []));
}

const build = (asked: Asked): Record<string, string> => Object.fromEntries(environmentOf(asked));

const PLAIN = {
  PATH: DEFAULT_PATH,
  HOME: "/home/app",
  USER: "app",
  LOGNAME: "app",
  SHELL: "/bin/zsh",
};

Deno.test("a command gets the defaults and nothing of the daemon's environment", () => {
  deepStrictEqual(build({ daemonEnv: reader({ SECRET: "s", PATH: "/d", HOME: "/d" }) }), PLAIN);
});

Deno.test("a user without a passwd entry has no name, lives in / and has /bin/sh", () => {
  deepStrictEqual(build({ uid: 4242 }), { PATH: DEFAULT_PATH, HOME: "/", SHELL: "/bin/sh" });
});

Deno.test("empty home and shell of an entry count as not given", () => {
  deepStrictEqual(Object.fromEntries(defaults({ ...APP, home: "", shell: "" })), {
    ...PLAIN,
    HOME: "/",
    SHELL: "/bin/sh",
  });
});

Deno.test("the defaults are those of the user in force, not of the daemon's", () => {
  const daemonEnv = reader({ HOME: "/root", USER: "root" });
  strictEqual(build({ daemonEnv })["HOME"], "/home/app");
  strictEqual(build({ daemonEnv })["USER"], "app");
});

Deno.test("an inherited variable is passed on and beats a default", () => {
  deepStrictEqual(
    build({
      inherit: ["LANG", "PATH", "UNSET"],
      daemonEnv: reader({ LANG: "C.UTF-8", PATH: "/opt/bin", SECRET: "s" }),
    }),
    { ...PLAIN, LANG: "C.UTF-8", PATH: "/opt/bin" },
  );
});

Deno.test("an inherited variable that is empty is set, so no default replaces it", () => {
  strictEqual(build({ inherit: ["PATH"], daemonEnv: reader({ PATH: "" }) })["PATH"], "");
});

Deno.test("each layer beats those below it", () => {
  const inherit = ["A", "B", "C", "D"];
  const daemonEnv = reader({ A: "daemon", B: "daemon", C: "daemon", D: "daemon" });
  const base = new Map([["B", "base"], ["C", "base"], ["HOME", "/base"], ["SHELL", "/base"]]);
  const request = new Map([["C", "request"], ["D", "request"], ["SHELL", "/request"]]);
  deepStrictEqual(build({ inherit, daemonEnv, base, request }), {
    ...PLAIN,
    A: "daemon",
    B: "base",
    C: "request",
    D: "request",
    HOME: "/base",
    SHELL: "/request",
  });
});

Deno.test("an empty value in the request hides the base environment's", () => {
  strictEqual(build({ base: [["A", "base"]], request: [["A", ""]] })["A"], "");
});

Deno.test("`__proto__` and its like are names like any other, in every layer", () => {
  for (const name of ["__proto__", "constructor", "toString", "hasOwnProperty"]) {
    strictEqual(environmentOf({ inherit: [name] }).has(name), false);
    const daemonEnv = (): string => "daemon";
    strictEqual(environmentOf({ inherit: [name], daemonEnv }).get(name), "daemon");
    const base = [[name, "base"]] as const;
    strictEqual(environmentOf({ base }).get(name), "base");
    strictEqual(environmentOf({ base, request: [[name, "request"]] }).get(name), "request");
  }
});

Deno.test("an inherited name that no variable can have is never asked for", () => {
  const asked: string[] = [];
  const environment = inherited(["", "A=B", "NUL\0", "OK"], (name) => {
    asked.push(name);
    return "v";
  });
  deepStrictEqual(asked, ["OK"]);
  deepStrictEqual([...environment], [["OK", "v"]]);
});

Deno.test("the sources are left as they were, the result is the client's own", () => {
  const base = new Map([["A", "base"]]);
  const request = new Map([["A", "request"]]);
  const sources = {
    inherit: [],
    daemonEnv: (): undefined => undefined,
    passwd,
    base: { environment: base },
  };
  childEnvironment(sources, 0, request).set("PATH", "changed");
  strictEqual(base.get("A"), "base");
  strictEqual(request.get("A"), "request");
  strictEqual(childEnvironment(sources, 0, request).get("PATH"), DEFAULT_PATH);
});

Deno.test("an environment is kept until user, base or request is another", () => {
  let user: PasswdEntry | undefined = APP;
  const base = { environment: new Map([["A", "base"]]) };
  const sources: EnvironmentSources = {
    inherit: ["TZ"],
    daemonEnv: reader({ TZ: "UTC" }),
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
    deepStrictEqual(environments.of(uid, request), childEnvironment(sources, uid, request));
  }
});
