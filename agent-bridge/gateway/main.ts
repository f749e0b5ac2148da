import { errorCodeOf, toErrorData } from "../../domain/errors.ts";
import { Bridge } from "./bridge.ts";
import { HealthServer } from "./health.ts";
import { createLog } from "./log.ts";
import { readSettings } from "./settings.ts";

/** 2: a setting is wrong, and a service manager need not try again. */
const EXIT = { drained: 0, failed: 1, configuration: 2, killed: 130 } as const;

try {
  await main();
} catch (error) {
  const code = errorCodeOf(error);
  process.stderr.write(`${code === null && error instanceof Error ? error.stack : toErrorData(error).message}\n`);
  process.exit(code === "configuration_invalid" ? EXIT.configuration : EXIT.failed);
}

async function main(): Promise<void> {
  const settings = readSettings(process.env);
  const log = createLog(settings.logLevel);
  const bridge = new Bridge(settings, log);
  const health = new HealthServer(bridge, settings);
  const [port, httpPort] = await Promise.all([bridge.open(), health.open()]);
  process.stdout.write(
    `${JSON.stringify({
      url: `${settings.tls === null ? "grpc" : "grpcs"}://${hostInUrl(settings.listen.host)}:${port}`,
      http_url: `http://${hostInUrl(settings.httpListen.host)}:${httpPort}`,
    })}\n`,
  );
  let isDraining = false;
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    process.on(signal, () => {
      if (isDraining) process.exit(EXIT.killed);
      isDraining = true;
      void bridge.drain(Math.random).then(() => {
        health.close();
        process.exit(EXIT.drained);
      });
    });
  }
}

function hostInUrl(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}
