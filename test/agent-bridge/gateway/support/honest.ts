import { expect, vi } from "vitest";
import type { BridgeProcess } from "./bridge-process.ts";
import { hello, StreamAgent } from "./clients.ts";
import { WAIT } from "./fake-edge.ts";

/** That a session still works: whatever has been done to the bridge before, an agent gets in and is answered. */
export async function expectHonestSession(bridge: Pick<BridgeProcess, "url">): Promise<void> {
  const agent = StreamAgent.open(bridge.url);
  try {
    agent.send(hello());
    await vi.waitFor(() => expect(agent.messages).toHaveLength(1), WAIT);
  } finally {
    agent.close();
  }
}
