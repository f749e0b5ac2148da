import { afterAll, onTestFinished } from "vitest";

/** Takes what is to be undone when something ends. */
export type Scope = (undo: () => Promise<unknown>) => void;

export const testScope: Scope = (undo) => onTestFinished(async () => void (await undo()));

/** For what all tests of a file share. To be called at the top of the file. */
export function fileScope(): Scope {
  const undos: (() => Promise<unknown>)[] = [];
  afterAll(async () => {
    for (const undo of undos.reverse()) await undo();
  });
  return (undo) => void undos.push(undo);
}
