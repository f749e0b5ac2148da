import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { create } from "@bufbuild/protobuf";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { controlSigners } from "../../domain/identity/control-key.ts";
import { knockMessage } from "../../domain/identity/enrolment.ts";
import { isSignature } from "../../domain/identity/signature.ts";
import { CommandSchema, CommandType, FailureKind } from "../../proto/gen/orrery/agent/v1/gateway_pb.js";
import { MASTER_SECRET, TestHost, TOKEN } from "./support/agent-process.ts";
import { sendCommand } from "./support/commands.ts";
import { ControlPeer } from "./support/control-peer.ts";
import type { ControlMessageInit, ControlSide } from "./support/control-side.ts";

const thief = randomBytes(32);
let peer: ControlPeer;
let host: TestHost;

beforeEach(async () => {
  peer = await ControlPeer.start();
  host = new TestHost(peer.url);
});
afterEach(async () => {
  await host.destroy();
  await peer.close();
});

async function started(): Promise<void> {
  const known = peer.all("opening").length;
  host.start();
  await peer.session(known);
}

/** Tampers with the first frame of a kind that goes to the agent. */
function onFirst(
  kind: NonNullable<ControlMessageInit["body"]>["case"],
  change: (message: ControlMessageInit, side: ControlSide) => readonly ControlMessageInit[],
): void {
  let isDone = false;
  peer.onFrame = (message, side) => {
    if (isDone || message.body?.case !== kind) return [message];
    isDone = true;
    return change(message, side);
  };
}

/** The agent ends the session, names the reason in its log, and tells it in its next session. */
async function untilReported(code: string): Promise<void> {
  await peer.until(`a report of ${code}`, () => peer.all("tampering").some((report) => report.code === code));
  expect(peer.all("tampering")).toMatchObject([{ code, transport: "direct" }]);
  expect(host.output).toContain(`"code":"${code}"`);
}

function startCommand(id: string, type = CommandType.START) {
  return create(CommandSchema, { id, type, remainingTtlMs: 60_000n });
}

/** What the agent said of a command, apart from beats and the like. */
function saidOf(id: string): string[] {
  return [...peer.all("commandAcknowledged"), ...peer.all("commandFailed"), ...peer.all("commandCompleted")]
    .filter(({ commandId }) => commandId === id)
    .map(({ $typeName }) => $typeName);
}

describe("a session", () => {
  it("shows a ticket and the installation's signature at the door, and never the token", async () => {
    await started();
    const { authorization, "orrery-signature": signature, ...headers } = peer.headers[0] ?? {};
    expect(authorization).toMatch(/^Ticket [0-9a-f]{64}$/);
    expect([headers["orrery-generation"], headers["orrery-epoch"]]).toEqual(["1", "1"]);
    const [enrolled] = [...peer.state.enrolled.values()];
    if (enrolled === undefined || typeof signature !== "string") throw new Error("nothing was enrolled or signed");
    const { nodeId, generation, installationId, signingKey } = enrolled;
    const knock = knockMessage({ nodeId, generation, installationId, sessionEpoch: 1 });
    expect(isSignature(signingKey, knock, Buffer.from(signature, "hex"))).toBe(true);
    expect(JSON.stringify(peer.headers)).not.toContain(TOKEN);
  });

  it("is not begun by a challenge that no pinned key signed", async () => {
    onFirst("challenge", (_, side) => [side.signedChallenge(thief)]);
    await started();
    await untilReported("challenge_forged");
  });

  it("is not begun by a challenge for another Hello", async () => {
    await started();
    const earlier = peer.side.signedChallenge();
    onFirst("challenge", () => [earlier]);
    peer.cut();
    await untilReported("challenge_forged");
  });

  it("is not ended for good by a refusal that no pinned key signed", async () => {
    onFirst("challenge", (_, side) => [side.signedGoodbye({ code: "agent_revoked", message: "go away" }, thief)]);
    await started();
    await untilReported("goodbye_forged");
  });

  it("is not ended for good by a refusal that was meant for another Hello", async () => {
    await started();
    const earlier = peer.side.signedGoodbye({ code: "agent_revoked", message: "go away" });
    onFirst("challenge", () => [earlier]);
    peer.cut();
    await untilReported("goodbye_forged");
  });

  it("is refused for good by a signed refusal: the agent ends with code 4", async () => {
    peer.state.refusal = { code: "agent_revoked", message: "no longer yours" };
    host.start();
    expect(await host.exited()).toBe(4);
    expect(host.output).toContain("agent_revoked");
  });

  it("is held above the epoch that the edge has, at once, when the state directory is an old one", async () => {
    await started();
    const refusal = { code: "agent_conflict", message: "old epoch", reconnectAfterMs: 60_000, sessionEpoch: 41n };
    onFirst("challenge", (_, side) => [side.signedGoodbye(refusal)]);
    peer.cut();
    await peer.session(1);
    expect(peer.all("hello").map(({ sessionEpoch }) => sessionEpoch)).toEqual([1n, 2n, 42n]);
    expect(JSON.parse(readFileSync(join(host.stateDir, "session-epoch.json"), "utf8"))).toMatchObject({ epoch: 42 });
  });

  it("knocks at the door for ever when strangers turn it away", async () => {
    peer.isClosed = true;
    host.start();
    await peer.until("three tries", () => peer.connections >= 3);
    expect(host.output).toContain("refused with HTTP status 401 (agent_unauthenticated)");
    peer.isClosed = false;
    await peer.session();
  });

  it("is kept by an agent that is asked whether it is alive", async () => {
    await started();
    peer.send({ case: "probe", value: { question: 17 } });
    await peer.until("an answer", () => peer.all("alive").length === 1);
    expect(peer.all("alive")).toMatchObject([{ question: 17 }]);
    expect(peer.connections).toBe(1);
  });

  it("goes over to the next control key when the control plane has rotated it, twice", async () => {
    await started();
    for (const version of [2, 3]) {
      peer.state.signers = controlSigners(MASTER_SECRET, version);
      for (const _ of [1, 2]) {
        const known = peer.all("opening").length;
        peer.cut();
        await peer.session(known);
      }
      sendCommand(peer, { id: `after-${version}`, type: CommandType.STOP });
      expect(await peer.ended(`after-${version}`)).toBe("completed");
    }
    expect(peer.all("hello").at(-1)?.controlKeyIds).toEqual(["control-3", "control-2"]);
    const known = peer.all("opening").length;
    await host.kill("SIGKILL");
    host.start();
    await peer.session(known);
    expect(peer.all("hello").at(-1)?.controlKeyIds).toEqual(["control-3", "control-2"]);
  });
});

