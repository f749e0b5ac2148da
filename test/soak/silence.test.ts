import { setTimeout as delay } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { until } from "../../dev/ready.ts";
import { hostOf, requestNode, startWalk, untilSagaEnded, untilState, type Walk } from "../e2e/walk.ts";

const SILENT_LINE_MS = 130_000;
const STOPPED_AGENT_MS = 60_000;
const DEAD_WORKER_MS = 150_000;
const RETURN_MS = 60_000;
const POLL_MS = 500;

describe("silence, in real time", () => {
  let walk: Walk;
  let nodeId: string;

  beforeAll(async () => {
    walk = await startWalk({ cronEveryMs: 60_000 });
    nodeId = await requestNode(walk.stack);
    await untilSagaEnded(walk.stack, nodeId, "provision-node");
    await untilState(walk.stack, nodeId, ["healthy"]);
  });
  afterEach(() => walk?.sessions.resume());
  afterAll(async () => {
    await walk?.stop();
  });

  it("makes a node down once, 120 s after its last beat, and the agent comes back by itself", async () => {
    await untilBeat();
    const from = Date.now();
    walk.sessions.pause();
    const lastBeatAt = lastHeardAt();
    const shown = await until("the node to be down", () => momentOf("down"), { timeoutMs: 130_000, everyMs: POLL_MS });
    await delay(from + SILENT_LINE_MS - Date.now());
    walk.sessions.resume();
    const resumedAt = Date.now();
    await untilState(walk.stack, nodeId, ["healthy"], RETURN_MS);
    const returnedMs = Date.now() - resumedAt;

    const events = await eventsSince(from);
    const [down, ...more] = events.filter(({ body }) => body.to === "down");
    expect(more).toEqual([]);
    const silentMs = Date.parse(down?.occurred_at ?? "") - lastBeatAt;
    print("a silent line", {
      "down after, ms": silentMs,
      "shown after, ms": shown - lastBeatAt,
      "back in, ms": returnedMs,
    });
    expect(silentMs).toBeGreaterThanOrEqual(120_000);
    expect(silentMs).toBeLessThanOrEqual(123_000);
    expect(Math.abs(Date.parse(String(down?.body.effective_at)) - lastBeatAt)).toBeLessThan(1_000);
    // Until then the connection stood, and nobody had told the edge anything.
    expect(events.slice(0, 2).map(({ kind }) => kind)).toEqual(["state_changed", "agent_disconnected"]);
  });

  it("of less than 120 s changes nothing, nor ends the session", async () => {
    const host = await hostOf(walk.stack, nodeId);
    await untilBeat();
    const from = Date.now();
    await walk.stack.hostRunner.signalAgent(host, "SIGSTOP");
    await delay(STOPPED_AGENT_MS);
    await walk.stack.hostRunner.signalAgent(host, "SIGCONT");
    await untilBeat();
    // The alarm that the last beat before the silence stands for has rung by then.
    await delay(from + 125_000 - Date.now());
    expect(await eventsSince(from)).toEqual([]);
    expect((await walk.stack.api.node(nodeId)).state).toBe("healthy");
    print("a stopped agent", { "silent for, ms": silences(from) });
  });

  it("of a Worker that was dead for longer than that is a gap in our listening and no silence of the node's", async () => {
    const from = Date.now();
    await walk.stack.killWorker();
    await delay(DEAD_WORKER_MS);
    const startedAt = Date.now();
    await walk.stack.startWorker();
    const answersAt = Date.now();
    const connected = await until(
      "the agent to be back",
      async () => (await eventsSince(from)).find(({ kind }) => kind === "agent_connected") ?? null,
      { timeoutMs: RETURN_MS, everyMs: POLL_MS },
    );
    const returnedMs = Date.parse(connected.occurred_at) - answersAt;
    expect(returnedMs).toBeLessThan(RETURN_MS);
    // Longer than the silence limit, counted from the start: nothing is held against the node later on either.
    await delay(startedAt + 125_000 - Date.now());
    await untilBeat();

    const events = await eventsSince(from);
    expect((await walk.stack.api.node(nodeId)).state).toBe("healthy");
    expect(events.filter(({ kind }) => kind === "state_changed")).toEqual([]);
    const [gap, ...more] = events.filter(({ kind }) => kind === "listening_gap");
    expect(more).toEqual([]);
    const gapFrom = Date.parse(String(gap?.body.from));
    const gapTo = Date.parse(String(gap?.body.to));
    print("a dead Worker", { "gap, ms": gapTo - gapFrom, "agent back after, ms": returnedMs });
    expect(gapFrom).toBeLessThanOrEqual(from + 1_000);
    expect(gapTo).toBeGreaterThanOrEqual(startedAt);
  });

  function beats(): readonly number[] {
    const up = walk.sessions.seen.filter(({ path, direction }) => direction === "up" && path.includes(nodeId));
    return up.map(({ at }) => at);
  }

  /** When the newest frame of the agent's was passed on to the edge. */
  function lastHeardAt(): number {
    return beats().at(-1) ?? 0;
  }

  function untilBeat(): Promise<true> {
    const before = beats().length;
    return until("a beat", async () => (beats().length > before ? true : null), { timeoutMs: RETURN_MS });
  }

  function silences(from: number): number {
    const heard = beats().filter((at) => at >= from - 10_000);
    return Math.max(...heard.slice(1).map((at, index) => at - (heard[index] ?? at)));
  }

  async function momentOf(state: string): Promise<number | null> {
    return (await walk.stack.api.node(nodeId)).state === state ? Date.now() : null;
  }

  async function eventsSince(from: number) {
    const events = await walk.stack.api.events(nodeId);
    return events.filter(({ occurred_at }) => Date.parse(occurred_at) >= from);
  }
});

function print(what: string, figures: Readonly<Record<string, number>>): void {
  console.log(`${what}: ${JSON.stringify(figures)}`);
}
