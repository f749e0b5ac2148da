import { createServer } from "node:http";
import { describe, it } from "vitest";
import { errorCodeOf, toErrorData } from "../../../domain/errors.ts";
import { LocalProvider } from "../../../integrations/infrastructure/local.ts";
import { configuredProviders, providerByName } from "../../../integrations/infrastructure/registry.ts";
import { RUNNER_TOKEN, TestRunner } from "../../agent-bridge/host-runner/runner.ts";

const request = {
  tag: "orrery-a-g1",
  region: "local",
  instanceType: "process",
  agent: {
    nodeId: "a",
    generation: 1,
    controlUrl: "http://127.0.0.1:1",
    bridgeUrl: null,
    controlKeys: [],
    nodeToken: "70".repeat(32),
  },
};

async function failureOf(work: Promise<unknown>) {
  return toErrorData(
    await work.then(
      () => null,
      (error: unknown) => error,
    ),
  );
}

/** A server that answers everything in one way, for what a well-behaved runner never does. */
async function answering(handler: Parameters<typeof createServer>[1]) {
  const server = createServer(handler ?? (() => undefined));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  const port = address !== null && typeof address === "object" ? address.port : 0;
  return {
    url: `http://127.0.0.1:${port}`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

describe("provider local", () => {
  it("creates a host, finds it by tag, powers it off, lists it, destroys it, and destroys it again", async ({
    expect,
  }) => {
    await using runner = await TestRunner.start();
    const provider = new LocalProvider({ url: runner.url, token: RUNNER_TOKEN });
    const host = await provider.create(request);
    expect(await provider.findByTag(request.tag)).toEqual([host]);
    await provider.powerOff(host.providerHostId);
    expect(await provider.list()).toEqual([{ ...host, status: "off" }]);
    await provider.destroy(host.providerHostId);
    await provider.destroy(host.providerHostId);
    expect(await provider.list()).toEqual([]);
  });

  it("says that a tag in use is worth another look, and that a refused request is not", async ({ expect }) => {
    await using runner = await TestRunner.start();
    const provider = new LocalProvider({ url: runner.url, token: RUNNER_TOKEN });
    await provider.create(request);
    const inUse = await failureOf(provider.create(request));
    expect(inUse).toMatchObject({ code: "provider_error", details: { retryable: true, reason: "tag_in_use" } });
    const refused = await failureOf(provider.create({ ...request, tag: "not a tag" }));
    expect(refused).toMatchObject({ code: "provider_error", details: { retryable: false, reason: "invalid_request" } });
    const stranger = new LocalProvider({ url: runner.url, token: "another-token" });
    expect(await failureOf(stranger.list())).toMatchObject({
      details: { retryable: false, reason: "unauthenticated" },
    });
  });

  it("gives up on a runner that is silent, gone or talks nonsense, and says that it may be asked again", async ({
    expect,
  }) => {
    await using silent = await answering(() => undefined);
    await using nonsense = await answering((_, response) => response.end("<html>"));
    for (const url of [silent.url, nonsense.url, "http://127.0.0.1:1"]) {
      const provider = new LocalProvider({ url, token: RUNNER_TOKEN, timeoutMs: 200 });
      expect(await failureOf(provider.list())).toMatchObject({ code: "provider_error", details: { retryable: true } });
    }
  });
});

describe("the providers of a deployment", () => {
  const settings = { HOST_RUNNER_URL: "http://127.0.0.1:1", HOST_RUNNER_TOKEN: RUNNER_TOKEN };
  const none = { HOST_RUNNER_URL: undefined, HOST_RUNNER_TOKEN: undefined };

  it("are those that have their settings", ({ expect }) => {
    expect(providerByName("local", settings).name).toBe("local");
    expect(configuredProviders(settings).map(({ name }) => name)).toEqual(["local"]);
    expect(configuredProviders(none)).toEqual([]);
  });

  it("are refused by name when they are unknown or not set up", ({ expect }) => {
    for (const [name, given] of [
      ["local", none],
      ["nowhere", settings],
      ["constructor", settings],
    ] as const) {
      let thrown: unknown = null;
      try {
        providerByName(name, given);
      } catch (error) {
        thrown = error;
      }
      expect(errorCodeOf(thrown)).toBe("provider_unavailable");
    }
  });
});
