import fc from "fast-check";
import { describe, it } from "vitest";
import { isCreateSettled, orphanHosts } from "../../../domain/saga/host-sweep.ts";
import { hostTag } from "../../../domain/saga/ids.ts";

const HOUR = 3_600_000;
const NOW = 1_800_000_000_000;

const scene = fc.record({
  nodeId: fc.uuid(),
  ageMs: fc.integer({ min: 0, max: 3 * HOUR }),
  known: fc.boolean(),
  ended: fc.boolean(),
  sagaRunning: fc.boolean(),
  ours: fc.boolean(),
});

describe("orphan hosts", () => {
  it("are exactly those of ours, an hour old, whose node has ended with no saga at work on it", ({ expect }) => {
    fc.assert(
      fc.property(fc.uniqueArray(scene, { selector: ({ nodeId }) => nodeId }), (scenes) => {
        const hosts = scenes.map(({ nodeId, ageMs, ours }) => ({
          providerHostId: nodeId,
          tag: ours ? hostTag(nodeId, 1) : `somebody-else-${nodeId}`,
          createdAt: NOW - ageMs,
        }));
        const owners = new Map(scenes.filter(({ known }) => known).map((entry) => [entry.nodeId, entry]));
        const { orphans, unknown } = orphanHosts(hosts, owners, NOW, HOUR);
        const old = scenes.filter(({ ours, ageMs }) => ours && ageMs >= HOUR);
        expect(orphans.map(({ providerHostId }) => providerHostId)).toEqual(
          old.filter(({ known, ended, sagaRunning }) => known && ended && !sagaRunning).map(({ nodeId }) => nodeId),
        );
        expect(unknown.map(({ providerHostId }) => providerHostId)).toEqual(
          old.filter(({ known }) => !known).map(({ nodeId }) => nodeId),
        );
      }),
    );
  });
});

describe("a host's row", () => {
  const answered = { providerHostId: "h", adopted: false, markedAt: NOW };

  it("is closed at once when every create was answered", ({ expect }) => {
    expect(isCreateSettled(answered, NOW, HOUR)).toBe(true);
  });

  it("is kept until an unanswered create cannot finish any more", ({ expect }) => {
    for (const host of [
      { ...answered, providerHostId: null },
      { ...answered, adopted: true },
    ]) {
      expect(isCreateSettled(host, NOW + HOUR - 1, HOUR)).toBe(false);
      expect(isCreateSettled(host, NOW + HOUR, HOUR)).toBe(true);
    }
  });
});
