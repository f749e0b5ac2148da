import { existsSync, mkdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { create } from "@bufbuild/protobuf";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { EnrollResponseSchema, GoodbyeSchema } from "../../proto/gen/orrery/agent/v1/gateway_pb.js";
import { TestHost } from "./support/agent-process.ts";
import { ControlPeer } from "./support/control-peer.ts";

let peer: ControlPeer;
let host: TestHost;

beforeEach(async () => {
  peer = await ControlPeer.start();
  host = new TestHost(peer.url);
});
afterEach(async () => {
  await host.destroy();
  await peer.close();
  expect(peer.state.offences).toEqual([]);
});

/** Does this to the first answer, and leaves the later ones alone. */
function onFirst(change: ControlPeer["onEnrolment"]): void {
  peer.onEnrolment = (answer) => (peer.enrolments === 1 ? change(answer) : answer);
}

function enrolled() {
  return [...peer.state.enrolled.values()];
}

describe("an enrolment", () => {
  it("comes before the first session, once, and its keys last over restarts", async () => {
    host.start();
    await peer.session();
    const file = join(host.stateDir, "installation.json");
    const keys = readFileSync(file, "utf8");
    expect(statSync(file).mode & 0o777).toBe(0o600);
    for (const signal of ["SIGKILL", "SIGTERM"] as const) {
      const known = peer.all("opening").length;
      await host.kill(signal);
      host.start();
      await peer.session(known);
    }
    expect(readFileSync(file, "utf8")).toBe(keys);
    expect(peer.enrolments).toBe(1);
    expect(enrolled()).toHaveLength(1);
    expect(enrolled()[0]?.signingKey).toHaveLength(32);
    expect(enrolled()[0]?.sealingKey).toHaveLength(32);
  });

  it("is asked for again with the same keys when its answer was lost, also by the next agent", async () => {
    peer.onEnrolment = () => "nothing";
    host.start();
    await peer.until("two enrolments", () => peer.enrolments >= 2);
    await host.kill("SIGKILL");
    const first = enrolled()[0];
    peer.onEnrolment = (answer) => answer;
    host.start();
    await peer.session();
    expect(enrolled()).toEqual([first]);
  });

  it("and the sessions after it need no disk that takes anything, once there are keys", async () => {
    for (const file of ["session-epoch.json", "enrolment.json", "control-keys.json"]) {
      mkdirSync(join(host.stateDir, `${file}.new`), { recursive: true });
    }
    host.start();
    await peer.session();
    for (const session of [1, 2]) {
      peer.cut();
      await peer.session(session);
    }
    expect(peer.all("hello").map(({ sessionEpoch }) => sessionEpoch)).toEqual([1n, 2n, 3n]);
    expect(peer.enrolments).toBe(1);
    expect(existsSync(join(host.stateDir, "session-epoch.json"))).toBe(false);
    const failures = host.output.split("\n").filter((line) => line.includes("it is remembered until the agent ends"));
    expect(failures.filter((line) => line.includes("session-epoch.json"))).toHaveLength(1);
  });

  it("of a wrong token goes on being asked for: who refuses it may be anybody", async () => {
    peer.onEnrolment = () => null;
    host.start();
    await peer.until("three enrolments", () => peer.enrolments >= 3);
    expect(host.output).toContain("agent_unauthenticated");
    peer.onEnrolment = (answer) => answer;
    await peer.session();
  });

  it("that the control plane refuses for good ends the agent with code 4, and its log names the reason", async () => {
    peer.state.enrolmentRefusal = { code: "agent_conflict", message: "other keys are enrolled" };
    host.start();
    expect(await host.exited()).toBe(4);
    expect(host.output).toContain("agent_conflict");
    expect(peer.connections).toBe(0);
  });

  it("that the control plane refuses for a while is asked for again", async () => {
    peer.state.enrolmentRefusal = { code: "agent_conflict", message: "not yet", reconnectAfterMs: 100 };
    host.start();
    await peer.until("two enrolments", () => peer.enrolments >= 2);
    peer.state.enrolmentRefusal = null;
    await peer.session();
  });

  it("whose answer somebody made up is not believed, and the next session tells of it", async () => {
    onFirst((answer) => (answer === null ? null : { ...answer, mac: new Uint8Array(32) }));
    host.start();
    await peer.until("a report", () => peer.all("tampering").length === 1);
    expect(peer.all("tampering")).toMatchObject([{ code: "enrolment_forged", transport: "direct" }]);
    expect(peer.enrolments).toBe(2);
  });

  it("that somebody refuses in the control plane's name does not end the agent", async () => {
    onFirst(() => {
      const value = create(GoodbyeSchema, { code: "agent_revoked", message: "go away" });
      return create(EnrollResponseSchema, { result: { case: "refused", value }, mac: new Uint8Array(32) });
    });
    host.start();
    await peer.until("a report", () => peer.all("tampering").some(({ code }) => code === "enrolment_forged"));
  });

  it("is repeated when the control plane does not know the keys any more", async () => {
    host.start();
    await peer.session();
    peer.state.refusal = { code: "agent_not_enrolled", message: "who are you?", reconnectAfterMs: 10 };
    peer.cut();
    await peer.until("another enrolment", () => peer.enrolments === 2);
    peer.state.refusal = null;
    await peer.session(1);
  });

  it("is another one for another generation of the node", async () => {
    host.start();
    await peer.session();
    await host.kill("SIGTERM");
    host.start("--generation", "2");
    await peer.session(1);
    expect(peer.enrolments).toBe(2);
    expect(enrolled().at(-1)?.generation).toBe(2);
  });

  it("of a rebuilt disk is one with other keys", async () => {
    host.start();
    await peer.session();
    await host.kill("SIGKILL");
    rmSync(host.stateDir, { recursive: true });
    host.start();
    await peer.session(1);
    expect(new Set(enrolled().map(({ installationId }) => installationId)).size).toBe(2);
  });

  it("is asked for when the keys were lost, though an earlier one is remembered", async () => {
    host.start();
    await peer.session();
    await host.kill("SIGKILL");
    rmSync(join(host.stateDir, "installation.json"));
    peer.state.enrolmentRefusal = { code: "agent_conflict", message: "others", reconnectAfterMs: 100 };
    host.start();
    await peer.until("two enrolments", () => peer.enrolments >= 2);
    expect(peer.connections).toBe(1);
  });

  it("tells an agent that pins no control key which to believe", async () => {
    await host.destroy();
    host = new TestHost(peer.url, { control_keys: [] });
    host.start();
    await peer.session();
    expect(peer.all("hello").at(-1)?.controlKeyIds).toEqual(["control-1"]);
  });
});
