import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { OrreryError } from "../../domain/errors.ts";
import { exchangePublicKey } from "../../domain/identity/handshake.ts";
import { sign, signingPublicKey } from "../../domain/identity/signature.ts";
import { writeDurably } from "./durable.ts";

const secretKey = z.string().regex(/^[0-9a-f]{64}$/, "must be 64 hex digits");
const installationSchema = z.strictObject({
  installation_id: z.uuid(),
  /** Ed25519. */
  signing_key: secretKey,
  /** X25519. */
  sealing_key: secretKey,
});

/** Epochs stay far below what a double counts exactly, whatever the other side says. */
const EPOCH_MAX = 2 ** 52;

export interface NewInstallation {
  readonly newId: () => string;
  /** 32 random bytes. */
  readonly newKey: () => Uint8Array;
}

/** Who this agent is: its installation's id and keys, made once and together, and the epoch of its latest session. */
export class AgentIdentity {
  readonly installationId: string;
  /** Ed25519 public key, 32 bytes. */
  readonly signingKey: Uint8Array;
  /** X25519 public key, 32 bytes. */
  readonly sealingKey: Uint8Array;
  readonly #signingSecret: Uint8Array;
  readonly #sealingSecret: Uint8Array;
  readonly #epochFile: string;
  #epoch: number;

  /**
   * @param make the parts of an installation that is none yet; they are on the disk before anything is done with them
   * @throws configuration_invalid when what is stored cannot be read
   */
  constructor(stateDir: string, make: NewInstallation) {
    const file = join(stateDir, "installation.json");
    if (!existsSync(file)) writeDurably(file, newInstallation(make));
    const stored = readInstallation(file);
    this.installationId = stored.installation_id;
    this.#signingSecret = Buffer.from(stored.signing_key, "hex");
    this.#sealingSecret = Buffer.from(stored.sealing_key, "hex");
    this.signingKey = signingPublicKey(this.#signingSecret);
    this.sealingKey = exchangePublicKey(this.#sealingSecret);
    this.#epochFile = join(stateDir, "session-epoch");
    this.#epoch = existsSync(this.#epochFile) ? Number(readFileSync(this.#epochFile, "utf8")) : 0;
    if (!Number.isSafeInteger(this.#epoch) || this.#epoch < 0) throw unreadable(this.#epochFile);
  }

  sign(message: Uint8Array): Uint8Array {
    return sign(this.#signingSecret, message);
  }

  /** X25519, 32 bytes: opens what was sealed to this installation. Not a copy: it must not be written to. */
  sealingSecretKey(): Uint8Array {
    return this.#sealingSecret;
  }

  /** The epoch for one connection attempt: higher than every earlier one, also after a crash. */
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
    writeDurably(this.#epochFile, `${epoch}\n`);
    this.#epoch = epoch;
  }
}

function newInstallation({ newId, newKey }: NewInstallation): string {
  const hexKey = () => Buffer.from(newKey()).toString("hex");
  const installation: z.input<typeof installationSchema> = {
    installation_id: newId(),
    signing_key: hexKey(),
    sealing_key: hexKey(),
  };
  return `${JSON.stringify(installation, null, 2)}\n`;
}

function readInstallation(file: string): z.output<typeof installationSchema> {
  try {
    return installationSchema.parse(JSON.parse(readFileSync(file, "utf8")));
  } catch {
    // Without the cause: its message would show parts of the file.
    throw unreadable(file);
  }
}

function unreadable(file: string): OrreryError {
  return new OrreryError("configuration_invalid", `${file} cannot be read; restore it, or enrol this host anew.`);
}
