import { randomBytes, randomUUID } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { controlSigners } from "../../domain/identity/control-key.ts";
import { createLog } from "../../ops-agent/log.ts";
import { AgentIdentity } from "../../ops-agent/state/identity.ts";
import { Trust } from "../../ops-agent/state/trust.ts";

/** A node whose object waits for its agent. */
export interface ExpectedAgent {
  readonly nodeId: string;
  readonly generation: number;
  readonly nodeToken: string;
}

/** What one simulated host has on its disk. */
export interface Installation {
  readonly stateDir: string;
  readonly identity: AgentIdentity;
  readonly trust: Trust;
}

/**
 * A directory for the disks of many hosts. In memory where the machine has one there: agents sync every write, and a
 * thousand hosts have a thousand disks.
 */
export function hostsDirectory(): string {
  const base = existsSync("/dev/shm") ? "/dev/shm" : tmpdir();
  return mkdtempSync(join(base, "orrery-hosts-"));
}

/** The state of the agent of a node of the first generation, made at its first start, that trusts the control keys of this deployment. */
export function openInstallation(directory: string, nodeId: string, masterSecret: string): Installation {
  const log = createLog("silent", {});
  const stateDir = join(directory, nodeId);
  mkdirSync(stateDir, { recursive: true, mode: 0o700 });
  const pinned = controlSigners(masterSecret, 1).map(({ keyId, publicKey }) => ({
    key_id: keyId,
    public_key: Buffer.from(publicKey).toString("hex"),
  }));
  return {
    stateDir,
    identity: new AgentIdentity(stateDir, { generation: 1, newId: randomUUID, newKey: () => randomBytes(32) }, log),
    trust: new Trust(stateDir, pinned, log),
  };
}
