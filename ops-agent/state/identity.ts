import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { OrreryError } from "../../domain/errors.ts";
import { writeDurably } from "./durable.ts";

/** Who this agent is: its installation id, made once, and the epoch of its latest session. */
export class AgentIdentity {
  readonly installationId: string;
  readonly #epochFile: string;
  #epoch: number;

  /**
   * @param newId makes the id of an installation that has none yet
   * @throws configuration_invalid when what is stored cannot be read
   */
  constructor(stateDir: string, newId: () => string) {
    this.#epochFile = join(stateDir, "session-epoch");
    const idFile = join(stateDir, "installation-id");
    if (!existsSync(idFile)) writeDurably(idFile, `${newId()}\n`);
    this.installationId = readFileSync(idFile, "utf8").trim();
    if (!/^[0-9a-f-]{36}$/.test(this.installationId)) throw unreadable(idFile);
    this.#epoch = existsSync(this.#epochFile) ? Number(readFileSync(this.#epochFile, "utf8")) : 0;
    if (!Number.isSafeInteger(this.#epoch) || this.#epoch < 0) throw unreadable(this.#epochFile);
  }

  /** The epoch for one connection attempt: higher than every earlier one, also after a crash. */
  raiseEpoch(): number {
    const next = this.#epoch + 1;
    writeDurably(this.#epochFile, `${next}\n`);
    this.#epoch = next;
    return next;
  }
}

function unreadable(file: string): OrreryError {
  return new OrreryError("configuration_invalid", `${file} cannot be read; restore it, or enrol this host anew.`);
}
