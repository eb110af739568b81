import { deepStrictEqual, ok, rejects, strictEqual, throws } from "node:assert/strict";
import { BodyLost } from "../../src/http/body_lost.ts";
import { BodyMemory, BodyPlace } from "../../src/http/body_memory.ts";
import { within } from "../support/await_event.ts";

const MIB = 1024 * 1024;

/** Everything that need not wait for anything has happened. */
const settled = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 0));

/** A memory of 10 MiB, and who was let in, by name. */
class House {
  readonly memory: BodyMemory;
  readonly inside: string[] = [];
  readonly givenUp: string[] = [];
  collected = 0;
  #look: (() => void) | undefined;

  constructor() {
    this.memory = new BodyMemory({
      bytes: 10 * MIB,
      collectBytes: 8 * MIB,
      collect: () => void this.collected++,
      later: (look) => void (this.#look = look),
    });
  }

  /** The time passes after which bodies that arrive are looked at, if they are. */
  async pass(): Promise<void> {
    const look = this.#look;
    this.#look = undefined;
    look?.();
    await settled();
  }

  place(name: string, most: number): BodyPlace {
    return new BodyPlace(this.memory, most, () => this.givenUp.push(name));
  }

  /** Brings a body to `received` bytes; ends when they may be kept. */
  async take(name: string, place: BodyPlace, received: number): Promise<void> {
    const turn = place.take(received);
    if (turn !== undefined) await within(`the turn of ${name}`, turn);
    this.inside.push(name);
  }
}

Deno.test("bodies for which there is room come in at once, the others in their order, and none overtakes", async () => {
  const house = new House();
  const [a, b, c, d] = [4, 6, 6, 1].map((most, index) =>
    house.place("abcd"[index] ?? "", most * MIB)
  );
  ok(a && b && c && d);
  strictEqual(a.take(MIB), undefined);
  strictEqual(b.take(MIB), undefined);
  const [third, fourth] = [house.take("c", c, MIB), house.take("d", d, MIB)];
  // Room for the fourth alone.
  a[Symbol.dispose]();
  await settled();
  deepStrictEqual(house.inside, []);
  b[Symbol.dispose]();
  await Promise.all([third, fourth]);
  deepStrictEqual(house.inside, ["c", "d"]);
});

Deno.test("a body that is complete holds what came and no more, until it was used", async () => {
  const house = new House();
  const [a, b] = [house.place("a", 10 * MIB), house.place("b", 9 * MIB)];
  strictEqual(a.take(MIB), undefined);
  const second = house.take("b", b, MIB);
  strictEqual(a.settle(), undefined);
  await second;
  const c = house.place("c", 1);
  const third = house.take("c", c, 1);
  await settled();
  deepStrictEqual(house.inside, ["b"]);
  a[Symbol.dispose]();
  await third;
});

Deno.test("who leaves while it waits gives up its place", async () => {
  const house = new House();
  const [a, b, c] = [house.place("a", 10 * MIB), house.place("b", 10 * MIB), house.place("c", MIB)];
  strictEqual(a.take(1), undefined);
  house.take("b", b, 1);
  const third = house.take("c", c, 1);
  b[Symbol.dispose]();
  a[Symbol.dispose]();
  await third;
  deepStrictEqual(house.inside, ["c"]);
});

Deno.test("a body that stalls keeps what has come, makes room for the rest and goes on in its turn", async () => {
  const house = new House();
  const [a, b] = [house.place("a", 10 * MIB), house.place("b", 9 * MIB)];
  strictEqual(a.take(MIB), undefined);
  const second = house.take("b", b, MIB);
  await house.pass();
  deepStrictEqual(house.inside, []);
  await house.pass();
  deepStrictEqual(house.inside, ["b"]);
  await second;
  const again = house.take("a", a, 2 * MIB);
  await settled();
  deepStrictEqual(house.inside, ["b"]);
  b[Symbol.dispose]();
  await again;
  deepStrictEqual(house.givenUp, []);
});

Deno.test("a body that comes on is not disturbed, however long others wait", async () => {
  const house = new House();
  const [a, b] = [house.place("a", 10 * MIB), house.place("b", 10 * MIB)];
  strictEqual(a.take(1), undefined);
  const second = house.take("b", b, 1);
  for (let received = MIB; received <= 10 * MIB; received += MIB / 4) {
    strictEqual(a.take(received), undefined);
    await house.pass();
  }
  // Complete bodies are not looked at: they are being used.
  a.settle();
  for (let times = 0; times < 3; times++) await house.pass();
  deepStrictEqual(house.inside, []);
  a[Symbol.dispose]();
  await second;
});

Deno.test("where stalled bodies alone fill the memory, the one that holds most is given up", async () => {
  const house = new House();
  const [a, b, c] = ["a", "b", "c"].map((name) => house.place(name, 5 * MIB));
  ok(a && b && c);
  strictEqual(a.take(4 * MIB), undefined);
  strictEqual(b.take(4.5 * MIB), undefined);
  const third = house.take("c", c, MIB);
  await house.pass();
  deepStrictEqual(house.givenUp, []);
  await house.pass();
  await third;
  deepStrictEqual(house.givenUp, ["b"]);
  throws(() => b.take(5 * MIB), BodyLost);
  // The one that is left has room for the rest.
  strictEqual(a.take(5 * MIB), undefined);
});

Deno.test("one that is given up while it waits to go on learns of it", async () => {
  const house = new House();
  const [a, b, c] = [
    house.place("a", 10 * MIB),
    house.place("b", 2 * MIB),
    house.place("c", 9 * MIB),
  ];
  strictEqual(a.take(8 * MIB), undefined);
  const second = house.take("b", b, MIB);
  const third = house.take("c", c, MIB);
  await house.pass();
  await house.pass();
  await second;
  // The first is behind the third, for which there is no room while it holds what it has.
  const again = rejects(house.take("a", a, 9 * MIB), BodyLost);
  await settled();
  deepStrictEqual(house.givenUp, []);
  b[Symbol.dispose]();
  await third;
  await again;
  deepStrictEqual([house.inside, house.givenUp], [["b", "c"], ["a"]]);
});

Deno.test("what large bodies left behind is collected before the next one is used", async () => {
  const house = new House();
  const places = Array.from({ length: 3 }, (_, index) => house.place(`${index}`, 3 * MIB));
  for (const place of places) strictEqual(place.take(3 * MIB), undefined);
  for (const place of places) strictEqual(place.settle(), undefined);
  for (const place of places) place[Symbol.dispose]();
  const [a, b] = [house.place("a", MIB), house.place("b", MIB)];
  strictEqual(a.take(MIB), undefined);
  strictEqual(b.take(MIB), undefined);
  strictEqual(house.collected, 0);
  await within("the collection", a.settle() ?? Promise.reject(new Error("it does not wait")));
  strictEqual(house.collected, 1);
  strictEqual(b.settle(), undefined);
});
