import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { status } from "@grpc/grpc-js";
import {
  type EnrollRequest,
  EnrollRequestSchema,
  type EnrollResponse,
  EnrollResponseSchema,
} from "../../proto/gen/orrery/agent/v1/gateway_pb.js";
import { edgeUnreachable, Refusal, refusalOf } from "./refusal.ts";

const ANSWER_BYTES = 16 * 1024;

/**
 * Passes an enrolment on to the edge. Both request and answer are authenticated under the node token, which is not ours.
 * @throws Refusal
 */
export async function passEnrolment(edgeUrl: string, request: EnrollRequest, openMs: number): Promise<EnrollResponse> {
  if (!/^[A-Za-z0-9-]{1,64}$/.test(request.nodeId)) {
    throw new Refusal(status.INVALID_ARGUMENT, "invalid_request", "node_id is not a node's id.");
  }
  const { httpStatus, body } = await ask(`${edgeUrl}/api/v1/agents/${request.nodeId}/enroll`, request, openMs);
  if (httpStatus !== 200) throw refusalOf(httpStatus, body);
  try {
    return fromBinary(EnrollResponseSchema, body);
  } catch {
    throw edgeUnreachable();
  }
}

async function ask(
  url: string,
  request: EnrollRequest,
  openMs: number,
): Promise<{ httpStatus: number; body: Uint8Array }> {
  try {
    const response = await fetch(url, {
      method: "POST",
      headers: { "content-type": "application/protobuf" },
      body: new Uint8Array(toBinary(EnrollRequestSchema, request)),
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