describe("a frame", () => {
  it("that was altered ends the session", async () => {
    await started();
    const frame = peer.side.seal({ case: "probe", value: {} });
    if (frame.body?.case !== "sealed") throw new Error("not sealed");
    peer.sendMessage({ body: { case: "sealed", value: { ...frame.body.value, body: randomBytes(4) } } });
    await untilReported("frame_forged");
    expect(peer.all("alive")).toEqual([]);
  });

  it("that comes twice ends the session", async () => {
    await started();
    onFirst("sealed", (message) => [message, message]);
    sendCommand(peer, { id: "stop", type: CommandType.STOP });
    await untilReported("frame_replayed");
    expect(saidOf("stop").filter((name) => name.endsWith("CommandCompleted")).length).toBeLessThanOrEqual(1);
  });

  it("before which another was left out ends the session, and has no effect", async () => {
    await started();
    onFirst("sealed", () => []);
    sendCommand(peer, { id: "left out", type: CommandType.STOP });
    sendCommand(peer, { id: "after it", type: CommandType.STOP });
    await untilReported("frame_out_of_order");
    expect(saidOf("after it")).toEqual([]);
  });

  it("of an earlier session ends the session", async () => {
    await started();
    const earlier = peer.side.seal({ case: "probe", value: {} });
    peer.cut();
    await peer.session(1);
    peer.sendMessage(earlier);
    await untilReported("frame_forged");
  });

  it("that is sealed before there is a session ends it", async () => {
    const sealed = { counter: 1n, body: randomBytes(4), mac: randomBytes(32) };
    onFirst("challenge", () => [{ body: { case: "sealed", value: sealed } }]);
    await started();
    await untilReported("frame_out_of_order");
  });
});

describe("a command", () => {
  it("that the control key did not sign ends the session, and never starts", async () => {
    await started();
    peer.send(peer.side.signedCommand(startCommand("forged", CommandType.UPGRADE), thief));
    await untilReported("command_forged");
    expect(saidOf("forged")).toEqual([]);
  });

  it("that was signed for an earlier session ends the session, and never starts", async () => {
    await started();
    const earlier = peer.side.signedCommand(startCommand("earlier"));
    peer.cut();
    await peer.session(1);
    peer.send(earlier);
    await untilReported("command_forged");
    expect(saidOf("earlier")).toEqual([]);
  });

  it("keeps its deadlines on a host whose clock is wrong by years", async () => {
    host.nodeFlags = ["--import", join(import.meta.dirname, "support/shifted-clock.ts")];
    await started();
    sendCommand(peer, { id: "in time", type: CommandType.STOP, ttlMs: 5_000 });
    sendCommand(peer, { id: "too late", type: CommandType.STOP, ttlMs: 0 });
    expect(await peer.ended("in time")).toBe("completed");
    expect(await peer.ended("too late")).toBe(`${FailureKind.EXPIRED} command_expired`);
    const years = Array.from(host.output.matchAll(/"time":"(\d+)-/g), ([, year]) => Number(year));
    expect(Math.max(...years)).toBeLessThan(new Date().getFullYear() - 5);
  });
});

describe("an agent's log and answers", () => {
  it("hold neither its token nor its secret keys", async () => {
    await started();
    onFirst("sealed", (message) => [message, message]);
    peer.send({ case: "probe", value: {} });
    await peer.session(1);
    const { signing_key, sealing_key } = JSON.parse(readFileSync(join(host.stateDir, "installation.json"), "utf8"));
    for (const secret of [TOKEN, signing_key, sealing_key]) {
      expect(host.output).not.toContain(secret);
      expect(host.output).not.toContain(Buffer.from(secret, "hex").toString("base64"));
    }
  });
});
