import { describe, it } from "vitest";
import { errorCodeOf } from "../../../domain/errors.ts";
import { assertSize } from "../../../durable-objects/shared/limits.ts";

function codeFor(what: "row" | "attachment" | "queue message", bytes: number): string | null {
  try {
    assertSize(what, "x".repeat(bytes));
    return null;
  } catch (thrown) {
    return errorCodeOf(thrown);
  }
}

describe("the platform's limits", () => {
  it("are asserted by us, because the local runtime does not", ({ expect }) => {
    const limits = { row: 2_000_000, attachment: 16_384, "queue message": 128_000 } as const;
    for (const what of ["row", "attachment", "queue message"] as const) {
      expect(codeFor(what, limits[what]), what).toBeNull();
      expect(codeFor(what, limits[what] + 1), what).toBe("limit_exceeded");
    }
  });

  it("are bytes, not characters", ({ expect }) => {
    expect(() => assertSize("attachment", "é".repeat(8_193))).toThrow("16386 bytes");
  });
});
