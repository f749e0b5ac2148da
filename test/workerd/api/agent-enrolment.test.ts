import { env, exports } from "cloudflare:workers";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { bytesToHex } from "@noble/hashes/utils.js";
import { uuidv7 } from "uuidv7";
import { beforeEach, describe, it, vi } from "vitest";
import { deriveNodeToken } from "../../../domain/auth/node-token.ts";
import { controlSigners } from "../../../domain/identity/control-key.ts";
import { type EnrolmentClaim, enrolmentMac } from "../../../domain/identity/enrolment.ts";
import { enrolmentResult } from "../../../ops-agent/session/enrol.ts";
import {
  type EnrollRequest,
  EnrollRequestSchema,
  type EnrollResponse,
  EnrollResponseSchema,
} from "../../../proto/gen/orrery/agent/v1/gateway_pb.js";
import { createApp } from "../../../workers/api/app.ts";
import { TEST_SECRETS } from "../bindings.ts";
import { TestIdentity } from "../durable-objects/test-identity.ts";
import { muteQueue, TestNode } from "../durable-objects/test-node.ts";

beforeEach(() => {
  vi.restoreAllMocks();
  muteQueue();
});

const app = createApp();

/** A request of this claim, under the token of the node and generation that it names unless the test says otherwise. */
async function requestFor(claim: EnrolmentClaim, part: Partial<EnrollRequest> = {}): Promise<EnrollRequest> {
  const token = await tokenOf(claim);
  return create(EnrollRequestSchema, { ...claim, mac: enrolmentMac(token, claim), ...part });
}

function tokenOf({ nodeId, generation }: Pick<EnrolmentClaim, "nodeId" | "generation">): Promise<string> {
  return deriveNodeToken(TEST_SECRETS.MASTER_SECRET, nodeId, generation);
}

interface Sending {
  readonly path?: string;
  readonly body?: BodyInit;
  readonly contentType?: string;
  /** Bindings of the test's own in place of the real ones. */
  readonly bindings?: Readonly<Record<string, unknown>>;
}

async function send(request: EnrollRequest, sending: Sending = {}): Promise<Response> {
  const { path = request.nodeId, contentType = "application/protobuf", bindings } = sending;
  const body = sending.body ?? new Uint8Array(toBinary(EnrollRequestSchema, request));
  const http = new Request(`http://orrery.test/api/v1/agents/${path}/enroll`, {
    method: "POST",
    headers: { "content-type": contentType },
    body,
  });
  return bindings === undefined ? exports.default.fetch(http) : app.fetch(http, { ...env, ...bindings });
}

