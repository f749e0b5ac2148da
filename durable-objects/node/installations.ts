import { bytesToHex } from "@noble/hashes/utils.js";
import { DEFAULTS } from "../../domain/defaults.ts";
import { OrreryError } from "../../domain/errors.ts";
import type { EnrolmentClaim } from "../../domain/identity/enrolment.ts";
import { isNewsworthy, judgeEnrolment, type Refusal } from "../../domain/node/admission.ts";
import type { InstallationView, NodeState, SagaWait } from "../../domain/node/node.ts";
import { isTerminal } from "../../domain/node/transition.ts";
import type { NodeChange } from "./change.ts";
import type { NodeCommands } from "./commands.ts";
import type { EnrolmentOutcome } from "./contract.ts";
import type { ControlVoice } from "./control-voice.ts";
import type { SagaEvent } from "./saga-events.ts";
import type { NodeSockets } from "./sockets.ts";
import type { InstallationRecord, NodeStore } from "./store.ts";
import type { NodeWatch } from "./watch.ts";

interface InstallationParts {
  readonly store: NodeStore;
  readonly sockets: NodeSockets;
  readonly voice: ControlVoice;
  readonly watch: NodeWatch;
  readonly commands: NodeCommands;
  readonly tellSaga: (event: SagaEvent) => void;
}

/** Whom the node expects, knows and no longer knows. */
export class NodeInstallations {
  readonly #parts: InstallationParts;

  constructor(parts: InstallationParts) {
    this.#parts = parts;
  }

  /** @throws node_ended, node_terminating */
  expect(generation: number, state: NodeState, notify: SagaWait | null): void {
    const { store, watch, tellSaga } = this.#parts;
    const existing = store.installation(generation);
    if (existing === null) refuseNewInstallation(state);
    const installation = existing ?? expected(generation, this.#statusFor(generation));
    const isConnected = watch.session(installation) !== null;
    const readyWait = notify === null || isConnected ? installation.readyWait : notify;
    if (existing === null || readyWait !== existing.readyWait) store.saveInstallation({ ...installation, readyWait });
    if (notify !== null && isConnected) tellSaga({ wait: notify, payload: { generation } });
  }

  /**
   * The first claim for a generation binds its keys; the Worker has verified that it was made under the node token.
   * @throws invalid_request for keys that are none
   */
  enroll(change: NodeChange, claim: EnrolmentClaim): EnrolmentOutcome {
    const { generation, installationId } = claim;
    if (claim.signingKey.length !== 32 || claim.sealingKey.length !== 32) {
      throw new OrreryError("invalid_request", "An installation's keys are 32 bytes each.");
    }
    const keys = { signingKey: bytesToHex(claim.signingKey), sealingKey: bytesToHex(claim.sealingKey) };
    const installation = this.#parts.store.installation(generation);
    const others = this.#parts.store.installations().filter((other) => other.generation !== generation);
    const claimed = { installationId, ...keys };
    const verdict = judgeEnrolment(change.node.state, installation, others, claimed, DEFAULTS.agent);
    if (verdict !== "bind" && verdict !== "known") {
      this.recordRefusal(change, generation, verdict);
      return { ok: false, ...pick(verdict) };
    }
    if (verdict === "bind" && installation !== null) {
      this.#parts.store.saveInstallation({ ...installation, installationId, ...keys, enrolledAt: change.at });
      change.emit({ kind: "agent_enrolled", installationId, generation, signingKey: keys.signingKey });
    }
    return { ok: true };
  }

  /**
   * Another installation takes the active one's place: a host whose disk was rebuilt.
   * @throws node_ended, node_terminating, invalid_transition
   */
  replace(change: NodeChange, generation: number, notify: SagaWait | null): void {
    const { store } = this.#parts;
    refuseReplacement(change.node.state);
    const existing = store.installation(generation);
    if (existing === null) {
      const newest = store.installations().at(-1)?.generation ?? 0;
      if (generation <= newest) throw new OrreryError("invalid_transition", `Generation ${generation} is past.`);
      const active = store.activeInstallation();
      if (active !== null) this.#revoke(change, active);
      // The silence that counts from now on is the new agent's.
      change.set({ listeningSince: change.at });
    } else if (existing.status === "revoked") {
      throw new OrreryError("invalid_transition", `The installation of generation ${generation} is revoked.`);
    }
    this.expect(generation, change.node.state, notify);
  }

  /** The node has ended, and nobody belongs to it any more. */
  revokeAll(change: NodeChange): void {
    const { store, sockets, voice } = this.#parts;
    for (const installation of store.installations()) {
      this.releaseWait(installation);
      store.saveInstallation({ ...installation, status: "revoked", connectedAt: null, readyWait: null });
    }
    change.afterwards(() => {
      for (const { socket } of sockets.all()) voice.dismiss(socket, revoked("The node has ended."));
    });
  }

  /** Wakes the saga that waits for this installation's agent. */
  releaseWait(installation: InstallationRecord): void {
    const { readyWait, generation } = installation;
    if (readyWait === null) return;
    this.#parts.tellSaga({ wait: readyWait, payload: { generation } });
    this.#parts.store.saveInstallation({ ...installation, readyWait: null });
  }

  /** Tells of a refused agent: who keeps knocking once in a while, not each time. */
  recordRefusal(change: NodeChange, generation: number, { code, message }: Pick<Refusal, "code" | "message">): void {
    const installation = this.#parts.store.installation(generation);
    if (installation === null || isTerminal(change.node.state)) return;
    const { refusals } = installation;
    if (!isNewsworthy(refusals, code, DEFAULTS.node.refusalNoticeMs, change.at)) return;
    this.#parts.store.saveInstallation({ ...installation, refusals: { ...refusals, [code]: change.at } });
    change.emit({ kind: "agent_refused", code, message });
  }

  views(): readonly InstallationView[] {
    return this.#parts.store.installations().map((installation) => {
      const { readyWait, refusals, connectedAt, ...view } = installation;
      const connected = this.#parts.watch.session(installation) !== null;
      return { ...view, connected, lastBeatAt: this.#parts.watch.lastBeatAt(installation) };
    });
  }

