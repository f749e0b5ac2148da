import { type Command, CommandType } from "../../proto/gen/orrery/agent/v1/gateway_pb.js";
import type { StepProgress } from "../recipe/runner.ts";

/** What a running command may use. */
export interface CommandContext {
  /** Fires when the command is cancelled, pre-empted, or the agent stops. */
  readonly signal: AbortSignal;
  readonly onProgress: (progress: StepProgress) => void;
}

/** The work of one command: its metadata when it succeeds, or an error with a code of the registry. */
export type Work = (context: CommandContext) => Promise<Readonly<Record<string, string>>>;

/** Turns a command into its work, or null when this agent does not know it or its payload. Nothing takes effect here. */
export type Interpret = (command: Command) => Work | null;

/** The command's type by name, also when this agent does not know it. */
export function commandTypeName(type: CommandType): string {
  return CommandType[type] ?? `number ${type}`;
}
