import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { status } from "@grpc/grpc-js";
import { DEFAULTS } from "../../domain/defaults.ts";
import {
  type EnrollRequest,
  EnrollRequestSchema,
  type EnrollResponse,
  EnrollResponseSchema,
} from "../../proto/gen/orrery/agent/v1/gateway_pb.js";
import { edgeUnreachable, Refusal, refusalOf } from "./refusal.ts";
import type { Sessions } from "./sessions.ts";
import type { BridgeLimits } from "./settings.ts";

const ANSWER_BYTES = 16 * 1024;

/**
 * Passes enrolments on to the edge. Both request and answer are authenticated under the node token, which is not ours;
 * so anyone may ask, and only so many are under way at once.
 */
export class Enrolments {
  readonly #edgeUrl: string;
  readonly #limits: BridgeLimits;
  readonly #sessions: Sessions;
  #underWay = 0;

  constructor(edgeUrl: string, limits: BridgeLimits, sessions: Sessions) {
    this.#edgeUrl = edgeUrl;
    this.#limits = limits;
    this.#sessions = sessions;
  }

  /** @throws Refusal */
  async pass(request: EnrollRequest): Promise<EnrollResponse> {
    this.#sessions.requireNotDraining();
    if (this.#underWay >= this.#limits.enrolments) throw new Refusal(status.RESOURCE_EXHAUSTED, "bridge_overloaded");
    this.#underWay += 1;
    try {
      return await this.#ask(request);
    } finally {
      this.#underWay -= 1;
    }
  }

  async #ask(request: EnrollRequest): Promise<EnrollResponse> {
    if (!/^[A-Za-z0-9-]{1,64}$/.test(request.nodeId)) {
      throw new Refusal(status.INVALID_ARGUMENT, "invalid_request", "node_id is not a node's id.");
    }
    const bytes = new Uint8Array(toBinary(EnrollRequestSchema, request));
    if (bytes.byteLength > DEFAULTS.api.enrolmentBytes) throw new Refusal(status.INVALID_ARGUMENT, "body_too_large");
    const url = `${this.#edgeUrl}/api/v1/agents/${request.nodeId}/enroll`;
    const { httpStatus, body } = await post(url, bytes, this.#limits.openMs);
    if (httpStatus !== 200) throw refusalOf(httpStatus, body);
    try {
      return fromBinary(EnrollResponseSchema, body);
    } catch {
      throw edgeUnreachable();
    }
  }
}

async function post(url: string, body: Uint8Array<ArrayBuffer>, openMs: number) {
  try {
    const response = await fetch(url, {
      method: "POST",
      headers: { "content-type": "application/protobuf" },
      body,
      redirect: "error",
      signal: AbortSignal.timeout(openMs),
    });
    return { httpStatus: response.status, body: await readAtMost(response, ANSWER_BYTES) };
  } catch {
    throw edgeUnreachable();
  }
}

async function readAtMost(response: Response, limit: number): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of response.body ?? []) {
    bytes += chunk.length;
    if (bytes > limit) throw new RangeError("the answer is too long");
    chunks.push(chunk);
  }
  return new Uint8Array(Buffer.concat(chunks));
}
