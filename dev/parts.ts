import type { ProcessGroup } from "./process-group.ts";

/** Which of a stack's programs shall run, and what becomes of one that does not. */
export interface PartsWatch {
  /** Settles when a part has ended that nobody ended. */
  readonly broken: Promise<Error>;
  add(part: ProcessGroup): void;
  /** Its end is wanted from here on. */
  remove(part: ProcessGroup): void;
  /** Every end is wanted from here on. */
  close(): void;
}

export function watchParts(): PartsWatch {
  const { promise: broken, resolve } = Promise.withResolvers<Error>();
  const expected = new Set<ProcessGroup>();
  let closed = false;
  return {
    broken,
    add(part) {
      void part.ended.then(({ code, signal }) => {
        if (closed || expected.has(part)) return;
        resolve(new Error(`The ${part.name} has ended (${signal ?? code}); see ${part.logFile}.`));
      });
    },
    remove: (part) => void expected.add(part),
    close: () => {
      closed = true;
    },
  };
}
