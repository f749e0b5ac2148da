import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { OrreryError } from "../../domain/errors.ts";
import { frameProblem, sealFrame } from "../../domain/identity/frame-seal.ts";
import type { SessionKeys } from "../../domain/identity/handshake.ts";
import { AgentBodySchema, ControlBodySchema, type Sealed } from "../../proto/gen/orrery/agent/v1/gateway_pb.js";
import type { AgentBodyInit, AgentMessageInit, ControlWord } from "./messages.ts";

/** The sealed frames of one session in both directions. */
export class SealedChannel {
  readonly #keys: SessionKeys;
  #sent = 0;
  #received = 0;

  constructor(keys: SessionKeys) {
    this.#keys = keys;
  }

  /** The next frame to the control plane; every one must be sent, in this order. */
  seal(body: AgentBodyInit): AgentMessageInit {
    this.#sent += 1;
    const bytes = toBinary(AgentBodySchema, create(AgentBodySchema, body));
    const { mac } = sealFrame(this.#keys.agent, this.#sent, bytes);
    return { body: { case: "sealed", value: { counter: BigInt(this.#sent), body: bytes, mac } } };
  }

  /**
   * What the control plane says in a frame; null when this agent does not know it.
   * @throws frame_forged, frame_replayed, frame_out_of_order
   */
  open({ counter, body, mac }: Sealed): ControlWord | null {
    const problem = frameProblem(this.#keys.control, this.#received, { counter: Number(counter), body, mac });
    if (problem !== null) {
      throw new OrreryError(problem, `Frame ${counter} came after frame ${this.#received} and is not believed.`);
    }
    this.#received += 1;
    return readBody(body);
  }

  /** The session has ended: nothing can be sealed or opened any more. */
  forget(): void {
    this.#keys.agent.fill(0);
    this.#keys.control.fill(0);
  }
}

function readBody(bytes: Uint8Array): ControlWord | null {
  try {
    const { body } = fromBinary(ControlBodySchema, bytes);
    return body.case === undefined ? null : body;
  } catch {
    return null;
  }
}
