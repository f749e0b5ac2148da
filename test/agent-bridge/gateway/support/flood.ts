import { readFileSync } from "node:fs";
import type { BridgeProcess } from "./bridge-process.ts";
import { eventually } from "./eventually.ts";
import { expectHonestSession } from "./honest.ts";
import { beginCall, frame, grpcMessage, TICKET_HEADERS, Wire } from "./wire.ts";

/** What connections without enrolment do, in turn: nothing, greet, call without a message, call with half of one. */
const VISITS: readonly ((port: number) => Promise<Wire>)[] = [
  (port) => Wire.open(port),
  (port) => Wire.greeted(port),
  (port) => calling(port, beginCall(1, "Report", TICKET_HEADERS)),
  (port) => calling(port, beginCall(1, "Heartbeat", TICKET_HEADERS), HALF),
];
const HALF = frame("data", 0, 1, grpcMessage(new Uint8Array(1_000), { length: 200_000 }));
const AT_ONCE = 50;

async function calling(port: number, ...parts: readonly Uint8Array[]): Promise<Wire> {
  const wire = await Wire.greeted(port);
  wire.write(...parts);
  return wire;
}

export interface Flooded {
  readonly connections: number;
  readonly beforeMiB: number;
  readonly duringMiB: number;
  /** After the flood has ended. */
  readonly afterMiB: number;
  /** How long an honest agent took to have a session, amid the flood. */
  readonly honestMs: number;
}

/**
 * Many connections without enrolment at once; an honest agent has its session meanwhile.
 * @param end how the flood ends, given its connections
 */
export async function flood(
  bridge: BridgeProcess,
  connections: number,
  end: (wires: readonly Wire[]) => Promise<unknown>,
): Promise<Flooded> {
  const port = Number(new URL(bridge.url).port);
  const beforeMiB = bridge.residentMiB;
  const wires: Wire[] = [];
  const visitor = async () => {
    while (wires.length < connections) {
      const place = wires.length;
      const opening = VISITS[place % VISITS.length]?.(port);
      if (opening === undefined) return;
      // Takes its place at once, so that no other visitor does.
      wires.length = place + 1;
      wires[place] = await opening;
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, visitor));
  const since = performance.now();
  await expectHonestSession(bridge);
  const honestMs = performance.now() - since;
  const duringMiB = bridge.residentMiB;
  await end(wires);
  const left = () => bridge.metric("orrery_bridge_connections");
  await eventually("all of the flood's connections to be gone", async () => (await left()) === 0, 30_000);
  return { connections, beforeMiB, duringMiB, afterMiB: bridge.residentMiB, honestMs };
}

/** How many files, connections among them, a process started by this one may hold open. */
export function openFilesLimit(): number {
  // Node.js raises its own soft limit to the hard one when it starts.
  const [, hard] = /^Max open files\s+\S+\s+(\S+)/m.exec(readFileSync("/proc/self/limits", "utf8")) ?? [];
  return hard === "unlimited" ? Number.POSITIVE_INFINITY : Number(hard);
}
