import { expect } from "vitest";
import type { OperatorApi } from "../../dev/operator-api.ts";

const COMMAND_MS = 30_000;

/** A node that somebody tries to take from its agent. */
export class WatchedNode {
  readonly id: string;
  readonly #api: OperatorApi;

  constructor(api: OperatorApi, id: string) {
    this.#api = api;
    this.id = id;
  }

  events() {
    return this.#api.events(this.id);
  }

  /** How often an agent got a session so far. */
  async connections(): Promise<number> {
    return (await this.events()).filter(({ kind }) => kind === "agent_connected").length;
  }

  /** The fingerprints of the signing keys that were bound so far. */
  async enrolledKeys(): Promise<readonly unknown[]> {
    return (await this.events())
      .filter(({ kind }) => kind === "agent_enrolled")
      .map(({ body }) => body.key_fingerprint);
  }

  /** The codes of the refusals that were told of so far. */
  async refusals(): Promise<readonly unknown[]> {
    return (await this.events()).filter(({ kind }) => kind === "agent_refused").map(({ body }) => body.code);
  }

  /** The honest agent holds the session, for only it has a chain node to start; and nobody ever held the node for down. */
  async expectObedience(): Promise<void> {
    const command = await this.#api.sendCommand(this.id, "START");
    const stateOf = async () => (await this.#api.command(this.id, command)).state;
    await expect.poll(stateOf, { timeout: COMMAND_MS }).toBe("completed");
    expect((await this.#api.node(this.id)).state).toBe("healthy");
    expect((await this.events()).filter(({ body }) => body.to === "down")).toEqual([]);
  }
}
