import { closeSync, fsyncSync, openSync, renameSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import type { Logger } from "../log.ts";

/** Replaces a file so that a reader sees the old or the new text whole, and the new one is on disk when this returns. */
export function writeDurably(path: string, text: string, mode = 0o600): void {
  const temporary = `${path}.new`;
  const file = openSync(temporary, "w", mode);
  try {
    writeAll(file, Buffer.from(text));
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  renameSync(temporary, path);
  syncDirectory(dirname(path));
}

/**
 * A file whose text may be lost without harm: a disk that is full must not keep the agent from its work. That it cannot be
 * written is said once, until it can be again.
 */
export class ForgivenFile {
  readonly path: string;
  readonly #log: Logger;
  #isFailing = false;

  constructor(path: string, log: Logger) {
    this.path = path;
    this.#log = log;
  }

  /** Replaces the text, durably where the disk takes it. */
  write(text: string): void {
    try {
      writeDurably(this.path, text);
      this.#isFailing = false;
    } catch (error) {
      if (this.#isFailing) return;
      this.#isFailing = true;
      this.#log.error({ err: error, file: this.path }, "cannot be written; it is remembered until the agent ends");
    }
  }
}

/** A new name in a directory is durable only when the directory itself is. */
export function syncDirectory(path: string): void {
  const directory = openSync(path, "r");
  try {
    fsyncSync(directory);
  } finally {
    closeSync(directory);
  }
}

/** Writes every byte: a single write may be short, for example on a disk that is nearly full. */
export function writeAll(file: number, bytes: Uint8Array): void {
  for (let offset = 0; offset < bytes.length; ) {
    offset += writeSync(file, bytes, offset, bytes.length - offset);
  }
}
