import { describe, it } from "vitest";
import { profileSchema } from "../../../domain/chain/profile.ts";
import { choosePlacement } from "../../../domain/subscription/placement.ts";
import { assertHostsNode } from "../../../domain/subscription/subscription.ts";

const resources = { cpu: 1, memory_gb: 1, disk_gb: 1, disk_type: "ssd" };
const profile = profileSchema.parse({
  schema_version: "1.0",
  chain_id: "some-chain",
  display_name: "Some chain",
  network_type: "testnet",
  node_types: {
    full: {
      resources,
      default_providers: ["hetzner", "local"],
      providers: {
        local: { instance_type: "process", default_region: "here", regions: ["here"] },
        hetzner: { instance_type: "cx42", default_region: "fsn1", regions: ["fsn1", "hel1"] },
        rare: { instance_type: "big", default_region: "r1", regions: ["r1"] },
      },
    },
  },
});

describe("the place of a subscription's node", () => {
  it("is the profile's first provider that this deployment has, in its default region", ({ expect }) => {
    expect(choosePlacement(profile, "full", {}, ["local", "hetzner"])).toEqual({
      provider: "hetzner",
      region: "fsn1",
      instanceType: "cx42",
    });
    expect(choosePlacement(profile, "full", {}, ["local"]).provider).toBe("local");
  });

  it("may be wished for where the profile and the deployment have it", ({ expect }) => {
    expect(choosePlacement(profile, "full", { provider: "rare" }, ["rare"]).region).toBe("r1");
    expect(choosePlacement(profile, "full", { region: "hel1" }, ["hetzner"]).region).toBe("hel1");
  });

  it("is refused by code where one of them does not", ({ expect }) => {
    const refused = (wish: object, available: string[]) => () => choosePlacement(profile, "full", wish, available);
    expect(refused({}, [])).toThrow(expect.objectContaining({ code: "provider_unavailable" }));
    expect(refused({}, ["rare"])).toThrow(expect.objectContaining({ code: "provider_unavailable" }));
    expect(refused({ provider: "rare" }, ["local"])).toThrow(expect.objectContaining({ code: "provider_unavailable" }));
    expect(refused({ provider: "constructor" }, ["constructor"])).toThrow(
      expect.objectContaining({ code: "provider_unavailable" }),
    );
    expect(refused({ region: "mars" }, ["local"])).toThrow(expect.objectContaining({ code: "provider_unavailable" }));
    expect(() => choosePlacement(profile, "toString", {}, ["local"])).toThrow(
      expect.objectContaining({ code: "node_type_not_found" }),
    );
  });
});

describe("a subscription", () => {
  it("hosts a node only while it is active and has not run out", ({ expect }) => {
    expect(() => assertHostsNode("active", null, 10)).not.toThrow();
    expect(() => assertHostsNode("active", 11, 10)).not.toThrow();
    expect(() => assertHostsNode("active", 10, 10)).toThrow(
      expect.objectContaining({ code: "subscription_not_active" }),
    );
    for (const status of ["pending_payment", "expiring", "terminated"]) {
      expect(() => assertHostsNode(status, null, 10)).toThrow(
        expect.objectContaining({ code: "subscription_not_active" }),
      );
    }
  });
});
