import { CommandType } from "../../proto/gen/orrery/agent/v1/gateway_pb.js";
import type { Walk } from "./walk.ts";

/**
 * The three boundaries around each outside effect of a saga: its mark is written and the effect has not happened; the
 * effect has happened and its result is not stored; the result is (about to be) stored. At each the Worker is killed.
 */
export interface KillPoint {
  readonly name: string;
  readonly workflow: "provision-node" | "terminate-node";
  /** Kills the Worker at the next passage of this point. Settles when it is dead. */
  arm(walk: Walk): Promise<void>;
}

export const KILL_POINTS: readonly KillPoint[] = [
  ...exchange("provision-node", "create host", "POST", /^\/hosts$/),
  ...command("provision-node", "CONFIGURE", CommandType.CONFIGURE),
  ...command("provision-node", "INJECT_KEYS", CommandType.INJECT_KEYS),
  ...command("provision-node", "START", CommandType.START),
  ...command("terminate-node", "STOP", CommandType.STOP),
  ...exchange("terminate-node", "destroy host", "DELETE", /^\/hosts\//),
];

function exchange(workflow: KillPoint["workflow"], effect: string, method: string, path: RegExp): KillPoint[] {
  return (["before", "after", "answered"] as const).map((boundary) => ({
    name: `${effect}: ${{ before: "mark written", after: "effect done", answered: "result stored" }[boundary]}`,
    workflow,
    arm: ({ provider, stack }) => provider.once({ method, path, boundary, act: () => stack.killWorker() }),
  }));
}

function command(workflow: KillPoint["workflow"], effect: string, type: CommandType): KillPoint[] {
  const points = [
    { boundary: "mark written", kind: "command", direction: "down", when: "instead" },
    { boundary: "effect done", kind: "commandCompleted", direction: "up", when: "instead" },
    { boundary: "result stored", kind: "commandCompleted", direction: "up", when: "after" },
  ] as const;
  return points.map(({ boundary, kind, direction, when }) => ({
    name: `${effect}: ${boundary}`,
    workflow,
    arm: ({ sessions, stack }) =>
      sessions.once({
        matches: (frame) => frame.kind === kind && frame.direction === direction && frame.commandType === type,
        boundary: when,
        act: () => stack.killWorker(),
      }),
  }));
}
