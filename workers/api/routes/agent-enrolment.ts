import { create, fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { z } from "@hono/zod-openapi";
import { DEFAULTS } from "../../../domain/defaults.ts";
import { OrreryError } from "../../../domain/errors.ts";
import { controlSigners } from "../../../domain/identity/control-key.ts";
import { type EnrolmentClaim, enrolmentAnswerMac, isEnrolmentMac } from "../../../domain/identity/enrolment.ts";
import type { EnrolmentOutcome } from "../../../durable-objects/node/contract.ts";
import { callNode } from "../../../durable-objects/shared/stubs.ts";
import { EnrollRequestSchema, EnrollResponseSchema } from "../../../proto/gen/orrery/agent/v1/gateway_pb.js";
import { assertAgent } from "../agent-credential.ts";
import { defineRoute, newRouter, PROTOBUF, protobufContent } from "../define-route.ts";
import { uuid } from "../fields.ts";

const enrol = defineRoute(
  {
    scope: "agent",
    errors: ["agent_unauthenticated", "node_not_found"],
    bodyLimitBytes: DEFAULTS.api.enrolmentBytes,
  },
  {
    method: "post",
    path: "/api/v1/agents/{nodeId}/enroll",
    tags: ["Agents"],
    summary: "Bind an installation's public keys to its node; the same request may be sent again",
    description:
      "The body proves itself by its MAC under the node token. A refusal is a 200 too: only what carries a MAC is believed.",
    security: [],
    request: {
      params: z.strictObject({ nodeId: uuid }),
      body: { required: true, content: protobufContent("orrery.agent.v1.EnrollRequest") },
    },
    responses: {
      200: { description: "Enrolled or refused.", content: protobufContent("orrery.agent.v1.EnrollResponse") },
    },
  },
);

/** Nothing reaches the node's object that was not made under the node's token; Postgres is not asked at all. */
export const agentEnrolmentRoutes = newRouter().openapi(enrol, async (c) => {
  const { nodeId } = c.req.valid("param");
  const { claim, mac } = parseRequest(nodeId, new Uint8Array(await c.req.arrayBuffer()));
  const nodeToken = await assertAgent(c, claim, (token) => isEnrolmentMac(token, claim, mac));
  const outcome = await callNode(c.env, nodeId, (node) => node.enroll(claim));
  const { MASTER_SECRET, CONTROL_KEY_VERSION } = c.get("config");
  const result = outcome.ok ? enrolled(MASTER_SECRET, CONTROL_KEY_VERSION) : refused(outcome);
  return c.body(signedAnswer(nodeToken, mac, result), 200, { "content-type": PROTOBUF });
});

const bytes = (length: number) =>
  z.instanceof(Uint8Array).refine((value) => value.length === length, `must be ${length} bytes`);

const requestSchema = z.object({
  nodeId: uuid,
  generation: z.int().min(1).max(999_999_999),
  installationId: uuid,
  signingKey: bytes(32),
  sealingKey: bytes(32),
  mac: bytes(32),
});

/** @throws invalid_request naming the fields that are wrong */
function parseRequest(nodeId: string, body: Uint8Array): { claim: EnrolmentClaim; mac: Uint8Array } {
  const { success, data, error } = requestSchema.safeParse(decode(body));
  if (!success) throw invalid(error.issues.map(({ path, message }) => ({ path: path.join("."), message })));
  if (data.nodeId !== nodeId) throw invalid([{ path: "nodeId", message: "must be the node of the path" }]);
  const { mac, ...claim } = data;
  return { claim, mac };
}

function decode(body: Uint8Array): unknown {
  try {
    return fromBinary(EnrollRequestSchema, body);
  } catch {
    throw invalid([{ path: "", message: "is not an EnrollRequest" }]);
  }
}

function invalid(issues: readonly { readonly path: string; readonly message: string }[]): OrreryError {
  return new OrreryError("invalid_request", "The enrolment is not valid.", {
    issues: issues.map((issue) => ({ in: "body", ...issue })),
  });
}

type Result = NonNullable<Exclude<MessageInitShape<typeof EnrollResponseSchema>, { $typeName: string }>["result"]>;

function enrolled(masterSecret: string, version: number): Result {
  const controlKeys = controlSigners(masterSecret, version).map(({ keyId, publicKey }) => ({ keyId, publicKey }));
  return { case: "enrolled", value: { controlKeys } };
}

function refused({ code, message, reconnectAfterMs }: Extract<EnrolmentOutcome, { ok: false }>): Result {
  return {
    case: "refused",
    value: { code, message, ...(reconnectAfterMs === null ? {} : { reconnectAfterMs }) },
  };
}

/** The answer with its MAC, which is made over the result alone and for this request. */
function signedAnswer(nodeToken: string, requestMac: Uint8Array, result: Result): Uint8Array<ArrayBuffer> {
  const answer = create(EnrollResponseSchema, { result });
  answer.mac = enrolmentAnswerMac(nodeToken, requestMac, toBinary(EnrollResponseSchema, answer));
  return toBinary(EnrollResponseSchema, answer);
}
