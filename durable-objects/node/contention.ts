import { base64Decode } from "@bufbuild/protobuf/wire";
import { DEFAULTS } from "../../domain/defaults.ts";
import { copyOfHolder, judgeEpoch, judgeInstallation, type Refusal } from "../../domain/node/admission.ts";
import type { EpochMs } from "../../domain/node/node.ts";
import { now } from "../shared/clock.ts";
import { type ContendingAttachment, writeAttachment } from "./attachment.ts";
import type { NodeChange, NodeWriter } from "./change.ts";
import { probeBody } from "./control-frames.ts";
import type { ControlVoice } from "./control-voice.ts";
import { decodeOpening } from "./frames.ts";
import type { NodeInstallations } from "./installations.ts";
import type { NodeSession } from "./session.ts";
import type { AgentSocket, NodeSockets } from "./sockets.ts";
import type { NodeStore } from "./store.ts";

interface ContentionParts {
  readonly store: NodeStore;
  readonly sockets: NodeSockets;
  readonly voice: ControlVoice;
  readonly writer: NodeWriter;
  readonly session: NodeSession;
  readonly installations: NodeInstallations;
}

/**
 * Two connections that both have an installation's key: an agent whose old connection is half open, or an agent and its
 * copy. The holder of the session is asked. A running original answers and the newcomer is a copy; after a silence the
 * newcomer takes over. Only an answer to the question counts: anything else may have been on its way for long.
 */
export class NodeContention {
  readonly #parts: ContentionParts;

  constructor(parts: ContentionParts) {
    this.#parts = parts;
  }

  /** Lets a newcomer wait. One that waits already makes room for it, and its question stands. */
  begin(
    change: NodeChange,
    socket: WebSocket,
    newcomer: Omit<ContendingAttachment, "phase" | "since" | "question">,
    holder: WebSocket,
  ): void {
    const { sockets, voice } = this.#parts;
    const earlier = this.#contenders().filter(({ attachment }) => attachment.generation === newcomer.generation);
    const { since, question } = earlier[0]?.attachment ?? { since: change.at, question: newQuestion() };
    writeAttachment(socket, { ...newcomer, phase: "contending", since, question });
    change.afterwards(() => {
      for (const { socket } of earlier) sockets.close(socket, "superseded by a later attempt");
      if (earlier.length === 0) voice.tell(holder, probeBody(question));
    });
  }

  /** The epoch of who waits for this generation's session; 0 when nobody does. */
  epochOf(generation: number): number {
    const epochs = this.#contenders().flatMap(({ attachment }) => {
      return attachment.generation === generation ? [attachment.sessionEpoch] : [];
    });
    return Math.max(0, ...epochs);
  }

  /** Only the answer to the question that stands counts: an earlier one's may have been held back for this moment. */
  holderAnswered(generation: number, question: number): void {
    for (const contender of this.#contenders()) {
      const { attachment } = contender;
      if (attachment.generation !== generation || attachment.question !== question) continue;
      this.#refuse(contender, copyOfHolder(DEFAULTS.agent));
    }
  }

  holderLeft(generation: number): void {
    for (const contender of this.#contenders()) {
      if (contender.attachment.generation === generation) this.#admit(contender);
    }
  }

  /** When the next holder has had its time; null when nobody waits. */
  deadline(): EpochMs | null {
    const waiting = this.#contenders().map(({ attachment }) => attachment.since + DEFAULTS.agent.holderAnswerMs);
    return waiting.length === 0 ? null : Math.min(...waiting);
  }

  settle(): void {
    for (const contender of this.#contenders()) {
      if (now() >= contender.attachment.since + DEFAULTS.agent.holderAnswerMs) this.#admit(contender);
    }
  }

  /** The node may have changed while the newcomer waited, so it is judged again. */
  #admit({ socket, attachment }: AgentSocket<ContendingAttachment>): void {
    const { generation, installationId, sessionEpoch } = attachment;
    const refusal = this.#parts.writer.commit((change): Refusal | null => {
      const installation = this.#parts.store.installation(generation);
      const refused =
        judgeInstallation(change.node.state, installation, installationId, DEFAULTS.agent) ??
        judgeEpoch(sessionEpoch, installation?.sessionEpoch ?? 0, DEFAULTS.agent);
      if (refused !== null || installation === null) return refused;
      const { agentKey, controlKey, keyId } = attachment;
      const agreed = { installationId, sessionEpoch, agentKey, controlKey, keyId };
      const opening = decodeOpening(base64Decode(attachment.opening));
      this.#parts.session.open(change, socket, installation, agreed, opening);
      return null;
    });
    if (refusal !== null) this.#parts.voice.dismiss(socket, refusal);
  }

  #refuse({ socket, attachment }: AgentSocket<ContendingAttachment>, refusal: Refusal): void {
    const { installations, voice, writer } = this.#parts;
    writer.commit((change) => installations.recordRefusal(change, attachment.generation, refusal));
    voice.dismiss(socket, refusal);
  }

  #contenders(): readonly AgentSocket<ContendingAttachment>[] {
    return this.#parts.sockets.all().flatMap(({ socket, attachment }) => {
      return attachment.phase === "contending" ? [{ socket, attachment }] : [];
    });
  }
}

/** A question that nobody foresees. */
function newQuestion(): number {
  return crypto.getRandomValues(new Uint32Array(1))[0] ?? 0;
}
