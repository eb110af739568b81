import { deepStrictEqual, ok, strictEqual, throws } from "node:assert/strict";
import { type Config, helpText, readConfig, unknownVariables } from "../../src/config.ts";
import { DEFAULT_LIMITS } from "../../src/contract/limits.ts";
import { VERSION } from "../../src/contract/version.ts";
import { addressText, allSettings, ANY_CID, type ListenAddress } from "../../src/settings.ts";

/** Reads a configuration of `variables` that must be fine. */
function read(variables: Record<string, string> = {}): Config {
  const { config, warnings } = readConfig((name) => variables[name]);
  deepStrictEqual(warnings, []);
  return config;
}

const DEFAULTS: Config = {
  listen: [{ hostname: "0.0.0.0", port: 9000 }],
  hookPrefix: "/platform/runtime/v1",
  versionHeader: "service-version",
  diskReserveBytes: 268_435_456n,
  identityRepair: false,
  identityRoot: "/",
  inheritEnv: [],
  spoolDir: "/var/tmp",
  maxConnections: 1024,
  requestTimeoutSecs: 10,
  idleTimeoutSecs: 120,
  drainSecs: 5,
  logLevel: "info",
  library: "",
  limits: DEFAULT_LIMITS,
};

Deno.test("an empty environment gives the defaults, and so do variables set to nothing", () => {
  deepStrictEqual(read(), DEFAULTS);
  deepStrictEqual(readConfig(() => ""), { config: DEFAULTS, warnings: [] });
});

Deno.test("an address is host:port, [ipv6]:port, :port or port", () => {
  const cases: [text: string, hostname: string, port: number][] = [
    ["127.0.0.1:0", "127.0.0.1", 0],
    ["localhost:65535", "localhost", 65535],
    [":80", "0.0.0.0", 80],
    ["8080", "0.0.0.0", 8080],
    ["[::]:9000", "::", 9000],
    ["[fe80::1]:1", "fe80::1", 1],
  ];
  for (const [text, hostname, port] of cases) {
    deepStrictEqual(read({ GUESTD_LISTEN: text }).listen, [{ hostname, port }]);
  }
});

/** Of 32 bits each, and neither 0 nor the highest value, which stand for nobody and for anybody. */
const BAD_VSOCK = ["vsock:0", "vsock:4294967295", "vsock:0:1", "vsock:4294967295:1", "vsock:-1:1"]
  .concat(["vsock:", "vsock:1:2:3", "vsock:x", "1,vsock:99999999999"]);

Deno.test("several addresses are joined by commas, and vsock's name a port or a context id too", () => {
  const cases: [text: string, addresses: ListenAddress[]][] = [
    ["vsock:9000", [{ cid: ANY_CID, port: 9000 }]],
    ["vsock:4294967294:4294967294", [{ cid: 4294967294, port: 4294967294 }]],
    [":80,vsock:3:1,[::1]:80", [
      { hostname: "0.0.0.0", port: 80 },
      { cid: 3, port: 1 },
      { hostname: "::1", port: 80 },
    ]],
  ];
  for (const [text, addresses] of cases) {
    deepStrictEqual(read({ GUESTD_LISTEN: text }).listen, addresses);
    strictEqual(addresses.map(addressText).join(), text.replace(/^:80/, "0.0.0.0:80"));
  }
});

Deno.test("an address that does not parse or names no host stays where the default is", () => {
  const slips = ["127.0.0.1", "127.0.0.1:80x", "127.0.0.1:0 ", ":99999", "256.0.0.1:1", "[:::]:1"];
  const cases: [text: string, port: number][] = [
    ...slips.map((text): [string, number] => [text, 9000]),
    ["9001", 9001],
    [":9001", 9001],
    ["", 9000],
  ];
  for (const [text, port] of cases) {
    const env = (name: string): string | undefined => name === "GUESTD_LISTEN" ? text : undefined;
    for (const hostname of ["127.0.0.1", "::1"]) {
      const listenDefault = hostname === "::1" ? "[::1]:9000" : `${hostname}:9000`;
      deepStrictEqual(readConfig(env, listenDefault).config.listen, [{ hostname, port }], text);
    }
    deepStrictEqual(readConfig(env).config.listen, [{ hostname: "0.0.0.0", port }], text);
  }
  for (const bad of ["", "x", "9000", ":9000"]) {
    throws(() => readConfig(() => "1.2.3.4:5", bad), bad);
  }
});

Deno.test("every setting is taken from its variable", () => {
  deepStrictEqual(
    read({
      GUESTD_HOOK_PREFIX: "/a/b-c/",
      GUESTD_VERSION_HEADER: "X-Version",
      GUESTD_DISK_RESERVE_BYTES: "0",
      GUESTD_IDENTITY_REPAIR: "on",
      GUESTD_IDENTITY_ROOT: "/tmp/y",
      GUESTD_INHERIT_ENV: "PATH, LANG,,TERM",
      GUESTD_SPOOL_DIR: "/tmp/x",
      GUESTD_MAX_CONNECTIONS: "7",
      GUESTD_REQUEST_TIMEOUT_SECS: "1.5",
      GUESTD_IDLE_TIMEOUT_SECS: "60",
      GUESTD_DRAIN_SECS: "0.5",
      GUESTD_LOG: "debug",
      GUESTD_LIBRARY: "x.so",
    }),
    {
      listen: DEFAULTS.listen,
      hookPrefix: "/a/b-c",
      versionHeader: "X-Version",
      diskReserveBytes: 0n,
      identityRepair: true,
      identityRoot: "/tmp/y",
      inheritEnv: ["PATH", "LANG", "TERM"],
      spoolDir: "/tmp/x",
      maxConnections: 7,
      requestTimeoutSecs: 1.5,
      idleTimeoutSecs: 60,
      drainSecs: 0.5,
      logLevel: "debug",
      library: "x.so",
      limits: DEFAULT_LIMITS,
    },
  );
});

