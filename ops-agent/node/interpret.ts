import { CommandType } from "../../proto/gen/orrery/agent/v1/gateway_pb.js";
import type { Interpret } from "../commands/handlers.ts";
import type { ChainNode } from "./node.ts";

/** The commands that this agent knows. A payload may be absent only where it says nothing. */
export function interpretFor(node: ChainNode): Interpret {
  return ({ type, payload }) => {
    if (payload.case !== undefined && typeNameOf(payload.case) !== CommandType[type]) return null;
    switch (type) {
      case CommandType.CONFIGURE: {
        if (payload.case !== "configure") return null;
        const { value } = payload;
        return (context) => node.configure(value, context);
      }
      case CommandType.START:
        return (context) => node.start(context);
      case CommandType.STOP: {
        const graceMs = payload.case === "stop" ? payload.value.graceMs : 0;
        return () => node.stop(graceMs);
      }
      case CommandType.RESTART:
        return (context) => node.restart(context);
      case CommandType.INJECT_KEYS: {
        if (payload.case !== "injectKeys") return null;
        const { value } = payload;
        return (context) => node.injectKeys(value, context);
      }
      default:
        return null;
    }
  };
}

/** The command that a payload belongs to: `injectKeys` to INJECT_KEYS. */
function typeNameOf(payloadCase: string): string {
  return payloadCase.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase();
}
