import type { MessageInitShape } from "@bufbuild/protobuf";
import type {
  AgentBodySchema,
  AgentMessageSchema,
  ControlBody,
  OpeningSchema,
} from "../../proto/gen/orrery/agent/v1/gateway_pb.js";

/** A frame to the control plane, as it is written: `{ body: { case, value } }`. */
export type AgentMessageInit = MessageInitShape<typeof AgentMessageSchema>;
/** What the agent says within a session, as it is written. */
export type AgentBodyInit = MessageInitShape<typeof AgentBodySchema>;
export type OpeningInit = MessageInitShape<typeof OpeningSchema>;
/** What the control plane says within a session. */
export type ControlWord = Exclude<ControlBody["body"], { case: undefined }>;