  #revoke(change: NodeChange, installation: InstallationRecord): void {
    const { store, sockets, voice, watch, commands } = this.#parts;
    const { generation } = installation;
    this.releaseWait(installation);
    if (installation.connectedAt !== null) watch.disconnect(change, installation, watch.lastBeatAt(installation));
    const left = store.installation(generation) ?? installation;
    store.saveInstallation({ ...left, status: "revoked", readyWait: null });
    commands.endOf(change, generation);
    change.afterwards(() => {
      const refusal = revoked("Another installation takes this one's place.");
      for (const { socket } of sockets.of(generation)) voice.dismiss(socket, refusal);
    });
  }

  #statusFor(generation: number): "active" | "candidate" {
    const active = this.#parts.store.activeInstallation();
    return active !== null && active.generation < generation ? "candidate" : "active";
  }
}

function expected(generation: number, status: "active" | "candidate"): InstallationRecord {
  return {
    generation,
    status,
    installationId: null,
    sessionEpoch: 0,
    agentVersion: null,
    connectedAt: null,
    lastBeatAt: null,
    signingKey: null,
    sealingKey: null,
    enrolledAt: null,
    refusals: {},
    readyWait: null,
  };
}

function revoked(message: string): Refusal {
  return { code: "agent_revoked", message, reconnectAfterMs: null, sessionEpoch: null };
}

function pick({ code, message, reconnectAfterMs }: Refusal) {
  return { code, message, reconnectAfterMs };
}

function refuseNewInstallation(state: NodeState): void {
  if (isTerminal(state)) throw new OrreryError("node_ended", `The node has ended as ${state}.`);
  if (state === "terminating") throw new OrreryError("node_terminating", "The node is being terminated.");
}

function refuseReplacement(state: NodeState): void {
  refuseNewInstallation(state);
  if (state !== "provisioning") return;
  throw new OrreryError("invalid_transition", "The node is being provisioned; its agent is not there yet.", { state });
}
