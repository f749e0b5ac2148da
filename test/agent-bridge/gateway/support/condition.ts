const PATIENCE_MS = 15_000;

/** Something that tests wait for by what it is, not by how long it takes. */
export class Condition {
  readonly #looks = new Set<() => void>();

  /** To be called whenever something may have changed. */
  look(): void {
    for (const look of this.#looks) look();
  }

  /** @throws naming what never came */
  async until(what: string, isMet: () => boolean, withinMs = PATIENCE_MS): Promise<void> {
    if (isMet()) return;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const look = () => {
      if (isMet()) resolve();
    };
    this.#looks.add(look);
    const timer = setTimeout(() => reject(new Error(`Never came: ${what}.`)), withinMs);
    await promise.finally(() => {
      clearTimeout(timer);
      this.#looks.delete(look);
    });
  }
}

/** Asks again and again, for what gives no sign when it changes. */
export async function eventually(what: string, isMet: () => Promise<boolean>, withinMs = PATIENCE_MS): Promise<void> {
  const end = performance.now() + withinMs;
  while (!(await isMet())) {
    if (performance.now() > end) throw new Error(`Never came: ${what}.`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
