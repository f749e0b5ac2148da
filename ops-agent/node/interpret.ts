import { CommandType } from "../../proto/gen/orrery/agent/v1/gateway_pb.js";
import type { Interpret } from "../commands/handlers.ts";
import type { ChainNode } from "./node.ts";

/** The commands that this agent knows. A payload may be absent only where it says nothing. */
export function interpretFor(node: ChainNode): Interpret {
  return ({ type, payload }) => {
    if (payload.case !== undefined && payload.case.toUpperCase() !== CommandType[type]) return null;
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
      default:
        return null;
    }
  };
}
