import { deepStrictEqual, strictEqual } from "node:assert/strict";
import { Clients } from "../../src/http/clients.ts";

const LIMITS = { maxConnections: 3, requestMs: 10_000, idleMs: 120_000 };

/** Clients by the number of their connection, who come from a port each. */
function house(): Clients {
  return new Clients(LIMITS);
}

const peer = (cookie: number): string => `127.0.0.1 ${cookie}`;

function come(clients: Clients, nowMs: number, ...cookies: readonly number[]): void {
  for (const cookie of cookies) clients.came(BigInt(cookie), peer(cookie), nowMs);
}

/** A client asks for something and is answered. */
function ask(clients: Clients, cookie: number, nowMs: number, authorized = false): void {
  const client = clients.begin(peer(cookie));
  client.authorized ||= authorized;
  clients.end(client, nowMs);
}

Deno.test("who asks for nothing goes after the time of a request, others after the idle time", () => {
  const clients = house();
  strictEqual(clients.dueMs, undefined);
  come(clients, 0, 1, 2, 3);
  ask(clients, 2, 1000);
  ask(clients, 3, 2000, true);
  strictEqual(clients.dueMs, 10_000);
  deepStrictEqual(clients.overdue(9999), []);
  deepStrictEqual(clients.overdue(10_000), [1n]);
  strictEqual(clients.dueMs, 121_000);
  deepStrictEqual(clients.overdue(121_000), [2n]);
  deepStrictEqual(clients.overdue(122_000), [3n]);
  strictEqual(clients.dueMs, undefined);
});

Deno.test("of too many the longest idle goes, first of those without the token, and none that waits for its answer", () => {
  const clients = house();
  come(clients, 0, 1, 2, 3);
  ask(clients, 1, 10, true);
  const working = clients.begin(peer(2));
  ask(clients, 3, 20);
  come(clients, 30, 4);
  deepStrictEqual(clients.overdue(30), [3n]);
  come(clients, 40, 5);
  deepStrictEqual(clients.overdue(40), [4n]);
  const asking = clients.begin(peer(5));
  come(clients, 50, 6);
  deepStrictEqual(clients.overdue(50), [6n], "the newest, but the only stranger that is idle");
  ask(clients, 5, 60, true);
  come(clients, 70, 7);
  clients.begin(peer(7));
  deepStrictEqual(clients.overdue(70), [1n], "now all that are idle have the token");
  clients.end(working, 80);
  clients.end(asking, 90);
  come(clients, 100, 8);
  deepStrictEqual(clients.overdue(100), [2n]);
});

Deno.test("where all are at work there may be more than the limit", () => {
  const clients = house();
  come(clients, 0, 1, 2, 3, 4);
  for (const cookie of [1, 2, 3, 4]) clients.begin(peer(cookie));
  deepStrictEqual(clients.overdue(1_000_000), []);
});

Deno.test("a request that is there before its connection was seen counts, for a while", () => {
  const clients = house();
  ask(clients, 1, 0, true);
  come(clients, 200, 1);
  deepStrictEqual(clients.overdue(119_999), []);
  deepStrictEqual(clients.overdue(120_000), [1n]);
  ask(clients, 2, 120_000, true);
  // Its connection was gone before anybody looked.
  deepStrictEqual(clients.overdue(125_000), []);
  strictEqual(clients.dueMs, undefined);
});

Deno.test("a port that is used again is another client's, and what the first asked for does not hold it", () => {
  const clients = house();
  come(clients, 0, 1);
  const first = clients.begin(peer(1));
  clients.came(9n, peer(1), 10);
  clients.left(1n);
  deepStrictEqual(clients.overdue(60_000), [], "nobody can tell whose the request is");
  clients.end(first, 60_000);
  deepStrictEqual(clients.overdue(180_000), [9n]);
  clients.left(9n);
  strictEqual(clients.dueMs, undefined);
});

Deno.test("who has to leave goes as soon as nothing is under way", () => {
  const clients = house();
  come(clients, 0, 1);
  const [one, other] = [clients.begin(peer(1)), clients.begin(peer(1))];
  one.leaving = true;
  clients.end(one, 10);
  deepStrictEqual(clients.overdue(10), []);
  clients.end(other, 20);
  strictEqual(clients.dueMs, 20);
  deepStrictEqual(clients.overdue(20), [1n]);
});

Deno.test("one that floods goes as soon as it is seen, and who uses its port then floods no more", () => {
  const clients = house();
  const flooding = clients.begin(peer(1));
  flooding.flooding = flooding.leaving = true;
  strictEqual(clients.begin(peer(1)).flooding, true);
  strictEqual(clients.came(1n, peer(1), 10), true);
  strictEqual(clients.begin(peer(1)).flooding, true);
  strictEqual(clients.came(2n, peer(1), 20), false);
  strictEqual(clients.begin(peer(1)).flooding, false);
});

Deno.test("who has just come has room where all others have the token, and a crowd has not", () => {
  const clients = new Clients({ ...LIMITS, maxConnections: 32 });
  for (let cookie = 1; cookie <= 32; cookie++) {
    come(clients, cookie, cookie);
    ask(clients, cookie, cookie, true);
  }
  come(clients, 40, 33, 34);
  deepStrictEqual(clients.overdue(40), [1n, 2n]);
  come(clients, 50, 35, 36, 37);
  deepStrictEqual(clients.overdue(50), [33n, 34n, 35n]);
});
