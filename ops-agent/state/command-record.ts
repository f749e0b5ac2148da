import { closeSync, existsSync, fstatSync, fsyncSync, ftruncateSync, openSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { z } from "zod";
import { type ErrorCode, isErrorCode, OrreryError } from "../../domain/errors.ts";
import { syncDirectory, writeAll, writeDurably } from "./durable.ts";

export type FailedKind = "FAILED" | "INTERRUPTED" | "EXPIRED" | "CANCELLED" | "REFUSED";

/** How a command ended. */
export type Outcome =
  | { readonly ok: true; readonly metadata: Readonly<Record<string, string>> }
  | { readonly ok: false; readonly kind: FailedKind; readonly code: ErrorCode; readonly message: string };

const outcomeSchema = z.discriminatedUnion("ok", [
  z.object({ ok: z.literal(true), metadata: z.record(z.string(), z.string()) }),
  z.object({
    ok: z.literal(false),
    kind: z.enum(["FAILED", "INTERRUPTED", "EXPIRED", "CANCELLED", "REFUSED"]),
    code: z.custom<ErrorCode>(isErrorCode),
    message: z.string(),
  }),
]);

const entrySchema = z.discriminatedUnion("event", [
  z.object({ event: z.literal("received"), id: z.string() }),
  z.object({ event: z.literal("started"), id: z.string() }),
  z.object({ event: z.literal("ended"), id: z.string(), outcome: outcomeSchema }),
]);
type Entry = z.output<typeof entrySchema>;

const NEWLINE = 0x0a;

/**
 * What the agent has done with commands, so that none is executed twice whatever kills it: one JSON line an event,
 * on disk before the event has any effect. A last line that was torn by a crash is cut off; what it told had no effect yet.
 */
export class CommandRecord {
  readonly #path: string;
  readonly #keep: number;
  readonly #ended = new Map<string, Outcome>();
  readonly #started = new Set<string>();
  #file: number;
  #lines = 0;

  /**
   * Opens the record. A command that was started and never ended was cut off by a crash: it is recorded as INTERRUPTED here.
   * @param keep how many ended commands are remembered; a control plane only asks for those that it has not seen end
   * @throws configuration_invalid when a whole line cannot be read (the disk lost what a crash cannot lose)
   */
  constructor(stateDir: string, keep = 1_000) {
    this.#path = join(stateDir, "commands.jsonl");
    this.#keep = keep;
    const isNew = !existsSync(this.#path);
    this.#file = openSync(this.#path, "a+", 0o600);
    if (isNew) syncDirectory(dirname(this.#path));
    this.#load();
    for (const id of [...this.#started]) this.#interrupted(id);
  }

  /** How the command ended, or null when it has not, or is not known. */
  outcome(id: string): Outcome | null {
    return this.#ended.get(id) ?? null;
  }

  /** The command will be executed: a promise that an acknowledgement may tell. */
  received(id: string): void {
    this.#append({ event: "received", id });
  }

  /** The command is about to take effect. */
  started(id: string): void {
    this.#append({ event: "started", id });
    this.#started.add(id);
  }

  ended(id: string, outcome: Outcome): void {
    this.#remember(id, outcome);
    this.#append({ event: "ended", id, outcome });
    if (this.#lines > 4 * this.#keep) this.#compact();
  }

  close(): void {
    closeSync(this.#file);
  }

  #load(): void {
    const bytes = readFileSync(this.#path);
    const whole = bytes.lastIndexOf(NEWLINE) + 1;
    if (whole < bytes.length) {
      ftruncateSync(this.#file, whole);
      fsyncSync(this.#file);
    }
    const lines = bytes.subarray(0, whole).toString("utf8").split("\n").slice(0, -1);
    for (const [index, line] of lines.entries()) this.#apply(this.#parse(line, index + 1));
    this.#lines = lines.length;
  }

  #parse(line: string, number: number): Entry {
    try {
      return entrySchema.parse(JSON.parse(line));
    } catch (cause) {
      const message = `${this.#path} line ${number} cannot be read; the disk may be damaged.`;
      throw new OrreryError("configuration_invalid", message, {}, { cause });
    }
  }

  #apply(entry: Entry): void {
    if (entry.event === "started") this.#started.add(entry.id);
    if (entry.event === "ended") this.#remember(entry.id, entry.outcome);
  }

  #remember(id: string, outcome: Outcome): void {
    this.#started.delete(id);
    this.#ended.delete(id);
    this.#ended.set(id, outcome);
    for (const oldest of this.#ended.keys()) {
      if (this.#ended.size <= this.#keep) break;
      this.#ended.delete(oldest);
    }
  }

  #interrupted(id: string): void {
    try {
      this.ended(id, INTERRUPTED);
    } catch {
      // A full disk: the record still says that the command never ended, and the next agent comes to the same answer.
    }
  }

  #append(entry: Entry): void {
    const size = fstatSync(this.#file).size;
    try {
      writeAll(this.#file, Buffer.from(`${JSON.stringify(entry)}\n`));
      fsyncSync(this.#file);
    } catch (error) {
      // Half a line must not stand before the next one.
      ftruncateSync(this.#file, size);
      throw error;
    }
    this.#lines += 1;
  }

  /** Writes what is remembered into a new file and changes over to it in one rename. */
  #compact(): void {
    const started = Array.from(this.#started, (id): Entry => ({ event: "started", id }));
    const ended = Array.from(this.#ended, ([id, outcome]): Entry => ({ event: "ended", id, outcome }));
    const entries = [...started, ...ended];
    writeDurably(this.#path, entries.map((entry) => `${JSON.stringify(entry)}\n`).join(""));
    closeSync(this.#file);
    this.#file = openSync(this.#path, "a+", 0o600);
    this.#lines = entries.length;
  }
}

const INTERRUPTED: Outcome = {
  ok: false,
  kind: "INTERRUPTED",
  code: "command_interrupted",
  message: "The agent stopped while the command was running.",
};
