const PATIENCE_MS = 15_000;

/** Asks again and again, for what gives no sign when it changes. */
export async function eventually(what: string, isMet: () => Promise<boolean>, withinMs = PATIENCE_MS): Promise<void> {
  const end = performance.now() + withinMs;
  while (!(await isMet())) {
    if (performance.now() > end) throw new Error(`Never came: ${what}.`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