/** What an agent believes of an answer. */
async function believed(request: EnrollRequest, response: Response): Promise<EnrollResponse["result"]> {
  if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`);
  const answer = fromBinary(EnrollResponseSchema, new Uint8Array(await response.arrayBuffer()));
  return enrolmentResult(await tokenOf(request), request, answer);
}

async function enrol(claim: EnrolmentClaim, sending: Sending = {}): Promise<EnrollResponse["result"]> {
  const request = await requestFor(claim);
  return believed(request, await send(request, sending));
}

async function problem(response: Response) {
  const { code, issues }: { code?: unknown; issues?: unknown } = Object(await response.json());
  return { status: response.status, code, issues };
}

describe("an enrolment", () => {
  it("binds an installation's keys, and hands out the control keys in an answer that only we can give", async ({
    expect,
  }) => {
    const node = await TestNode.born();
    const claim = new TestIdentity().claim(node.nodeId);
    const result = await enrol(claim);
    const [key] = controlSigners(TEST_SECRETS.MASTER_SECRET, 1);
    expect(result).toMatchObject({
      case: "enrolled",
      value: { controlKeys: [{ keyId: "control-1", publicKey: key?.publicKey }] },
    });
    expect((await node.stub.view()).installations).toEqual([
      expect.objectContaining({
        installationId: claim.installationId,
        signingKey: bytesToHex(claim.signingKey),
        sealingKey: bytesToHex(claim.sealingKey),
      }),
    ]);
  });

  it("hands out the key before the last rotation too, and no older one", async ({ expect }) => {
    const node = await TestNode.born();
    const request = await requestFor(new TestIdentity().claim(node.nodeId));
    const result = await believed(request, await send(request, { bindings: { CONTROL_KEY_VERSION: "3" } }));
    expect(result.case === "enrolled" ? result.value.controlKeys.map(({ keyId }) => keyId) : result).toEqual([
      "control-3",
      "control-2",
    ]);
  });

  it("whose answer was lost is asked again and answered the same", async ({ expect }) => {
    const node = await TestNode.born();
    const request = await requestFor(new TestIdentity().claim(node.nodeId));
    const first = await (await send(request)).bytes();
    const again = await (await send(request)).bytes();
    expect(again).toEqual(first);
    expect(await node.eventsOf("agent_enrolled")).toHaveLength(1);
  });

  it("with other keys or another installation is refused in an answer that only we can give", async ({ expect }) => {
    const node = await TestNode.born();
    const own = new TestIdentity();
    await enrol(own.claim(node.nodeId));
    const thieves = [new TestIdentity(own.installationId, "other keys"), new TestIdentity(uuidv7())];
    for (const thief of thieves) {
      const result = await enrol(thief.claim(node.nodeId));
      expect(result).toMatchObject({ case: "refused", value: { code: "agent_conflict" } });
    }
    expect(await node.eventsOf("agent_refused")).toEqual([expect.objectContaining({ code: "agent_conflict" })]);
    expect(await enrol(own.claim(node.nodeId))).toMatchObject({ case: "enrolled" });
  });

  it("sent many times at once with the same keys succeeds each time", async ({ expect }) => {
    const node = await TestNode.born();
    const claim = new TestIdentity().claim(node.nodeId);
    const results = await Promise.all(Array.from({ length: 8 }, () => enrol(claim)));
    expect(new Set(results.map((result) => result.case))).toEqual(new Set(["enrolled"]));
    expect(await node.eventsOf("agent_enrolled")).toHaveLength(1);
  });

  it("of many installations at once binds exactly one", async ({ expect }) => {
    const node = await TestNode.born();
    const claims = Array.from({ length: 8 }, () => new TestIdentity(uuidv7()).claim(node.nodeId));
    const results = await Promise.all(claims.map((claim) => enrol(claim)));
    const winners = claims.filter((_claim, index) => results[index]?.case === "enrolled");
    expect(winners).toHaveLength(1);
    const [installation] = (await node.stub.view()).installations;
    expect(installation?.installationId).toBe(winners[0]?.installationId);
  });

  it("of a node that has ended is refused for good", async ({ expect }) => {
    const node = await TestNode.syncing();
    await node.stub.transition("terminating", "terminate_saga", null);
    await node.stub.transition("terminated", "terminate_saga", null);
    const result = await enrol(new TestIdentity().claim(node.nodeId));
    expect(result).toMatchObject({ case: "refused", value: { code: "agent_revoked" } });
    expect(result.case === "refused" && result.value.reconnectAfterMs).toBeUndefined();
  });

  it("of a node that is not there is a problem, which keeps no agent away", async ({ expect }) => {
    const request = await requestFor(new TestIdentity().claim(uuidv7()));
    expect(await problem(await send(request))).toMatchObject({ status: 404, code: "node_not_found" });
  });

  it("needs no Postgres", async ({ expect }) => {
    const node = await TestNode.born();
    const bindings = { DATABASE_WS_PROXY: "127.0.0.1:9/v1" };
    expect(await enrol(new TestIdentity().claim(node.nodeId), { bindings })).toMatchObject({ case: "enrolled" });
  });

  it("that was not made under the node's token is refused, and its node hears nothing of it", async ({ expect }) => {
    const identity = new TestIdentity();
    const nodeId = uuidv7();
    const claim = identity.claim(nodeId);
    const own = await requestFor(claim);
    const lastBitFlipped = Uint8Array.from(own.mac, (byte, index) => (index === 31 ? byte ^ 1 : byte));
    const requests = [
      await requestFor(claim, { mac: lastBitFlipped }),
      await requestFor(claim, { mac: new Uint8Array(32) }),
      await requestFor(claim, { mac: (await requestFor(identity.claim(uuidv7()))).mac }),
      await requestFor(claim, { mac: (await requestFor(identity.claim(nodeId, 2))).mac }),
      create(EnrollRequestSchema, { ...own, generation: 2 }),
      create(EnrollRequestSchema, { ...own, installationId: uuidv7() }),
      create(EnrollRequestSchema, { ...own, signingKey: own.sealingKey }),
      create(EnrollRequestSchema, { ...own, sealingKey: own.signingKey }),
    ];
    const reached = vi.fn();
    for (const request of requests) {
      const response = await send(request, { bindings: { NODE: { getByName: reached } } });
      expect(response.headers.get("www-authenticate")).toBe("Ticket");
      expect(await problem(response)).toMatchObject({ status: 401, code: "agent_unauthenticated" });
    }
    expect(reached).not.toHaveBeenCalled();
  });

  it("is counted for its node and address when its MAC is right, else against its address", async ({ expect }) => {
    const limit = vi.fn(async (_options: { key: string }) => ({ success: false }));
    const bindings = { API_RATE_LIMITER: { limit } };
    const claim = new TestIdentity().claim(uuidv7());
    const responses = [
      await send(await requestFor(claim), { bindings }),
      await send(await requestFor(claim, { mac: new Uint8Array(32) }), { bindings }),
    ];
    expect(responses.map(({ status }) => status)).toEqual([429, 429]);
    expect(limit.mock.calls.map(([{ key }]) => key)).toEqual([
      `dev:node:${claim.nodeId}:1:enrolment:address:unknown`,
      "dev:address:unknown",
    ]);
  });
});

describe("a malformed enrolment", () => {
  const identity = new TestIdentity();
  const nodeId = uuidv7();
  const well = identity.claim(nodeId);

  const fields: { name: string; part: Partial<EnrolmentClaim> & { mac?: Uint8Array }; field: string }[] = [
    { name: "no installation id", part: { installationId: "" }, field: "installationId" },
    { name: "an installation id that is no UUID", part: { installationId: "me" }, field: "installationId" },
    { name: "a generation of 0", part: { generation: 0 }, field: "generation" },
    { name: "a generation that no host can have", part: { generation: 4_294_967_295 }, field: "generation" },
    { name: "no signing key", part: { signingKey: new Uint8Array() }, field: "signingKey" },
    { name: "a short signing key", part: { signingKey: new Uint8Array(31) }, field: "signingKey" },
    { name: "a long signing key", part: { signingKey: new Uint8Array(33) }, field: "signingKey" },
    { name: "a short sealing key", part: { sealingKey: new Uint8Array(31) }, field: "sealingKey" },
    { name: "a long sealing key", part: { sealingKey: new Uint8Array(64) }, field: "sealingKey" },
    { name: "no MAC", part: { mac: new Uint8Array() }, field: "mac" },
    { name: "half a MAC", part: { mac: new Uint8Array(16) }, field: "mac" },
  ];

  it.for(fields)("names the field: $name", async ({ part, field }, { expect }) => {
    const { mac, ...claimed } = part;
    const request = await requestFor({ ...well, ...claimed }, mac === undefined ? {} : { mac });
    const response = await send(request, { path: nodeId });
    expect(await problem(response)).toEqual({
      status: 400,
      code: "invalid_request",
      issues: [expect.objectContaining({ in: "body", path: field })],
    });
  });

  it("is one whose node is not the path's", async ({ expect }) => {
    for (const other of [uuidv7(), "", "no-uuid"]) {
      const request = await requestFor({ ...well, nodeId: other });
      expect(await problem(await send(request, { path: nodeId }))).toEqual({
        status: 400,
        code: "invalid_request",
        issues: [expect.objectContaining({ path: "nodeId" })],
      });
    }
    expect(await problem(await send(await requestFor(well), { path: "no-uuid" }))).toMatchObject({ status: 400 });
  });

  it("is one that is no message, cut off, or empty", async ({ expect }) => {
    const request = await requestFor(well);
    const whole = toBinary(EnrollRequestSchema, request);
    const bodies = [new Uint8Array(), new Uint8Array(200).fill(0xff), new Uint8Array(whole.slice(0, -7)), "{}"];
    for (const body of bodies) {
      expect(await problem(await send(request, { body }))).toMatchObject({ status: 400, code: "invalid_request" });
    }
  });

  it("is one that is sent as anything but protobuf", async ({ expect }) => {
    for (const contentType of ["application/json", "text/plain", "application/protobuffer", ""]) {
      const response = await send(await requestFor(well), { contentType });
      expect(await problem(response)).toMatchObject({ status: 415, code: "unsupported_media_type" });
    }
  });

  it("is one beyond 4 KiB, whether or not it says how long it is", async ({ expect }) => {
    const request = await requestFor(well);
    const bodies = [new Uint8Array(4_097), new Blob([new Uint8Array(100_000)]).stream()];
    for (const body of bodies) {
      expect(await problem(await send(request, { body }))).toMatchObject({ status: 413, code: "body_too_large" });
    }
  });
});
