import { randomBytes } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, rmdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pino } from "pino";
import { describe, expect, it, onTestFinished } from "vitest";
import { errorCodeOf } from "../../domain/errors.ts";
import { createLog } from "../../ops-agent/log.ts";
import { AgentIdentity } from "../../ops-agent/state/identity.ts";
import { lockDirectory } from "../../ops-agent/state/lock.ts";
import { testDirectory } from "./support/directory.ts";

const ID = "11111111-2222-4333-8444-555555555555";
const OTHER_ID = "22222222-2222-4333-8444-555555555555";
const THIRD_ID = "33333333-2222-4333-8444-555555555555";
const MAKE = { generation: 1, newId: () => ID, newKey: () => randomBytes(32) };
const LOG = createLog("silent", {});

function open(directory: string, make = MAKE): AgentIdentity {
  return new AgentIdentity(directory, make, LOG);
}

function codeOf(action: () => unknown): string | null {
  try {
    action();
    return null;
  } catch (error) {
    return errorCodeOf(error);
  }
}

describe("the agent's identity", () => {
  it("is made once", () => {
    const directory = testDirectory();
    expect(open(directory).installationId).toBe(ID);
    expect(open(directory, { ...MAKE, newId: () => OTHER_ID }).installationId).toBe(ID);
  });

  it("raises the epoch for every attempt, and has it on disk before the attempt", () => {
    const directory = testDirectory();
    const identity = open(directory);
    expect([identity.raiseEpoch(), identity.raiseEpoch()]).toEqual([1, 2]);
    expect(epochOnDisk(directory)).toEqual({ installation_id: ID, epoch: 2 });
    expect(open(directory).raiseEpoch()).toBe(3);
  });

  it("raises the epoch also while the disk takes nothing, and goes on above what it was told after that", () => {
    const directory = testDirectory();
    const identity = open(directory);
    identity.raiseEpoch();
    mkdirSync(join(directory, "session-epoch.json.new"));
    expect([identity.raiseEpoch(), identity.raiseEpoch()]).toEqual([2, 3]);
    expect(epochOnDisk(directory)).toMatchObject({ epoch: 1 });
    expect(identity.continueAbove(9n)).toBe(true);
    expect(identity.raiseEpoch()).toBe(10);
  });

  it("says once that the disk takes no epoch, and once more when it failed again", () => {
    const directory = testDirectory();
    const said: string[] = [];
    const log = pino({ level: "error" }, { write: (line) => void said.push(line) });
    const identity = new AgentIdentity(directory, MAKE, log);
    for (const times of [1, 2]) {
      mkdirSync(join(directory, "session-epoch.json.new"));
      for (let attempt = 0; attempt < 5; attempt += 1) identity.raiseEpoch();
      expect(said).toHaveLength(times);
      expect(said.at(-1)).toContain("session-epoch.json");
      rmdirSync(join(directory, "session-epoch.json.new"));
      identity.raiseEpoch();
      expect(open(directory).raiseEpoch()).toBe(times * 6 + 1);
      writeFileSync(join(directory, "session-epoch.json"), JSON.stringify({ installation_id: ID, epoch: times * 6 }));
    }
  });

  it("is not guessed when what is stored cannot be read", () => {
    const directory = testDirectory();
    open(directory).raiseEpoch();
    writeFileSync(join(directory, "session-epoch.json"), "many");
    expect(codeOf(() => open(directory))).toBe("configuration_invalid");
    writeFileSync(join(directory, "session-epoch.json"), JSON.stringify({ installation_id: ID, epoch: 2 }));
    writeFileSync(join(directory, "installation.json"), "{}");
    expect(codeOf(() => open(directory))).toBe("configuration_invalid");
  });

  it("is another under a later generation: new id, new keys, no epoch, and nothing left of the old secrets", () => {
    const directory = testDirectory();
    const first = open(directory);
    first.raiseEpoch();
    const before = readFileSync(join(directory, "installation.json"), "utf8");
    const second = open(directory, { ...MAKE, generation: 2, newId: () => OTHER_ID });
    expect(second.installationId).toBe(OTHER_ID);
    expect(Buffer.from(second.signingKey)).not.toEqual(Buffer.from(first.signingKey));
    expect(Buffer.from(second.sealingKey)).not.toEqual(Buffer.from(first.sealingKey));
    expect(second.raiseEpoch()).toBe(1);
    const left = readdirSync(directory).map((name) => readFileSync(join(directory, name), "utf8"));
    const secrets = before.match(/[0-9a-f]{64}/g) ?? [];
    expect(secrets).toHaveLength(2);
    for (const secret of secrets) expect(left.join()).not.toContain(secret);
  });

  it("never takes an epoch over to another installation, wherever a crash came between", () => {
    const directory = testDirectory();
    open(directory).continueAbove(41n);
    // The new installation is on the disk, and its epoch not yet.
    open(directory, { ...MAKE, generation: 2, newId: () => OTHER_ID });
    expect(open(directory, { ...MAKE, generation: 2 }).raiseEpoch()).toBe(1);
  });

  it("is whole after a crash at any moment of its change: the old or the new, each with its own epoch", () => {
    const texts = { old: filesOf(1, 41), new: filesOf(2, 1) };
    // A rename is what makes each file the new one; what was written of it before that lies beside.
    const half = (text: string) => text.slice(0, text.length / 2);
    const moments: Record<string, string>[] = [
      texts.old,
      { ...texts.old, "installation.json.new": half(texts.new["installation.json"]) },
      { ...texts.old, "installation.json.new": texts.new["installation.json"] },
      { ...texts.old, "installation.json": texts.new["installation.json"] },
      {
        ...texts.old,
        "installation.json": texts.new["installation.json"],
        "session-epoch.json.new": half(texts.new["session-epoch.json"]),
      },
      texts.new,
    ];
    for (const [moment, files] of moments.entries()) {
      const directory = testDirectory();
      for (const [name, text] of Object.entries(files)) writeFileSync(join(directory, name), text);
      const isNew = moment >= 3;
      const make = { ...MAKE, generation: 2, newId: () => THIRD_ID };
      const identity = open(directory, make);
      expect([moment, identity.installationId]).toEqual([moment, isNew ? OTHER_ID : THIRD_ID]);
      expect([moment, identity.raiseEpoch()]).toEqual([moment, moment === 5 ? 2 : 1]);
      expect(open(directory, make).installationId).toBe(identity.installationId);
      const left = readdirSync(directory).map((name) => readFileSync(join(directory, name), "utf8"));
      expect(left.join()).not.toContain(secretOf(1));
    }
  });

  it("does not go back to an earlier generation", () => {
    const directory = testDirectory();
    open(directory, { ...MAKE, generation: 3 });
    expect(codeOf(() => open(directory, { ...MAKE, generation: 2 }))).toBe("configuration_invalid");
    expect(open(directory, { ...MAKE, generation: 3 }).installationId).toBe(ID);
  });
});

