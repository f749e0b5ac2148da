import { canonicalJson } from "../../domain/canonical-json.ts";
import { OrreryError } from "../../domain/errors.ts";
import type { EpochMs, NodeEventBody, SyncStatus, TransitionTrigger } from "../../domain/node/node.ts";
import {
  forceTransition,
  isTerminal,
  type NodeCondition,
  type TransitionRequest,
  transition,
} from "../../domain/node/transition.ts";
import { now } from "../shared/clock.ts";
import type { Outbox } from "../shared/outbox.ts";
import type { NodeRecord, NodeStore } from "./store.ts";

type StateReason = { readonly reason: string | null; readonly actor?: string };

/**
 * One change of a node: what it is now, what it owes to its readers, and what to do once it is committed. All of it is
 * written in one transaction; `state_version` rises once for a change that tells anything.
 */
export class NodeChange {
  readonly at: EpochMs;
  readonly #events: NodeEventBody[] = [];
  readonly #effects: (() => void)[] = [];
  #node: NodeRecord;

  constructor(node: NodeRecord, at: EpochMs) {
    this.#node = node;
    this.at = at;
  }

  get node(): NodeRecord {
    return this.#node;
  }

  get events(): readonly NodeEventBody[] {
    return this.#events;
  }

  get effects(): readonly (() => void)[] {
    return this.#effects;
  }

  emit(event: NodeEventBody): void {
    this.#events.push(event);
  }

  /** Runs after the commit: frames to send, sockets to close. */
  afterwards(effect: () => void): void {
    this.#effects.push(effect);
  }

  set(part: Partial<NodeRecord>): void {
    this.#node = { ...this.#node, ...part };
  }

  /** Moves the node by the table; false when it was there already. */
  transition(request: TransitionRequest, why: StateReason): boolean {
    return this.#enter(transition(this.#node, request), request.trigger, false, why);
  }

  force(request: TransitionRequest, why: StateReason): boolean {
    return this.#enter(forceTransition(this.#node, request), request.trigger, true, why);
  }

  setSyncStatus(syncStatus: SyncStatus, reason: string | null): void {
    const from = this.#node.syncStatus;
    if (from === syncStatus) return;
    this.set({ syncStatus });
    this.emit({
      kind: "dimension_changed",
      dimension: "sync_status",
      from,
      to: syncStatus,
      trigger: "agent_status",
      reason,
    });
  }

  setEndpoints(endpoints: Readonly<Record<string, string>>): void {
    if (canonicalJson(endpoints) === canonicalJson(this.#node.endpoints)) return;
    this.set({ endpoints });
    this.emit({ kind: "endpoints_changed", endpoints });
  }

  #enter(next: NodeCondition, trigger: TransitionTrigger, forced: boolean, why: StateReason): boolean {
    const from = this.#node.state;
    if (next.state === from) return false;
    this.set(next);
    const { state: to, stateSince: effectiveAt } = next;
    this.emit({ kind: "state_changed", from, to, trigger, forced, effectiveAt, ...why });
    // The port may be another node's tomorrow.
    if (isTerminal(to)) this.setEndpoints({});
    return true;
  }
}

/** Opens changes and commits them: node row, outbox and whatever the work wrote itself, in one transaction. */
export class NodeWriter {
  readonly #storage: DurableObjectStorage;
  readonly #store: NodeStore;
  readonly #outbox: Outbox<NodeEventBody>;
  readonly #onEvents: (nodeId: string) => void;

  constructor(
    storage: DurableObjectStorage,
    store: NodeStore,
    outbox: Outbox<NodeEventBody>,
    onEvents: (nodeId: string) => void,
  ) {
    this.#storage = storage;
    this.#store = store;
    this.#outbox = outbox;
    this.#onEvents = onEvents;
  }

  /**
   * @throws node_not_found, and what the work throws; then nothing is written
   */
  commit<T>(work: (change: NodeChange) => T): T {
    const { result, change } = this.transaction(() => {
      const node = this.#store.node();
      if (node === null) throw new OrreryError("node_not_found", "The node was never initialised.");
      const opened = new NodeChange(node, now());
      const value = work(opened);
      this.#write(node, opened);
      return { result: value, change: opened };
    });
    for (const effect of change.effects) effect();
    if (change.events.length > 0) this.#onEvents(change.node.birth.nodeId);
    return result;
  }

  /** Writes the node's first row. */
  begin(node: NodeRecord, event: NodeEventBody): void {
    this.transaction(() => {
      this.#store.saveNode(node);
      this.#outbox.append(event, node.incarnation);
    });
    this.#onEvents(node.birth.nodeId);
  }

  /** All of the work's writes or none, rows and what is kept of them alike. */
  transaction<T>(work: () => T): T {
    try {
      return this.#storage.transactionSync(work);
    } catch (thrown) {
      this.#store.forget();
      throw thrown;
    }
  }

  #write(before: NodeRecord, change: NodeChange): void {
    const { events, node } = change;
    if (events.length > 0) change.set({ stateVersion: node.stateVersion + 1 });
    if (change.node !== before) this.#store.saveNode(change.node);
    for (const event of events) this.#outbox.append(event, change.at);
  }
}