Deno.test("every limit is GUESTD_ and its name in capitals", () => {
  for (const name of Object.keys(DEFAULT_LIMITS)) {
    const { limits } = read({ [`GUESTD_${name.toUpperCase()}`]: "7" });
    deepStrictEqual(limits, { ...DEFAULT_LIMITS, [name]: 7 });
  }
  strictEqual(read({ GUESTD_EXEC_TTL_SECS: "0.25" }).limits.exec_ttl_secs, 0.25);
  strictEqual(read({ GUESTD_KILL_GRACE_SECS: "0" }).limits.kill_grace_secs, 0);
  strictEqual(read({ GUESTD_MAX_DRAIN_BYTES: "0" }).limits.max_drain_bytes, 0);
});

Deno.test("a value that does not parse is warned of by its variable and the default kept", () => {
  const bad: Record<string, string[]> = {
    GUESTD_LISTEN: ["x", "x:", "1.2.3.4:65536", "a b:1", "::1:80", "[::1]", "/run/sock", "h:-1"]
      .concat(BAD_VSOCK, ["1:2,1:2", "vsock:1,vsock:1", "1,,2"]),
    GUESTD_HOOK_PREFIX: ["x", "/", "//", "/a//b", "/a?b", "/a b", "/{id}", "/é", "/a/../b", "/."],
    GUESTD_VERSION_HEADER: ["a b", "a:b", "é", "Content-Length", "connection", "x".repeat(300)],
    GUESTD_DISK_RESERVE_BYTES: ["-1", "1.5", "1e3", "1G", "18446744073709551616", "9".repeat(99)],
    GUESTD_IDENTITY_REPAIR: ["yes", "1", "ON"],
    GUESTD_INHERIT_ENV: ["A=1"],
    GUESTD_SPOOL_DIR: ["tmp", "./x"],
    GUESTD_DRAIN_SECS: ["-1", "x", "Infinity", "NaN", "1e9", "2000001"],
    GUESTD_LOG: ["trace", "INFO"],
    GUESTD_MAX_BODY_BYTES: ["0", "-1", "1.0", "0x10"],
    GUESTD_MAX_OUTPUT_BYTES: ["0", "268435457"],
    GUESTD_SSE_KEEPALIVE_SECS: ["0", "Infinity", "2147484"],
    GUESTD_STDIN_WRITE_TIMEOUT_SECS: ["0"],
    GUESTD_MAX_TAR_MEMBERS: ["4294967296"],
  };
  for (const [name, values] of Object.entries(bad)) {
    for (const value of values) {
      const { config, warnings } = readConfig((asked) => asked === name ? value : undefined);
      deepStrictEqual(config, DEFAULTS, `${name}=${value}`);
      strictEqual(warnings.length, 1);
      ok(warnings[0]?.startsWith(`${name} must be `), warnings[0]);
      ok(warnings[0]?.includes(`, not ${JSON.stringify(value.slice(0, 200)).slice(0, -1)}`));
    }
  }
});

Deno.test("the disk reserve may be any number of 64 bits", () => {
  for (const bytes of ["9007199254740993", "18446744073709551615"]) {
    strictEqual(read({ GUESTD_DISK_RESERVE_BYTES: bytes }).diskReserveBytes, BigInt(bytes));
  }
});

Deno.test("a variable that looks like a setting and is none is warned of", () => {
  const known = allSettings().map(({ variable }) => variable);
  deepStrictEqual(unknownVariables([...known, "PATH", "guestd_x", "MY_GUESTD_X"]), []);
  const warnings = unknownVariables(["GUESTD_KILL_GRACE", ...known, `GUESTD_${"X".repeat(300)}`]);
  strictEqual(warnings.length, 2);
  ok(warnings[0]?.startsWith("GUESTD_KILL_GRACE is no setting"));
  ok(!warnings[1]?.includes("X".repeat(194)));
});

Deno.test("the help lists every variable that is asked for, with its default", () => {
  const asked: string[] = [];
  readConfig((name) => {
    asked.push(name);
    return undefined;
  });
  deepStrictEqual(asked, allSettings().map(({ variable }) => variable));
  strictEqual(asked.length, 14 + 12);
  for (const name of asked) ok(helpText().includes(`\n  ${name}=`), name);
  ok(helpText().includes("GUESTD_LISTEN=0.0.0.0:9000"));
  ok(helpText("127.0.0.1:1").includes("GUESTD_LISTEN=127.0.0.1:1"));
  ok(helpText().includes(VERSION));
  for (
    const option of ["--version", "--help", "--print-schema", "--print-openapi", "--listen-default"]
  ) {
    ok(helpText().includes(option), option);
  }
});
