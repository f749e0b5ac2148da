import type { ProcessSpec } from "./adapter.ts";
import { programEnvironment } from "./environment.ts";

/** The name of the node's unit. */
export function unitName(nodeId: string): string {
  return `orrery-node-${nodeId}.service`;
}

/**
 * The node's unit file (systemd.service(5), systemd.exec(5)). Everything that comes from chain files is quoted,
 * so that no value can become a directive, a specifier or a variable.
 * @param user the account to run as; the service manager's own when null
 */
export function renderUnit(spec: ProcessSpec, user: string | null): string {
  const environment = Object.entries(programEnvironment(spec.dataDir, spec.env));
  const lines = [
    "# Written by the Orrery ops-agent; changes are overwritten.",
    "[Unit]",
    `Description=Chain node ${specifiersEscaped(spec.nodeId)}`,
    "After=network-online.target",
    "Wants=network-online.target",
    "",
    "[Service]",
    "Type=exec",
    ...(user === null ? [] : [`User=${user}`, ownership(spec.dataDir, user)]),
    `WorkingDirectory=${specifiersEscaped(spec.dataDir)}`,
    ...environment.map(([name, value]) => `Environment=${quoted(`${name}=${value}`)}`),
    // The leading colon keeps systemd from replacing $NAME in arguments.
    `ExecStart=:${[spec.program, ...spec.args].map(quoted).join(" ")}`,
    `KillSignal=${spec.stopSignal}`,
    "KillMode=mixed",
    `TimeoutStopSec=${Math.ceil(spec.stopGraceMs / 1_000)}`,
    "Restart=on-failure",
    "RestartSec=5",
    "NoNewPrivileges=yes",
    "PrivateTmp=yes",
    "ProtectSystem=strict",
    `ReadWritePaths=${quoted(spec.dataDir)}`,
    "",
    "[Install]",
    "WantedBy=multi-user.target",
    "",
  ];
  return lines.join("\n");
}

/** The agent writes the files and the node's own account must be able to use them; `+` runs this with the manager's rights, links are not followed. */
function ownership(dataDir: string, user: string): string {
  return `ExecStartPre=+:/bin/chown -hR ${user}: ${quoted(dataDir)}`;
}

/** One word for a unit file: in double quotes, with C escapes for what is special and `%%` for the specifier sign. */
function quoted(word: string): string {
  const escaped = specifiersEscaped(word)
    .replaceAll("\\", "\\\\")
    .replaceAll('"', '\\"')
    .replaceAll("\n", "\\n")
    .replaceAll("\r", "\\r")
    .replaceAll("\t", "\\t");
  return `"${escaped}"`;
}

function specifiersEscaped(text: string): string {
  return text.replaceAll("%", "%%");
}
