import { randomBytes } from "node:crypto";
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { errorCodeOf } from "../../domain/errors.ts";
import { AgentIdentity } from "../../ops-agent/state/identity.ts";
import { lockDirectory } from "../../ops-agent/state/lock.ts";
import { testDirectory } from "./support/directory.ts";

const ID = "11111111-2222-4333-8444-555555555555";
const MAKE = { newId: () => ID, newKey: () => randomBytes(32) };

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
    expect(new AgentIdentity(directory, MAKE).installationId).toBe(ID);
    expect(
      new AgentIdentity(directory, { ...MAKE, newId: () => "22222222-2222-4333-8444-555555555555" }).installationId,
    ).toBe(ID);
  });

  it("raises the epoch for every attempt, and has it on disk before the attempt", () => {
    const directory = testDirectory();
    const identity = new AgentIdentity(directory, MAKE);
    expect([identity.raiseEpoch(), identity.raiseEpoch()]).toEqual([1, 2]);
    expect(readFileSync(join(directory, "session-epoch"), "utf8")).toBe("2\n");
    expect(new AgentIdentity(directory, MAKE).raiseEpoch()).toBe(3);
  });

  it("is not guessed when what is stored cannot be read", () => {
    const directory = testDirectory();
    new AgentIdentity(directory, MAKE).raiseEpoch();
    writeFileSync(join(directory, "session-epoch"), "many");
    expect(codeOf(() => new AgentIdentity(directory, MAKE))).toBe("configuration_invalid");
    writeFileSync(join(directory, "session-epoch"), "2");
    writeFileSync(join(directory, "installation.json"), "{}");
    expect(codeOf(() => new AgentIdentity(directory, MAKE))).toBe("configuration_invalid");
  });
});

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
