import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { renderCondition, renderTemplate, templateNames } from "../../../domain/chain/template.ts";
import { errorCodeOf } from "../../../domain/errors.ts";

const scope = { Values: { network: "main", count: 3, on: false }, Ports: { rpc: 8545 }, Paths: { data: "/data" } };

function codeOf(action: () => unknown): string | null {
  try {
    action();
    return null;
  } catch (error) {
    return errorCodeOf(error);
  }
}

describe("templates", () => {
  it("insert text, numbers and booleans", () => {
    expect(renderTemplate("{{ .Values.network }}:{{.Ports.rpc}}/{{ .Values.on }}", scope)).toBe("main:8545/false");
  });

  it("leave text without templates alone", () => {
    expect(renderTemplate('{"a": {"b": 1}}', scope)).toBe('{"a": {"b": 1}}');
  });

  it("never read an inserted value as a template", () => {
    expect(renderTemplate("{{ .Values.x }}", { Values: { x: "{{ .Secret }}" } })).toBe("{{ .Secret }}");
  });

  it.each([
    "{{ .Values.missing }}",
    "{{ .Values }}",
    "{{ .Values.network.length }}",
    "{{ .Values.__proto__ }}",
    "{{ .constructor.name }}",
  ])("name %s as unresolved", (text) => {
    expect(codeOf(() => renderTemplate(text, scope))).toBe("template_unresolved");
  });

  it.each(["{{", "{{ .a ", "{{ a }}", "{{ .a | b }}", "{{}}", "{{ .a }} }}"])("refuse the syntax of %s", (text) => {
    expect(templateNames(text).ok).toBe(false);
    expect(codeOf(() => renderTemplate(text, scope))).toBe("template_unresolved");
  });

  it("hold as a condition when they render to something", () => {
    expect(renderCondition("{{ .Values.network }}", scope)).toBe(true);
    expect(renderCondition("{{ .Values.snapshot }}", scope)).toBe(false);
    expect(renderCondition("{{ .SyncData.snapshot_url }}", scope)).toBe(false);
    expect(renderCondition("  ", scope)).toBe(false);
    expect(codeOf(() => renderCondition("{{ .Port.rpc }}", scope))).toBe("template_unresolved");
  });

  it("either render or fail with the one code, whatever the text", () => {
    const piece = fc.oneof(fc.string(), fc.constantFrom("{{", "}}", " .Values.network ", ".", "{", "}"));
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
        const code = codeOf(() => renderTemplate(pieces.join(""), scope));
        expect(code === null || code === "template_unresolved").toBe(true);
      }),
      { numRuns: 2_000 },
    );
  });
});
