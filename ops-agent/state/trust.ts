import { existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { z } from "zod";
import { OrreryError } from "../../domain/errors.ts";
import type { ControlKey } from "../../domain/identity/control-key.ts";
import type { Logger } from "../log.ts";
import { ForgivenFile } from "./durable.ts";

/** A control key as agent.yaml and the state directory write it. */
export const controlKeySchema = z.strictObject({
  key_id: z.string().regex(/^[!-~]{1,64}$/, "must be a key's id"),
  /** Ed25519. */
  public_key: z.string().regex(/^[0-9a-f]{64}$/i, "must be 64 hex digits"),
});
type WrittenKey = z.output<typeof controlKeySchema>;

const trustSchema = z.strictObject({
  /** The settings' keys when this was written: when an operator changes those, they count. */
  pinned: z.array(controlKeySchema),
  trusted: z.array(controlKeySchema),
});
/** Of one installation: where its keys are lost and others made, those are not known to the control plane. */
const enrolmentSchema = z.strictObject({ node_id: z.string(), generation: z.int(), installation_id: z.string() });

/** As whom an agent is known. */
export interface Enrolment {
  readonly nodeId: string;
  readonly generation: number;
  readonly installationId: string;
}

const KEYS_MAX = 8;

/**
 * The control keys that this agent believes, and whether the control plane knows this agent's keys. Both are learnt anew
 * where the disk did not take them: enrolling again does no harm, and a session tells of the keys.
 */
export class Trust {
  readonly #trustFile: ForgivenFile;
  readonly #enrolmentFile: ForgivenFile;
  readonly #pinned: readonly WrittenKey[];
  readonly #log: Logger;
  #trusted: readonly WrittenKey[];
  #enrolment: z.output<typeof enrolmentSchema> | null;

  /**
   * @param pinned the settings' keys: believed until an authenticated session names others
   * @throws configuration_invalid when what is stored cannot be read
   */
  constructor(stateDir: string, pinned: readonly WrittenKey[], log: Logger) {
    this.#log = log;
    this.#trustFile = new ForgivenFile(join(stateDir, "control-keys.json"), log);
    this.#enrolmentFile = new ForgivenFile(join(stateDir, "enrolment.json"), log);
    this.#pinned = pinned;
    const stored = read(this.#trustFile.path, trustSchema);
    this.#trusted = stored !== null && isDeepStrictEqual(stored.pinned, pinned) ? stored.trusted : pinned;
    this.#enrolment = read(this.#enrolmentFile.path, enrolmentSchema);
  }

  controlKeys(): readonly ControlKey[] {
    return this.#trusted.map(({ key_id, public_key }) => ({
      keyId: key_id,
      publicKey: Buffer.from(public_key, "hex"),
    }));
  }

  /** Believes these keys and no others from now on. Keys that are none, or none at all, change nothing. */
  believe(keys: readonly ControlKey[]): void {
    const written = keys.map(({ keyId, publicKey }) => ({
      key_id: keyId,
      public_key: Buffer.from(publicKey).toString("hex"),
    }));
    const usable = z.array(controlKeySchema).min(1).max(KEYS_MAX).safeParse(written);
    if (!usable.success || isDeepStrictEqual(usable.data, this.#trusted)) return;
    const file: z.input<typeof trustSchema> = { pinned: [...this.#pinned], trusted: usable.data };
    this.#trustFile.write(`${JSON.stringify(file, null, 2)}\n`);
    this.#trusted = usable.data;
  }

  isEnrolled({ nodeId, generation, installationId }: Enrolment): boolean {
    const enrolment = { node_id: nodeId, generation, installation_id: installationId };
    return isDeepStrictEqual(this.#enrolment, enrolment);
  }

  rememberEnrolment({ nodeId, generation, installationId }: Enrolment): void {
    const enrolment = { node_id: nodeId, generation, installation_id: installationId };
    this.#enrolmentFile.write(`${JSON.stringify(enrolment)}\n`);
    this.#enrolment = enrolment;
  }

  /** The control plane says that it does not know our keys. */
  forgetEnrolment(): void {
    this.#enrolment = null;
    try {
      rmSync(this.#enrolmentFile.path, { force: true });
    } catch (error) {
      const file = this.#enrolmentFile.path;
      this.#log.error({ err: error, file }, "cannot be removed; it is ignored until the agent ends");
    }
  }
}

function read<T extends z.ZodType>(file: string, schema: T): z.output<T> | null {
  if (!existsSync(file)) return null;
  try {
    return schema.parse(JSON.parse(readFileSync(file, "utf8")));
  } catch (cause) {
    throw new OrreryError("configuration_invalid", `${file} cannot be read; restore or remove it.`, {}, { cause });
  }
}
