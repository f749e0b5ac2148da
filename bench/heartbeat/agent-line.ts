import { randomBytes } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import { enrolmentRequest, enrolmentResult } from "../../ops-agent/session/enrol.ts";
import { Handshake } from "../../ops-agent/session/handshake.ts";
import { SealedChannel } from "../../ops-agent/session/sealing.ts";
import { type Transport, ticketFor, type Way } from "../../ops-agent/transport/way.ts";
import { AGENT_VERSION } from "../../ops-agent/version.ts";
import { StatusSchema, SyncStatus } from "../../proto/gen/orrery/agent/v1/gateway_pb.js";
import type { ExpectedAgent, Installation } from "../fleet/installation.ts";
import type { Line } from "./lines.ts";

const SYNCED = create(StatusSchema, { syncStatus: SyncStatus.SYNCED });

/**
 * An agent's session up to its Welcome, enrolment and handshake as the agent does them; from there on it beats only when
 * the bench says so, where an agent beats by its own timer.
 */
export async function agentLine(way: Way, node: ExpectedAgent, { identity, trust }: Installation): Promise<Line> {
  await enrol(way, node, identity);
  const { nodeId, generation, nodeToken } = node;
  const subject = { nodeId, generation, installationId: identity.installationId, sessionEpoch: identity.raiseEpoch() };
  const secretKey = randomBytes(32);
  const handshake = new Handshake({ identity, controlKeys: trust.controlKeys(), subject, secretKey });
  const { promise: welcomed, resolve, reject } = Promise.withResolvers<void>();
  const line: Line = {
    beat: () => transport.send({ body: { case: "ping", value: {} } }),
    onAnswer: () => undefined,
    close: () => transport.abort(),
  };
  let channel: SealedChannel | null = null;
  const ticket = ticketFor(nodeToken, subject, (message) => identity.sign(message));
  const transport: Transport = way.open(ticket, {
    onMessage: ({ body }) => {
      if (body.case === "pong") line.onAnswer();
      else if (body.case === "challenge") {
        const opening = { agentVersion: AGENT_VERSION, runningCommandIds: [], status: SYNCED };
        const proven = handshake.prove(body.value, opening);
        channel = new SealedChannel(proven.keys);
        transport.send({ body: { case: "proof", value: { opening: proven.opening, signature: proven.signature } } });
      } else if (body.case === "sealed" && channel?.open(body.value)?.case === "welcome") resolve();
      else reject(new Error(`The session of node ${nodeId} began with a ${body.case} that nobody expected.`));
    },
    onEnd: ({ reason }) => reject(new Error(`The session of node ${nodeId} ended: ${reason}.`)),
  });
  transport.send({ body: { case: "hello", value: handshake.hello } });
  await welcomed;
  return line;
}

async function enrol(way: Way, node: ExpectedAgent, identity: Installation["identity"]): Promise<void> {
  const { nodeToken, ...subject } = node;
  const { installationId, signingKey, sealingKey } = identity;
  const request = enrolmentRequest(nodeToken, { ...subject, installationId, signingKey, sealingKey });
  const answer = await way.enrol(request, AbortSignal.timeout(30_000));
  const { case: outcome } = enrolmentResult(nodeToken, request, answer);
  if (outcome !== "enrolled") throw new Error(`The agent of node ${node.nodeId} was ${outcome}.`);
}
