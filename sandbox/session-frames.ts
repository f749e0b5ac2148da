import { fromBinary } from "@bufbuild/protobuf";
import {
  AgentBodySchema,
  AgentMessageSchema,
  CommandSchema,
  type CommandType,
  ControlBodySchema,
  ControlMessageSchema,
} from "../proto/gen/orrery/agent/v1/gateway_pb.js";

export type Direction = "up" | "down";

/** What a frame says, as everyone on the way can read it: sealed frames are authenticated, and not encrypted. */
export interface ReadFrame {
  /** The name of the message, for example `hello`, `welcome`, `command` or `commandCompleted`. */
  readonly kind: string;
  /** The command that it is about, where it is about one. */
  readonly commandId: string | null;
  /** That command's type, where the frame itself tells. */
  readonly commandType: CommandType | null;
}

/** One binary frame of a session. */
export function readFrame(direction: Direction, frame: Uint8Array): ReadFrame {
  return direction === "up" ? readAgentFrame(frame) : readControlFrame(frame);
}

function readAgentFrame(frame: Uint8Array): ReadFrame {
  const { body: outer } = fromBinary(AgentMessageSchema, frame);
  if (outer.case !== "sealed") return about(outer.case);
  const { body } = fromBinary(AgentBodySchema, outer.value.body);
  switch (body.case) {
    case "commandAcknowledged":
    case "commandProgress":
    case "commandCompleted":
    case "commandFailed":
      return about(body.case, body.value.commandId);
    default:
      return about(body.case);
  }
}

function readControlFrame(frame: Uint8Array): ReadFrame {
  const { body: outer } = fromBinary(ControlMessageSchema, frame);
  if (outer.case !== "sealed") return about(outer.case);
  const { body } = fromBinary(ControlBodySchema, outer.value.body);
  if (body.case === "cancelCommand") return about(body.case, body.value.commandId);
  if (body.case !== "command") return about(body.case);
  const { id, type } = fromBinary(CommandSchema, body.value.command);
  return about(body.case, id, type);
}

function about(
  kind: string | undefined,
  commandId: string | null = null,
  commandType: CommandType | null = null,
): ReadFrame {
  return { kind: kind ?? "none", commandId, commandType };
}
