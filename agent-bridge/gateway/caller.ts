import { type Metadata, type ServerUnaryCall, status } from "@grpc/grpc-js";
import { Refusal } from "./refusal.ts";

/** Who calls, by what it says of itself; whether it is true, the edge finds out. */
export interface Caller {
  readonly nodeId: string;
  /** Address and port that it calls from. */
  readonly peer: string;
  /** The headers that the edge asks for. */
  readonly headers: Readonly<Record<string, string>>;
}

const FIELDS = {
  "orrery-node": /^[A-Za-z0-9-]{1,64}$/,
  "orrery-generation": /^[1-9][0-9]{0,8}$/,
  "orrery-installation": /^[A-Za-z0-9-]{1,64}$/,
  "orrery-epoch": /^[0-9]{1,16}$/,
  "orrery-ticket": /^[0-9a-f]{64}$/,
  "orrery-signature": /^[0-9a-f]{128}$/,
} as const;

/** @throws Refusal INVALID_ARGUMENT naming what is missing or malformed */
export function callerOf(call: Pick<ServerUnaryCall<unknown, unknown>, "metadata" | "getPeer">): Caller {
  const { metadata } = call;
  return {
    peer: call.getPeer(),
    nodeId: field(metadata, "orrery-node"),
    headers: {
      authorization: `Ticket ${field(metadata, "orrery-ticket")}`,
      "orrery-generation": field(metadata, "orrery-generation"),
      "orrery-installation": field(metadata, "orrery-installation"),
      "orrery-epoch": field(metadata, "orrery-epoch"),
      "orrery-signature": field(metadata, "orrery-signature"),
    },
  };
}

export function isSameCaller(one: Caller, other: Caller): boolean {
  return one.nodeId === other.nodeId && one.headers.authorization === other.headers.authorization;
}

function field(metadata: Metadata, name: keyof typeof FIELDS): string {
  const values = metadata.get(name);
  const [value] = values;
  if (values.length === 1 && typeof value === "string" && FIELDS[name].test(value)) return value;
  throw new Refusal(status.INVALID_ARGUMENT, "invalid_request", `The call's metadata needs one valid ${name}.`);
}
