import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { OrreryError } from "../../domain/errors.ts";
import { exchangePublicKey } from "../../domain/identity/handshake.ts";
import { sign, signingPublicKey } from "../../domain/identity/signature.ts";
import type { Logger } from "../log.ts";
import { ForgivenFile, writeDurably } from "./durable.ts";

const secretKey = z.string().regex(/^[0-9a-f]{64}$/, "must be 64 hex digits");
const installationSchema = z.strictObject({
  /** Which of the node's installations this is. */
  generation: z.int().min(1),
  installation_id: z.uuid(),
  /** Ed25519. */
  signing_key: secretKey,
  /** X25519. */
  sealing_key: secretKey,
});

/** The installation's id stands beside its epoch, so that another's is never gone on from. */
const epochSchema = z.strictObject({ installation_id: z.uuid(), epoch: z.int().min(0) });

/** Epochs stay far below what a double counts exactly, whatever the other side says. */
const EPOCH_MAX = 2 ** 52;

/** What an installation is made of where there is none yet for its generation. */
export interface NewInstallation {
  readonly generation: number;
  readonly newId: () => string;
  /** 32 random bytes. */
  readonly newKey: () => Uint8Array;
}

/**
 * Who this agent is: its installation's id and keys, made once and together, and the epoch of its latest session. A host
 * that is enrolled anew under a later generation becomes another installation: whoever had the old keys has nothing of it.
 */
export class AgentIdentity {
  readonly installationId: string;
  /** Ed25519 public key, 32 bytes. */
  readonly signingKey: Uint8Array;
  /** X25519 public key, 32 bytes. */
  readonly sealingKey: Uint8Array;
  readonly #signingSecret: Uint8Array;
  readonly #sealingSecret: Uint8Array;
  readonly #epochFile: ForgivenFile;
  #epoch: number;

  /**
   * @param make the parts of an installation that is none yet; they are on the disk before anything is done with them
   * @throws configuration_invalid when what is stored cannot be read, or is of a later generation than the settings'
   */
  constructor(stateDir: string, make: NewInstallation, log: Logger) {
    const stored = installationOf(join(stateDir, "installation.json"), make);
    this.installationId = stored.installation_id;
    this.#signingSecret = Buffer.from(stored.signing_key, "hex");
    this.#sealingSecret = Buffer.from(stored.sealing_key, "hex");
    this.signingKey = signingPublicKey(this.#signingSecret);
    this.sealingKey = exchangePublicKey(this.#sealingSecret);
    this.#epochFile = new ForgivenFile(join(stateDir, "session-epoch.json"), log);
    this.#epoch = epochOf(this.#epochFile.path, stored.installation_id);
  }

  sign(message: Uint8Array): Uint8Array {
    return sign(this.#signingSecret, message);
  }

  /** X25519, 32 bytes: opens what was sealed to this installation. Not a copy: it must not be written to. */
  sealingSecretKey(): Uint8Array {
    return this.#sealingSecret;
  }

  /**
   * The epoch for one connection attempt: higher than every earlier one. One that the disk did not take and a crash forgot
   * is refused once, by the control plane's word of the epoch that it has, and the next is above that.
   */
  raiseEpoch(): number {
    this.#keepEpoch(this.#epoch + 1);
    return this.#epoch;
  }

  /** Whether the edge has an epoch of ours that we do not know, because this state is older; the next one is above it. */
  continueAbove(epoch: bigint): boolean {
    if (epoch < BigInt(this.#epoch) || epoch >= BigInt(EPOCH_MAX)) return false;
    this.#keepEpoch(Number(epoch));
    return true;
  }

  #keepEpoch(epoch: number): void {
    const file: z.input<typeof epochSchema> = { installation_id: this.installationId, epoch };
    this.#epochFile.write(`${JSON.stringify(file)}\n`);
    this.#epoch = epoch;
  }
}

/** What is stored, or what is made and stored now. */
function installationOf(file: string, make: NewInstallation): z.output<typeof installationSchema> {
  const stored = existsSync(file) ? readStored(file, installationSchema) : null;
  if (stored !== null && stored.generation > make.generation) throw outdated(stored.generation, make.generation);
  if (stored?.generation === make.generation) return stored;
  const made = newInstallation(make);
  writeDurably(file, `${JSON.stringify(made, null, 2)}\n`);
  return made;
}

function newInstallation({ generation, newId, newKey }: NewInstallation): z.output<typeof installationSchema> {
  const hexKey = () => Buffer.from(newKey()).toString("hex");
  return { generation, installation_id: newId(), signing_key: hexKey(), sealing_key: hexKey() };
}

function epochOf(file: string, installationId: string): number {
  if (!existsSync(file)) return 0;
  const stored = readStored(file, epochSchema);
  return stored.installation_id === installationId ? stored.epoch : 0;
}

function readStored<T extends z.ZodType>(file: string, schema: T): z.output<T> {
  try {
    return schema.parse(JSON.parse(readFileSync(file, "utf8")));
  } catch {
    // Without the cause: its message would show parts of the file.
    throw unreadable(file);
  }
}

function outdated(stored: number, settings: number): OrreryError {
  const problem = `the settings name generation ${settings}, and this host was enrolled under generation ${stored} since`;
  return new OrreryError("configuration_invalid", `generation: ${problem}; use the settings of that enrolment.`);
}

function unreadable(file: string): OrreryError {
  return new OrreryError("configuration_invalid", `${file} cannot be read; restore it, or enrol this host anew.`);
}
