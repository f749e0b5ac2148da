import { runInDurableObject } from "cloudflare:test";
import { beforeEach, describe, it, vi } from "vitest";
import type { Timer } from "../../../domain/alarm/next-alarm.ts";
import { AlarmClock, type RingingTimer, TIMERS_TABLE } from "../../../durable-objects/shared/alarm-clock.ts";
import { withRetries } from "../../../durable-objects/shared/stubs.ts";
import { TestClock } from "./test-clock.ts";
import { TestNode } from "./test-node.ts";

type Kind = "stored" | "derived" | "broken";

let clock: TestClock;
beforeEach(() => {
  clock = new TestClock();
});

interface Bench {
  readonly alarms: AlarmClock<Kind>;
  readonly storage: DurableObjectStorage;
  readonly rang: string[];
  derived: Timer<Kind>[];
  onRing: (timer: RingingTimer) => number | null | Promise<number | null>;
}

/** An alarm clock on the storage of an object of its own. */
function onBench(test: (bench: Bench) => Promise<void>): Promise<void> {
  return runInDurableObject(new TestNode().stub, async (_object, { storage }) => {
    storage.sql.exec(TIMERS_TABLE);
    const rang: string[] = [];
    const run = (timer: RingingTimer) => {
      rang.push(timer.key);
      return bench.onRing(timer);
    };
    const broken = () => {
      throw new Error("broken");
    };
    const handlers = {
      stored: { source: "stored", run },
      derived: { source: "derived", run },
      broken: { source: "stored", run: broken },
    } as const;
    const alarms: AlarmClock<Kind> = new AlarmClock<Kind>(storage, handlers, () => bench.derived);
    const bench: Bench = { alarms, storage, rang, derived: [], onRing: () => null };
    await test(bench);
    await storage.deleteAlarm();
  });
}

describe("the alarm clock", () => {
  it("sets the alarm for its earliest timer, earlier when one comes earlier, and never later", async ({ expect }) => {
    await onBench(async ({ alarms, storage }) => {
      const at = clock.now();
      alarms.schedule("stored", "a", at + 50_000, null);
      await alarms.arm();
      expect(await storage.getAlarm()).toBe(at + 50_000);
      alarms.schedule("stored", "b", at + 20_000, null);
      await alarms.arm();
      expect(await storage.getAlarm()).toBe(at + 20_000);
      const setAlarm = vi.spyOn(storage, "setAlarm");
      alarms.schedule("stored", "b", at + 90_000, null);
      await alarms.arm();
      await alarms.armIfNone();
      expect(setAlarm).not.toHaveBeenCalled();
      expect(await storage.getAlarm()).toBe(at + 20_000);
    });
  });

  it("rings what is due, forgets it, and keeps the rest", async ({ expect }) => {
    await onBench(async ({ alarms, storage, rang }) => {
      alarms.schedule("stored", "now", clock.now(), "x");
      alarms.schedule("stored", "later", clock.now() + 1_000, null);
      await alarms.ring();
      expect(rang).toEqual(["now"]);
      expect(alarms.timers().map(({ key }) => key)).toEqual(["later"]);
      expect(await storage.getAlarm()).toBe(clock.now() + 1_000);
    });
  });

  it("lets a broken timer wait by its own backoff while every other rings in time", async ({ expect }) => {
    await onBench(async ({ alarms, rang }) => {
      const start = clock.now();
      alarms.schedule("broken", "bad", start, null);
      const waits: number[] = [];
      for (let round = 0; round < 4; round += 1) {
        alarms.schedule("stored", `good ${round}`, clock.now(), null);
        await alarms.ring();
        const bad = alarms.timers().find(({ key }) => key === "bad");
        waits.push((bad?.dueAt ?? 0) - clock.now());
        await clock.set(bad?.dueAt ?? 0);
      }
      expect(waits).toEqual([1_000, 2_000, 4_000, 8_000]);
      expect(rang).toEqual(["good 0", "good 1", "good 2", "good 3"]);
    });
  });

  it("rings a derived timer without a row, and holds back one that stays due", async ({ expect }) => {
    await onBench(async (bench) => {
      bench.derived = [{ kind: "derived", key: "d", dueAt: clock.now() }];
      bench.onRing = () => {
        bench.derived = [];
        return null;
      };
      await bench.alarms.ring();
      expect(bench.storage.sql.exec("SELECT * FROM timers").toArray()).toEqual([]);
      bench.derived = [{ kind: "derived", key: "d", dueAt: clock.now() }];
      bench.onRing = () => null;
      await bench.alarms.ring();
      expect(await bench.storage.getAlarm()).toBe(clock.now() + 1_000);
      bench.derived = [];
      await bench.alarms.ring();
      expect(bench.storage.sql.exec("SELECT * FROM timers").toArray()).toEqual([]);
    });
  });

  it("keeps what was scheduled anew while it rang, and comes back when a timer asks for it", async ({ expect }) => {
    await onBench(async (bench) => {
      bench.alarms.schedule("stored", "a", clock.now(), null);
      bench.onRing = () => {
        bench.alarms.schedule("stored", "a", clock.now() + 5_000, "again");
        return null;
      };
      await bench.alarms.ring();
      expect(bench.alarms.timers()).toMatchObject([{ key: "a", payload: "again" }]);
      await clock.forward(5_000);
      bench.onRing = () => clock.now() + 7_000;
      await bench.alarms.ring();
      expect(bench.alarms.timers()).toMatchObject([{ key: "a", dueAt: clock.now() + 7_000 }]);
    });
  });

  it("sets one alarm for a run, whatever is scheduled during it", async ({ expect }) => {
    await onBench(async (bench) => {
      const setAlarm = vi.spyOn(bench.storage, "setAlarm");
      bench.alarms.schedule("stored", "a", clock.now(), null);
      bench.onRing = async () => {
        bench.alarms.schedule("stored", "b", clock.now() + 9_000, null);
        await bench.alarms.arm();
        return null;
      };
      await bench.alarms.ring();
      expect(setAlarm).toHaveBeenCalledTimes(1);
    });
  });

  it("sets anew an alarm that was lost: long past and never rung", async ({ expect }) => {
    await onBench(async ({ alarms, storage }) => {
      await storage.setAlarm(clock.now() + 10_000);
      alarms.schedule("stored", "a", clock.now() + 200_000, null);
      await clock.forward(70_001);
      await alarms.arm();
      expect(await storage.getAlarm()).toBe(clock.now() + 129_999);
    });
  });
});

describe("a call to an object", () => {
  it("is repeated on what the platform calls retryable, never on overload or our own errors", async ({ expect }) => {
    const calls = async (flags: Readonly<Record<string, boolean>>) => {
      let count = 0;
      const attempt = async () => {
        count += 1;
        throw Object.assign(new Error("no"), flags);
      };
      await withRetries(attempt, 1).catch(() => undefined);
      return count;
    };
    expect(await calls({ retryable: true })).toBe(4);
    expect(await calls({ retryable: true, overloaded: true })).toBe(1);
    expect(await calls({})).toBe(1);
    let count = 0;
    const second = await withRetries(async () => {
      count += 1;
      if (count === 1) throw Object.assign(new Error("no"), { retryable: true });
      return "yes";
    }, 1);
    expect(second).toBe("yes");
  });
});
