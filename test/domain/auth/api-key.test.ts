import fc from "fast-check";
import { describe, it } from "vitest";
import {
  equalInConstantTime,
  formatApiKey,
  hashSecret,
  isLastUsedStale,
  makeApiKey,
  parseApiKey,
  refusalOf,
} from "../../../domain/auth/api-key.ts";

const secretBytes = fc.uint8Array({ minLength: 32, maxLength: 32 });

describe("an API key", () => {
  it("reads back as it was written, whatever its random bytes are", ({ expect }) => {
    fc.assert(
      fc.property(fc.uuid(), secretBytes, (uuid, random) => {
        const key = makeApiKey(uuid, random);
        expect(parseApiKey(formatApiKey(key))).toEqual(key);
      }),
    );
  });

  it("is not found in any other text", ({ expect }) => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        expect(parseApiKey(text)).toBeNull();
      }),
    );
    expect(parseApiKey(`orr_${"a".repeat(32)}_short`)).toBeNull();
    expect(parseApiKey(`orr_${"A".repeat(32)}_${"x".repeat(43)}`)).toBeNull();
    expect(parseApiKey(` orr_${"a".repeat(32)}_${"x".repeat(43)}`)).toBeNull();
  });

  it("is refused without enough randomness", ({ expect }) => {
    expect(() => makeApiKey("019ad2c5-6f2e-7cc0-9a3e-0d9f5b1c2a44", new Uint8Array(16))).toThrow(RangeError);
  });

  it("is kept as the SHA-256 of its secret", async ({ expect }) => {
    expect(await hashSecret("abc")).toBe("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  });

  it("expires at its very instant and not before, and a revoked one says nothing of its expiry", ({ expect }) => {
    expect(refusalOf({ expiresAt: 1_000, revokedAt: null }, 999)).toBeNull();
    expect(refusalOf({ expiresAt: 1_000, revokedAt: null }, 1_000)).toBe("api_key_expired");
    expect(refusalOf({ expiresAt: null, revokedAt: null }, 1e15)).toBeNull();
    expect(refusalOf({ expiresAt: 1_000, revokedAt: 5 }, 2_000)).toBe("unauthenticated");
  });

  it("has its last use written once per resolution", ({ expect }) => {
    expect(isLastUsedStale(null, 0, 60_000)).toBe(true);
    expect(isLastUsedStale(1_000, 60_999, 60_000)).toBe(false);
    expect(isLastUsedStale(1_000, 61_000, 60_000)).toBe(true);
  });
});

describe("comparison in constant time", () => {
  it("agrees with plain equality on all texts", ({ expect }) => {
    fc.assert(
      fc.property(fc.string(), fc.string(), (a, b) => {
        expect(equalInConstantTime(a, b)).toBe(a === b);
      }),
    );
    fc.assert(
      fc.property(fc.string(), (a) => {
        expect(equalInConstantTime(a, a)).toBe(true);
      }),
    );
    expect(equalInConstantTime("abc", "")).toBe(false);
    expect(equalInConstantTime("", "abc")).toBe(false);
    expect(equalInConstantTime("abab", "ab")).toBe(false);
  });
});
