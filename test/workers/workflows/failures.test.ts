import { describe, it } from "vitest";
import { OrreryError } from "../../../domain/errors.ts";
import { failureOf, isPlatformReset, mayPass } from "../../../workers/workflows/failures.ts";

describe("what a step throws", () => {
  it("is worth another try when it may pass by itself", ({ expect }) => {
    expect(mayPass(new Error("something of the platform"))).toBe(true);
    expect(mayPass(new OrreryError("database_unavailable", "away"))).toBe(true);
    expect(mayPass(new OrreryError("provider_error", "busy", { retryable: true }))).toBe(true);
    expect(mayPass(new OrreryError("provider_error", "refused", { retryable: false }))).toBe(false);
    expect(mayPass(new OrreryError("chain_invalid", "wrong"))).toBe(false);
    expect(mayPass(new OrreryError("node_terminating", "going"))).toBe(false);
  });

  it("becomes data that says nothing of our insides", ({ expect }) => {
    expect(failureOf(new OrreryError("agent_not_ready", "nobody came"))).toEqual({
      code: "agent_not_ready",
      message: "nobody came",
    });
    expect(failureOf(new TypeError("secret"))).toMatchObject({ code: "internal" });
    expect(failureOf(new TypeError("secret")).message).not.toContain("secret");
  });

  it("is left to the engine when the engine itself was reset", ({ expect }) => {
    expect(isPlatformReset(Object.assign(new Error("x"), { durableObjectReset: true }))).toBe(true);
    expect(isPlatformReset(new Error("Aborting engine: User called restart"))).toBe(true);
    expect(isPlatformReset(new Error("WorkflowTimeoutError: Execution timed out after 5000ms"))).toBe(false);
    expect(isPlatformReset("text")).toBe(false);
    expect(isPlatformReset(null)).toBe(false);
  });
});
