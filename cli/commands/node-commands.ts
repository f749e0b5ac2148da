import { Argument, type Command } from "commander";
import type { z } from "zod";
import { commandSchema, listOf } from "../answers.ts";
import { parseDuration } from "../duration.ts";
import { addPaging, type Paging, readPages, showPage } from "../paging.ts";
import { type Columns, record, time } from "../print.ts";
import { type Session, sessionOf } from "../session.ts";

/** What a person may ask of a node; the other commands belong to sagas. */
const TYPES = ["START", "STOP", "RESTART"];

type CommandAnswer = z.output<typeof commandSchema>;

export const COMMAND_COLUMNS: Columns<CommandAnswer> = {
  COMMAND: ({ id }) => id,
  TYPE: ({ type }) => type,
  STATE: ({ state }) => state,
  CREATED: ({ created_at }) => time(created_at),
  ENDED: ({ ended_at }) => (ended_at === null ? "" : time(ended_at)),
  RESULT: ({ code, message }) => [code, message].filter((part) => part !== null).join(": "),
};

export function addNodeCommands(nodes: Command): void {
  const commands = nodes.command("commands").description("What the node's agent is asked to do");

  addPaging(commands.command("list", { isDefault: true }))
    .description("List a node's commands, the latest first")
    .argument("<node>", "the node's id")
    .action((node: string, options: Paging, command: Command) => list(node, options, sessionOf(command)));

  commands
    .command("get")
    .description("Show one command")
    .argument("<node>", "the node's id")
    .argument("<command>", "the command's id")
    .action((node: string, id: string, _options: unknown, command: Command) => get(node, id, sessionOf(command)));

  commands
    .command("send")
    .description("Ask the node's agent for something")
    .argument("<node>", "the node's id")
    .addArgument(new Argument("<type>", "what to do").choices(TYPES))
    .option("--ttl <duration>", "give up when it has not started within this time", parseDuration)
    .action((node: string, type: string, options: { ttl?: number }, command: Command) =>
      send(node, type, options.ttl, sessionOf(command)),
    );

  commands
    .command("cancel")
    .description("Cancel a command that has not ended")
    .argument("<node>", "the node's id")
    .argument("<command>", "the command's id")
    .action((node: string, id: string, _options: unknown, command: Command) => cancel(node, id, sessionOf(command)));
}

const commandsPath = (node: string) => `/nodes/${encodeURIComponent(node)}/commands`;
const commandPath = (node: string, id: string) => `${commandsPath(node)}/${encodeURIComponent(id)}`;

async function list(node: string, paging: Paging, session: Session): Promise<void> {
  const page = await readPages(await session.api(), commandsPath(node), listOf(commandSchema), paging);
  showPage(session, page, COMMAND_COLUMNS);
}

async function get(node: string, id: string, session: Session): Promise<void> {
  const answer = await (await session.api()).get(commandPath(node, id), commandSchema);
  session.result(answer, () => record(answer));
}

async function send(node: string, type: string, ttlMs: number | undefined, session: Session): Promise<void> {
  const body = ttlMs === undefined ? { type } : { type, ttl_seconds: ttlMs / 1000 };
  const answer = await (await session.api()).post(commandsPath(node), commandSchema, body);
  session.result(answer, () => record(answer));
}

async function cancel(node: string, id: string, session: Session): Promise<void> {
  const answer = await (await session.api()).post(`${commandPath(node, id)}/cancel`, commandSchema, {});
  session.result(answer, () => record(answer));
}
