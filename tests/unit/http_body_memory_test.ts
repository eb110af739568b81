import { deepStrictEqual, strictEqual, throws } from "node:assert/strict";
import { BodyLost } from "../../src/http/body_lost.ts";
import { BodyMemory, type BodyPlace } from "../../src/http/body_memory.ts";
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

  /** Asks for a place; ends when it is had. */
  async place(name: string, most: number): Promise<BodyPlace> {
    const place = await within(
      `the turn of ${name}`,
      this.memory.place(most, () => this.givenUp.push(name)),
    );
    this.inside.push(name);
    return place;
  }
}

Deno.test("bodies for which there is room come in at once, the others in their order, and none overtakes", async () => {
  const house = new House();
  const [a, b] = [await house.place("a", 4 * MIB), await house.place("b", 6 * MIB)];
  const [third, fourth] = [house.place("c", 6 * MIB), house.place("d", MIB)];
  // Room for the fourth alone.
  a[Symbol.dispose]();
  await settled();
  deepStrictEqual(house.inside, ["a", "b"]);
  b[Symbol.dispose]();
  await Promise.all([third, fourth]);
  deepStrictEqual(house.inside, ["a", "b", "c", "d"]);
});

Deno.test("a body that is complete holds what came and no more, until it was used", async () => {
  const house = new House();
  const a = await house.place("a", 10 * MIB);
  const second = house.place("b", 9 * MIB);
  a.received = MIB;
  await a.complete();
  await second;
  const third = house.place("c", 1);
  await settled();
  deepStrictEqual(house.inside, ["a", "b"]);
  a[Symbol.dispose]();
  await third;
});

Deno.test("a body that comes on is not disturbed, however long others wait, and neither is one in use", async () => {
  const house = new House();
  const a = await house.place("a", 10 * MIB);
  const second = house.place("b", 10 * MIB);
  for (a.received = MIB; a.received < 10 * MIB; a.received += MIB / 4) await house.pass();
  await a.complete();
  for (let times = 0; times < 3; times++) await house.pass();
  a.check();
  deepStrictEqual(house.inside, ["a"]);
  a[Symbol.dispose]();
  await second;
});

Deno.test("a body that stalls for two looks while others wait is given up, and no other", async () => {
  const house = new House();
  const [a, b] = [await house.place("a", 5 * MIB), await house.place("b", 5 * MIB)];
  // Nobody waits: nobody looks.
  for (let times = 0; times < 3; times++) await house.pass();
  const third = house.place("c", 5 * MIB);
  for (let times = 0; times < 2; times++) {
    deepStrictEqual(house.givenUp, []);
    b.received += MIB;
    await house.pass();
  }
  deepStrictEqual(house.givenUp, ["a"]);
  throws(() => a.check(), BodyLost);
  b.check();
  await third;
  // It holds nothing any more, so that leaving makes no room twice.
  a[Symbol.dispose]();
  const fourth = house.place("d", 1);
  await settled();
  deepStrictEqual(house.inside, ["a", "b", "c"]);
  b[Symbol.dispose]();
  await fourth;
});

Deno.test("what large bodies left behind is collected before the next one is used", async () => {
  const house = new House();
  for (const name of ["a", "b", "c"]) {
    using place = await house.place(name, 3 * MIB);
    place.received = 3 * MIB;
    await place.complete();
  }
  strictEqual(house.collected, 0);
  for (const name of ["d", "e"]) {
    using place = await house.place(name, MIB);
    place.received = MIB;
    await place.complete();
    strictEqual(house.collected, 1);
  }
});
