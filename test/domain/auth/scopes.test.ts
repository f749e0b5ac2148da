import { describe, it } from "vitest";
import { allows, SCOPES } from "../../../domain/auth/scopes.ts";

describe("scopes", () => {
  it("let an operator do everything and a key only what it names", ({ expect }) => {
    for (const scope of SCOPES) {
      expect(allows(["admin"], scope)).toBe(true);
      expect(allows([], scope)).toBe(false);
      expect(allows([scope], scope)).toBe(true);
    }
    expect(allows(["nodes:write"], "nodes:read")).toBe(false);
    expect(allows(["nodes:read", "nodes:write"], "admin")).toBe(false);
  });
});
