import { readSettings } from "./settings.ts";

/** Whether the bridge that has this environment lives: exits 0 when it does. For containers, whose images have no curl. */
const { httpListen } = readSettings(process.env);
const response = await fetch(`http://${reachable(httpListen.host)}:${httpListen.port}/healthz`, {
  signal: AbortSignal.timeout(3_000),
});
process.exitCode = response.ok ? 0 : 1;

/** Who listens everywhere listens at home. */
function reachable(host: string): string {
  if (host === "0.0.0.0") return "127.0.0.1";
  if (host === "::") return "[::1]";
  return host.includes(":") ? `[${host}]` : host;
}
