/**
 * Decides from regular looks whether a command still moves: `checks` looks in a row at the same progress are a stall.
 * (DESIGN section 4: five checks, thirty seconds apart.)
 */
export class StallWatch {
  readonly #checks: number;
  #last = "";
  #same = 0;

  constructor(checks: number) {
    this.#checks = checks;
  }

  /** One look; answers whether the command is stalled now. */
  look(progress: string): boolean {
    this.#same = progress === this.#last ? this.#same + 1 : 0;
    this.#last = progress;
    return this.#same >= this.#checks;
  }
}
