/** Ids of sagas and tags of hosts: made from what they are about, so that asking twice finds the first. */

export const SAGA_WORKFLOWS = ["provision-node", "terminate-node", "reenroll-node"] as const;
export type SagaWorkflow = (typeof SAGA_WORKFLOWS)[number];

/** Sagas that a node has one of. */
export type OnceSaga = Exclude<SagaWorkflow, "reenroll-node">;

/** The workflow instance's id and the `sagas` row's (DESIGN section 6). */
export function sagaId(workflow: OnceSaga, nodeId: string): string {
  return workflow === "provision-node" ? `provision-${nodeId}` : `terminate-node-${nodeId}`;
}

/** A node can be re-enrolled again and again: each saga's id names the generation that it brings in. */
export function reenrolmentId(nodeId: string, generation: number): string {
  return `reenroll-${nodeId}-${generation}`;
}

/** The generation that a re-enrolment's id names; null for another saga's id. */
export function reenrolledGeneration(id: string): number | null {
  const generation = /^reenroll-[0-9a-f-]{36}-([1-9][0-9]{0,8})$/.exec(id)?.[1];
  return generation === undefined ? null : Number(generation);
}

export function isSagaWorkflow(name: string): name is SagaWorkflow {
  return SAGA_WORKFLOWS.some((workflow) => workflow === name);
}

/** The generation of a node's first installation; a migration's new host or a rebuilt disk has the next. */
export const FIRST_GENERATION = 1;

const HOST_TAG = /^orrery-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-g([1-9][0-9]{0,8})$/;

/** The tag that a node's host carries at its provider. */
export function hostTag(nodeId: string, generation: number): string {
  return `orrery-${nodeId}-g${generation}`;
}

/** Whose host a tag names; null for what is not ours. */
export function parseHostTag(tag: string): { readonly nodeId: string; readonly generation: number } | null {
  const [, nodeId, generation] = HOST_TAG.exec(tag) ?? [];
  return nodeId === undefined || generation === undefined ? null : { nodeId, generation: Number(generation) };
}

/** The event by which a node's object says that an agent of this generation has its first session. */
export function agentReadyEvent(generation: number): string {
  return `agent-ready-${generation}`;
}

/** The event by which a node's object says that a command has ended. */
export function commandEndedEvent(commandId: string): string {
  return `command-${commandId}`;
}

/** The event by which a saga that unwound tells the one that took over. */
export const SAGA_ENDED_EVENT = "other-saga-ended";

/** An event that no step waits for: taking it makes the engine load the instance, which goes on where it was. */
export const TOUCH_EVENT = "touch";
