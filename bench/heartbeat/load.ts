import { setTimeout as delay } from "node:timers/promises";
import { cpuMicros } from "../processes.ts";
import type { Line } from "./lines.ts";

/** What one stretch of beating came to. */
export interface Window {
  readonly seconds: number;
  readonly answered: number;
  /** Beats that were sent and never answered. */
  readonly missing: number;
  /** CPU of each watched process, microseconds in all. */
  readonly cpu: Readonly<Record<string, number>>;
}

export type Processes = Readonly<Record<string, number>>;

/** What beats are sent by: each line again as soon as it is answered, or all of them evenly at this many a second. */
export type Pace = "closed loop" | number;

/** The beats at the beginning are left out: caches fill and connections settle. */
const WARM_UP_MS = 1_000;
const TICK_MS = 10;
const KEEP_TICK_MS = 100;
/** How long an answer may be late before it counts as missing. */
const LATE_MS = 2_000;

/** Beats on the lines for `ms` and counts what is answered and what it costs the processes (by name, their ids). */
export async function measure(lines: readonly Line[], pace: Pace, ms: number, processes: Processes): Promise<Window> {
  const beating = pace === "closed loop" ? beatInLoop(lines) : beatEvenly(lines, pace);
  await delay(WARM_UP_MS);
  const before = { at: performance.now(), answered: beating.counts.answered, cpu: readCpu(processes) };
  await delay(ms);
  const after = { at: performance.now(), answered: beating.counts.answered, cpu: readCpu(processes) };
  await beating.stop();
  return {
    seconds: (after.at - before.at) / 1_000,
    answered: after.answered - before.answered,
    missing: beating.counts.sent - beating.counts.answered,
    cpu: Object.fromEntries(Object.entries(after.cpu).map(([name, used]) => [name, used - (before.cpu[name] ?? 0)])),
  };
}

/** What the processes use while nothing is asked of them. */
export async function measureIdle(ms: number, processes: Processes): Promise<Window> {
  return measure([], "closed loop", ms, processes);
}

/** Has every line beat from time to time, those too that are added meanwhile. Answers what ends it. */
export function keepBeating(lines: readonly Line[], everyMs: number): () => void {
  let next = 0;
  const timer = setInterval(() => {
    for (let left = Math.ceil((lines.length * KEEP_TICK_MS) / everyMs); left > 0; left -= 1) {
      lines[next % lines.length]?.beat();
      next += 1;
    }
  }, KEEP_TICK_MS);
  return () => clearInterval(timer);
}

interface Beating {
  readonly counts: { sent: number; answered: number };
  /** Stops sending and waits for the answers that are under way. */
  stop(): Promise<void>;
}

function beatInLoop(lines: readonly Line[]): Beating {
  const { counts, beat, stop } = beater(lines);
  let going = true;
  for (const line of lines) {
    line.onAnswer = () => {
      counts.answered += 1;
      if (going) beat(line);
    };
    beat(line);
  }
  return {
    counts,
    stop: () => {
      going = false;
      return stop();
    },
  };
}

function beatEvenly(lines: readonly Line[], perSecond: number): Beating {
  const { counts, beat, stop } = beater(lines);
  for (const line of lines) {
    line.onAnswer = () => {
      counts.answered += 1;
    };
  }
  const from = performance.now();
  let due = 0;
  const timer = setInterval(() => {
    for (; due < ((performance.now() - from) * perSecond) / 1_000; due += 1) {
      const line = lines[due % lines.length];
      if (line !== undefined) beat(line);
    }
  }, TICK_MS);
  return {
    counts,
    stop: () => {
      clearInterval(timer);
      return stop();
    },
  };
}

function beater(lines: readonly Line[]) {
  const counts = { sent: 0, answered: 0 };
  const beat = (line: Line) => {
    counts.sent += 1;
    line.beat();
  };
  const stop = async () => {
    const deadline = performance.now() + LATE_MS;
    while (counts.answered < counts.sent && performance.now() < deadline) await delay(TICK_MS);
    for (const line of lines) line.onAnswer = () => undefined;
  };
  return { counts, beat, stop };
}

function readCpu(processes: Processes): Record<string, number> {
  return Object.fromEntries(Object.entries(processes).map(([name, pid]) => [name, cpuMicros(pid)]));
}
