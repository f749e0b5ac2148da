import type { ErrorCode } from "../../domain/errors.ts";
import type { EnrolmentClaim } from "../../domain/identity/enrolment.ts";
import type { CommandRequest, CommandView } from "../../domain/node/command.ts";
import type {
  NodeBirth,
  NodeEvent,
  NodeProjection,
  NodeState,
  NodeView,
  SagaWait,
  TransitionTrigger,
} from "../../domain/node/node.ts";

/**
 * What a NodeObject answers over RPC. Every method may be called again with the same arguments without doing more.
 * Errors carry a code of domain/errors.ts (`node_not_found` when the object was never initialised).
 */
export interface NodeContract {
  /** Creates the node in `provisioning`; the same birth again answers the node as it is, another birth is `incarnation_conflict`. */
  initialise(birth: NodeBirth): Promise<NodeView>;
  /** The node as it is now; a node that has ended answers from its tombstone. */
  view(): Promise<NodeView>;
  /** Expects an agent of this generation (candidate while there is an active one of a lower generation, else active). `notify` is told at its first session. */
  expectInstallation(generation: number, notify: SagaWait | null): Promise<void>;
  /**
   * Binds an installation's keys to its generation; the Worker has verified that the claim was made under the node token.
   * The same claim again answers the same; another is refused and tells of an `agent_conflict`.
   */
  enroll(claim: EnrolmentClaim): Promise<EnrolmentOutcome>;
  /**
   * Revokes the active installation and expects another of the next generation in its place (a rebuilt disk). What was
   * asked of the old one is ended as superseded. Asked again for a generation that is expected already, it changes nothing.
   * @throws node_ended, node_terminating, invalid_transition while the node is provisioning
   */
  replaceInstallation(generation: number, notify: SagaWait | null): Promise<NodeView>;
  /** Whether an agent of this generation holds a session now. */
  isAgentReady(generation: number): Promise<boolean>;
  /** A saga's own transition by the table of DESIGN section 4; already being in `to` is a success. */
  transition(to: NodeState, trigger: TransitionTrigger, reason: string | null): Promise<NodeView>;
  /** For compensation and operators: skips the table (never out of a terminal state) and leaves an audit row. */
  forceTransition(to: NodeState, trigger: TransitionTrigger, reason: string, actor: string): Promise<NodeView>;
  enqueueCommand(request: CommandRequest): Promise<CommandView>;
  cancelCommand(commandId: string, actor: string): Promise<CommandView>;
  command(commandId: string): Promise<CommandView>;
  /** Newest first; `before` is the position of an earlier answer's last entry. */
  commands(page: {
    readonly limit: number;
    readonly before: number | null;
  }): Promise<{ readonly items: readonly CommandView[]; readonly next: number | null }>;
  /** Events after `position`, oldest first, with the projection as it is now. */
  readOutbox(
    afterPosition: number,
    limit: number,
  ): Promise<{
    readonly incarnation: number;
    readonly events: readonly NodeEvent[];
    readonly projection: NodeProjection;
  }>;
  /** Forgets what the consumer has committed; when the node has ended and nothing is unread, storage goes but a tombstone. */
  purgeOutbox(incarnation: number, throughPosition: number): Promise<void>;
  /** Wakes the object: past-due timers run, the alarm is armed if it was lost. Answers the projection for repair. */
  touch(): Promise<NodeProjection>;
}

/** What an enrolment came to. A refusal without `reconnectAfterMs` is for good. */
export type EnrolmentOutcome =
  | { readonly ok: true }
  | {
      readonly ok: false;
      readonly code: ErrorCode;
      readonly message: string;
      readonly reconnectAfterMs: number | null;
    };
