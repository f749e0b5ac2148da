import type { Command } from "commander";
import { chainContentHash } from "../../domain/chain/hash.ts";
import { parseChainFiles } from "../../domain/chain/parse.ts";
import { chainSchema, listOf } from "../answers.ts";
import { type ChainFiles, readChainFiles } from "../chain-files.ts";
import { Failure } from "../failure.ts";
import { addPaging, type Paging, readPages, showPage } from "../paging.ts";
import { record, time } from "../print.ts";
import { type Session, sessionOf } from "../session.ts";

export function addChains(program: Command): void {
  const chains = program.command("chains").description("The chains that nodes can be of");

  addPaging(chains.command("list"))
    .description("List the chains that were pushed")
    .action((options: Paging, command: Command) => list(options, sessionOf(command)));

  chains
    .command("validate")
    .description("Check a chain's files on this machine; nothing is sent")
    .argument("<dir>", "the chain's directory, named like the chain")
    .action((dir: string, _options: unknown, command: Command) => validate(dir, sessionOf(command)));

  chains
    .command("push")
    .description("Check a chain's files and make them the deployment's version of it")
    .argument("<dir>", "the chain's directory, named like the chain")
    .action((dir: string, _options: unknown, command: Command) => push(dir, sessionOf(command)));
}

async function list(paging: Paging, session: Session): Promise<void> {
  const page = await readPages(await session.api(), "/chains", listOf(chainSchema), paging);
  showPage(session, page, {
    CHAIN: (chain) => chain.id,
    NAME: (chain) => chain.display_name,
    TYPES: (chain) => chain.node_types.map(({ name }) => name).join(" "),
    PUSHED: (chain) => time(chain.pushed_at),
    VERSION: (chain) => chain.content_hash,
  });
}

async function validate(dir: string, session: Session): Promise<void> {
  const { chain, files } = await readChainFiles(dir);
  const nodeTypes = requireValid({ chain, files });
  const answer = { chain, valid: true, content_hash: await chainContentHash(files), node_types: nodeTypes };
  session.result(answer, () => `The chain ${chain} is valid (node types: ${nodeTypes.join(", ")}).\n`);
}

async function push(dir: string, session: Session): Promise<void> {
  const { chain, files } = await readChainFiles(dir);
  requireValid({ chain, files });
  const api = await session.api();
  const pushed = await api.put(`/chains/${encodeURIComponent(chain)}`, chainSchema, { files });
  session.result(pushed, () =>
    record({
      chain: pushed.id,
      name: pushed.display_name,
      version: pushed.content_hash,
      pushed: time(pushed.pushed_at),
    }),
  );
}

/** The chain's node types. @throws Failure chain_invalid with every issue */
function requireValid({ chain, files }: ChainFiles): string[] {
  try {
    return Object.keys(parseChainFiles(chain, files).recipes);
  } catch (error) {
    const { code, message, details }: { code?: unknown; message?: unknown; details?: unknown } = Object(error);
    if (code !== "chain_invalid") throw error;
    const parts = { code, message: String(message), advice: "Correct the files at the places that are named." };
    throw new Failure({ ...parts, details: Object(details) }, { cause: error });
  }
}