function secretOf(generation: number): string {
  return `${generation}`.repeat(64);
}

/** What an agent of this generation keeps. */
function filesOf(generation: 1 | 2, epoch: number) {
  const installation_id = generation === 1 ? ID : OTHER_ID;
  const keys = { signing_key: secretOf(generation), sealing_key: secretOf(generation) };
  return {
    "installation.json": JSON.stringify({ generation, installation_id, ...keys }),
    "session-epoch.json": JSON.stringify({ installation_id, epoch }),
  };
}

function epochOnDisk(directory: string): unknown {
  return JSON.parse(readFileSync(join(directory, "session-epoch.json"), "utf8"));
}

describe("the lock of a directory", () => {
  it("is held once, by whatever path the directory is named, and freed with its holder", async () => {
    const base = testDirectory();
    const directory = join(base, "state");
    mkdirSync(directory);
    symlinkSync(directory, join(base, "same"));
    const held = await lockDirectory(directory);
    expect(await lockDirectory(join(base, "same")).catch(errorCodeOf)).toBe("agent_conflict");
    mkdirSync(join(base, "other"));
    const other = await lockDirectory(join(base, "other"));
    held.close();
    const again = await lockDirectory(directory);
    onTestFinished(() => {
      other.close();
      again.close();
    });
  });
});
