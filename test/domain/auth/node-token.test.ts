import { createHmac } from "node:crypto";
import { describe, expect, it } from "vitest";
import { deriveNodeToken, verifyNodeToken } from "../../../domain/auth/node-token.ts";

const SECRET = "a-master-secret-that-is-long-enough-for-it";
const NODE = "01932c07-0000-7000-8000-000000000001";

describe("a node token", () => {
  it("is the HMAC of node and generation under the master secret", async () => {
    const expected = createHmac("sha256", SECRET).update(`orrery-node-token:${NODE}:3`).digest("hex");
    expect(await deriveNodeToken(SECRET, NODE, 3)).toBe(expected);
  });

  it("is accepted for its own node, generation and secret only", async () => {
    const token = await deriveNodeToken(SECRET, NODE, 1);
    expect(await verifyNodeToken(SECRET, NODE, 1, token)).toBe(true);
    expect(await verifyNodeToken(SECRET, NODE, 2, token)).toBe(false);
    expect(await verifyNodeToken(SECRET, `${NODE}x`, 1, token)).toBe(false);
    expect(await verifyNodeToken(`${SECRET}x`, NODE, 1, token)).toBe(false);
  });

  it("is refused, not thrown at, when it is no token at all", async () => {
    const token = await deriveNodeToken(SECRET, NODE, 1);
    for (const wrong of ["", "x", token.slice(1), `${token}0`, token.toUpperCase(), "é".repeat(64)]) {
      expect(await verifyNodeToken(SECRET, NODE, 1, wrong)).toBe(false);
    }
    for (const generation of [0, -1, 1.5, Number.NaN]) {
      expect(await verifyNodeToken(SECRET, NODE, generation, token)).toBe(false);
    }
  });
});
