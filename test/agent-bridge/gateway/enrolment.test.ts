import { create, toBinary } from "@bufbuild/protobuf";
import { status } from "@grpc/grpc-js";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  EnrollRequestSchema,
  type EnrollResponse,
  EnrollResponseSchema,
} from "../../../proto/gen/orrery/agent/v1/gateway_pb.js";
import { codeIn, enrol, failureOf } from "./support/clients.ts";
import { FakeEdge, problem } from "./support/fake-edge.ts";
import { TestBridge } from "./support/test-bridge.ts";

let edge: FakeEdge;
let bridge: TestBridge;

beforeEach(async () => {
  edge = await FakeEdge.start();
  bridge = await TestBridge.start(edge.url, { limits: { openMs: 300 } });
});
afterEach(async () => {
  await bridge[Symbol.asyncDispose]();
  await edge[Symbol.asyncDispose]();
});

const REQUEST = create(EnrollRequestSchema, {
  nodeId: "node-1",
  generation: 2,
  installationId: "installation-1",
  signingKey: new Uint8Array(32).fill(1),
  sealingKey: new Uint8Array(32).fill(2),
  mac: new Uint8Array(32).fill(3),
});

function answers(...responses: EnrollResponse[]): EnrollResponse[] {
  return responses;
}

describe("an enrolment", () => {
  it("goes to the node's address at the edge with the bytes that its MAC covers", async () => {
    edge.enrolment = { status: 200, body: toBinary(EnrollResponseSchema, create(EnrollResponseSchema)) };
    await enrol(bridge.url, REQUEST);
    expect(edge.enrolments).toEqual([
      {
        path: "/api/v1/agents/node-1/enroll",
        contentType: "application/protobuf",
        body: toBinary(EnrollRequestSchema, REQUEST),
      },
    ]);
  });

  it.each(
    answers(
      create(EnrollResponseSchema, {
        result: {
          case: "enrolled",
          value: { controlKeys: [{ keyId: "key-1", publicKey: new Uint8Array(32).fill(4) }] },
        },
        mac: new Uint8Array(32).fill(5),
      }),
      create(EnrollResponseSchema, {
        result: { case: "refused", value: { code: "agent_conflict", message: "Another installation holds it." } },
        mac: new Uint8Array(32).fill(6),
      }),
    ),
  )("is answered as the edge answers it: $result.case", async (answer) => {
    edge.enrolment = { status: 200, body: toBinary(EnrollResponseSchema, answer) };
    expect(await enrol(bridge.url, REQUEST)).toEqual(answer);
  });

  it.each([
    [401, "agent_unauthenticated", status.UNAUTHENTICATED],
    [404, "node_not_found", status.NOT_FOUND],
    [413, "body_too_large", status.INVALID_ARGUMENT],
    [429, "rate_limited", status.RESOURCE_EXHAUSTED],
    [503, "database_unavailable", status.UNAVAILABLE],
  ])("that the edge refuses with %i %s fails with that code", async (httpStatus, code, expected) => {
    edge.enrolment = { status: httpStatus, body: problem(code) };
    const failure = await failureOf(enrol(bridge.url, REQUEST));
    expect([failure.code, codeIn(failure)]).toEqual([expected, code]);
  });

  it.each([
    ["no message", { status: 200, body: new Uint8Array([0xff, 0xff]) }],
    ["more than an answer can be", { status: 200, body: new Uint8Array(20_000) }],
    ["a page of something else", { status: 502, body: "<html>Bad gateway</html>" }],
  ])("fails as unreachable when the edge answers %s", async (_what, answer) => {
    edge.enrolment = answer;
    const failure = await failureOf(enrol(bridge.url, REQUEST));
    expect([failure.code, codeIn(failure)]).toEqual([status.UNAVAILABLE, "edge_unreachable"]);
  });

  it("fails as unreachable when the edge is silent, and when it is not there", async () => {
    edge.isAnswering = false;
    const silent = await failureOf(enrol(bridge.url, REQUEST));
    expect([silent.code, codeIn(silent)]).toEqual([status.UNAVAILABLE, "edge_unreachable"]);
    await edge.stop();
    const gone = await failureOf(enrol(bridge.url, REQUEST));
    expect([gone.code, codeIn(gone)]).toEqual([status.UNAVAILABLE, "edge_unreachable"]);
  });

  it.each(["", "../admin/api-keys?", "a/b", "x".repeat(65)])(
    "never goes to another address of the edge: node %j",
    async (nodeId) => {
      const failure = await failureOf(enrol(bridge.url, create(EnrollRequestSchema, { ...REQUEST, nodeId })));
      expect([failure.code, codeIn(failure)]).toEqual([status.INVALID_ARGUMENT, "invalid_request"]);
      expect(edge.enrolments).toEqual([]);
    },
  );
});
