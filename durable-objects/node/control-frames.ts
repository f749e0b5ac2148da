import type { MessageInitShape } from "@bufbuild/protobuf";
import { DEFAULTS } from "../../domain/defaults.ts";
import type { ControlKey } from "../../domain/identity/control-key.ts";
import type { Refusal } from "../../domain/node/admission.ts";
import type { EpochMs } from "../../domain/node/node.ts";
import type { ControlBodySchema } from "../../proto/gen/orrery/agent/v1/gateway_pb.js";

type MessageInit = Exclude<MessageInitShape<typeof ControlBodySchema>, { $typeName: string }>;

/** What the node says within a session. */
export type ControlBodyInit = NonNullable<MessageInit["body"]>;

export function welcomeBody(now: EpochMs, controlKeys: readonly ControlKey[]): ControlBodyInit {
  return {
    case: "welcome",
    value: {
      protocolVersion: DEFAULTS.agent.protocolVersion,
      beatIntervalMs: DEFAULTS.heartbeat.beatMs,
      serverTimeMs: BigInt(now),
      controlKeys: controlKeys.map(({ keyId, publicKey }) => ({ keyId, publicKey })),
    },
  };
}

export function cancelBody(commandId: string): ControlBodyInit {
  return { case: "cancelCommand", value: { commandId } };
}

export function probeBody(question: number): ControlBodyInit {
  return { case: "probe", value: { question } };
}

/** The fields of a Goodbye. */
export function goodbyeInit({ code, message, reconnectAfterMs, sessionEpoch }: Refusal) {
  return {
    code,
    message,
    ...(reconnectAfterMs === null ? {} : { reconnectAfterMs }),
    ...(sessionEpoch === null ? {} : { sessionEpoch: BigInt(sessionEpoch) }),
  };
}
