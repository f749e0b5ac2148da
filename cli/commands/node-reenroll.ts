import { access, constants, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Command } from "commander";
import type { z } from "zod";
import { reenrolmentSchema } from "../answers.ts";
import { Failure, UsageFailure } from "../failure.ts";
import { lines, record } from "../print.ts";
import { type Session, sessionOf } from "../session.ts";

const TOKEN_FILE = "node-token";
const AGENT_FILE = "agent.yaml";

export function addNodeReenroll(nodes: Command): void {
  nodes
    .command("reenroll")
    .description("Revoke a node's agent and expect another, on a host whose disk was rebuilt (operators only)")
    .argument("<node>", "the node's id")
    .option("--out <dir>", `write ${TOKEN_FILE} and ${AGENT_FILE} into this directory`)
    .action((node: string, options: { out?: string }, command: Command) =>
      reenroll(node, options.out, sessionOf(command)),
    );
}

/** The old agent is gone by the answer, and no later answer shows the token: whether it can be kept is looked at before. */
async function reenroll(node: string, out: string | undefined, session: Session): Promise<void> {
  const api = await session.api();
  if (out !== undefined) await makeRoom(out);
  const answer = await api.post(`/nodes/${encodeURIComponent(node)}/reenroll`, reenrolmentSchema, {});
  const { generation, node_token: token, agent_yaml: yaml } = answer;
  if (token === null) throw lostToken(generation);
  if (out === undefined) {
    session.result(answer, () => `${record({ generation, "node token": token })}\n${AGENT_FILE}:\n\n${lines(yaml)}`);
    session.remark("The node token is shown this once, and whoever has it can enrol as the node's agent.");
    session.remark(
      `Keep both for the rebuilt host: the token alone in ${TOKEN_FILE} (mode 0600), ${AGENT_FILE} beside it.`,
    );
    return;
  }
  const files = await writeFiles(out, token, answer);
  session.result({ generation, ...files }, () => record({ generation, ...files }));
  session.remark("Bring both to the rebuilt host and start its agent with them; the node waits for it for a day.");
}

/** @throws UsageFailure when a file is there already, or could not be written */
async function makeRoom(dir: string): Promise<void> {
  await mkdir(dir, { recursive: true, mode: 0o700 }).catch((error: Error) => {
    throw new UsageFailure(`${dir} cannot be made: ${error.message}.`);
  });
  for (const name of [TOKEN_FILE, AGENT_FILE]) {
    const isThere = await access(join(dir, name)).then(
      () => true,
      () => false,
    );
    if (isThere) throw new UsageFailure(`${join(dir, name)} is there already; name another directory.`);
  }
  await access(dir, constants.W_OK).catch(() => {
    throw new UsageFailure(`${dir} cannot be written to.`);
  });
}

async function writeFiles(dir: string, token: string, answer: z.output<typeof reenrolmentSchema>) {
  const files = { node_token: join(dir, TOKEN_FILE), agent_yaml: join(dir, AGENT_FILE) };
  try {
    await writeFile(files.node_token, `${token}\n`, { mode: 0o600, flag: "wx" });
    await writeFile(files.agent_yaml, answer.agent_yaml, { mode: 0o644, flag: "wx" });
  } catch (cause) {
    const message = cause instanceof Error ? cause.message : String(cause);
    throw new Failure(
      {
        code: "output_failed",
        message: `The node was re-enrolled as generation ${answer.generation}, but ${message}.`,
        advice: "Run the command again with a directory that takes files; it goes on to the generation after.",
      },
      { cause },
    );
  }
  return files;
}

/** The answer to our first attempt was lost, and no later one shows the token again. */
function lostToken(generation: number): Failure {
  return new Failure({
    code: "token_lost",
    message: `The node was re-enrolled as generation ${generation}, but the network lost the one answer with its token.`,
    advice: "Run the command again; it goes on to the generation after.",
    details: { generation },
  });
}
