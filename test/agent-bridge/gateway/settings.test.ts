import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { readSettings } from "../../../agent-bridge/gateway/settings.ts";
import { DEFAULTS } from "../../../domain/defaults.ts";
import { OrreryError } from "../../../domain/errors.ts";
import { makeCertificates } from "../../ops-agent/support/certificates.ts";
import { BridgeProcess } from "./support/bridge-process.ts";

const EDGE_URL = "https://orrery.example";

function problemOf(environment: Readonly<Record<string, string>>): string {
  try {
    readSettings(environment);
  } catch (error) {
    if (error instanceof OrreryError && error.code === "configuration_invalid") return error.message;
    throw error;
  }
  throw new Error("The settings were taken.");
}

describe("the bridge's settings", () => {
  it("need nothing but the edge's address", () => {
    expect(readSettings({ EDGE_URL })).toEqual({
      edgeUrl: EDGE_URL,
      listen: { host: "0.0.0.0", port: 9090 },
      httpListen: { host: "127.0.0.1", port: 9091 },
      tls: null,
      sessionsMax: DEFAULTS.bridge.sessionsMax,
      connectionsMax: DEFAULTS.bridge.connectionsMax,
      drainMs: DEFAULTS.bridge.drainMs,
      limits: DEFAULTS.bridge,
      logLevel: "info",
    });
  });

  it("take an empty variable as one that is not set", () => {
    expect(readSettings({ EDGE_URL, LISTEN: "", TLS_CERT_FILE: "", SESSIONS_MAX: "" })).toEqual(
      readSettings({ EDGE_URL }),
    );
  });

  it("take addresses of IPv6, and the edge's below a path", () => {
    const settings = readSettings({ EDGE_URL: "http://edge:8080/orrery/", LISTEN: "[::1]:0" });
    expect(settings.listen).toEqual({ host: "::1", port: 0 });
    expect(settings.edgeUrl).toBe("http://edge:8080/orrery");
  });

  it.each([
    [{}, "EDGE_URL"],
    [{ EDGE_URL: "grpc://edge" }, "EDGE_URL"],
    [{ EDGE_URL: "https://user:secret@edge" }, "EDGE_URL"],
    [{ EDGE_URL: "https://edge?tenant=1" }, "EDGE_URL"],
    [{ EDGE_URL, LISTEN: "9090" }, "LISTEN"],
    [{ EDGE_URL, HTTP_LISTEN: "localhost:70000" }, "HTTP_LISTEN"],
    [{ EDGE_URL, SESSIONS_MAX: "0" }, "SESSIONS_MAX"],
    [{ EDGE_URL, CONNECTIONS_MAX: "many" }, "CONNECTIONS_MAX"],
    [{ EDGE_URL, DRAIN_MS: "1.5" }, "DRAIN_MS"],
    [{ EDGE_URL, LOG_LEVEL: "loud" }, "LOG_LEVEL"],
    [{ EDGE_URL, TLS_CERT_FILE: "/certificate" }, "TLS_KEY_FILE"],
    [{ EDGE_URL, TLS_CLIENT_CA_FILE: "/authority" }, "TLS_CERT_FILE"],
    [{ EDGE_URL, TLS_CERT_FILE: "/no/such/file", TLS_KEY_FILE: "/no/such/file" }, "TLS_CERT_FILE"],
  ])("that are wrong are named: %j", (environment, name) => {
    expect(problemOf(environment)).toContain(name);
  });

  it("are all named at once", () => {
    const problem = problemOf({ LISTEN: "x", SESSIONS_MAX: "-1" });
    for (const name of ["EDGE_URL", "LISTEN", "SESSIONS_MAX"]) expect(problem).toContain(name);
  });
});

describe("the bridge's certificate files", () => {
  let directory: string;
  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), "orrery-bridge-"));
  });
  afterEach(() => rmSync(directory, { recursive: true }));

  it("that hold no certificate stop the start", () => {
    const file = join(directory, "certificate.pem");
    writeFileSync(file, "no certificate");
    expect(problemOf({ EDGE_URL, TLS_CERT_FILE: file, TLS_KEY_FILE: file })).toContain("TLS_CERT_FILE");
  });

  it("that do not belong together stop the start", () => {
    const ours = makeCertificates(mkdtempSync(join(directory, "ours-")));
    const others = makeCertificates(mkdtempSync(join(directory, "others-")));
    const together = { EDGE_URL, TLS_CERT_FILE: ours.cert, TLS_KEY_FILE: ours.key, TLS_CLIENT_CA_FILE: others.ca };
    expect(readSettings(together).tls).not.toBeNull();
    expect(problemOf({ ...together, TLS_KEY_FILE: others.key })).toContain("TLS_KEY_FILE");
  });
});

describe("a bridge that is started", () => {
  it("with wrong settings says which and ends with 2", async () => {
    const bridge = await BridgeProcess.refused({ EDGE_URL: "edge", SESSIONS_MAX: "none" });
    expect(bridge.exitCode).toBe(2);
    expect(bridge.output).toContain("EDGE_URL");
    expect(bridge.output).toContain("SESSIONS_MAX");
    expect(bridge.output).not.toMatch(/^\s+at /m);
  });

  it("on an address that is taken says so and ends with 1", async () => {
    const first = await BridgeProcess.start({ EDGE_URL });
    const second = await BridgeProcess.refused({ EDGE_URL, LISTEN: new URL(first.url).host });
    expect(second.exitCode).toBe(1);
    expect(second.output).toContain("EADDRINUSE");
    expect(second.output).toContain(new URL(first.url).port);
  });
});
