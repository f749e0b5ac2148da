/**
 * The one registry of errors. An error is a code: it crosses every boundary (HTTP, RPC, frames, Postgres) as data,
 * and `advice` is a sentence that the person who meets it can act on.
 */
interface ErrorDefinition {
  readonly status: number;
  readonly advice: string;
}

export const ERRORS = {
  // Requests
  invalid_request: { status: 400, advice: "Correct the fields named in `issues` and send the request again." },
  malformed_json: { status: 400, advice: "Send a body that is valid JSON with `Content-Type: application/json`." },
  invalid_cursor: { status: 400, advice: "Use the `next_cursor` of an earlier page unchanged, or leave it out." },
  idempotency_key_required: {
    status: 400,
    advice: "Send an `Idempotency-Key` header of 1 to 200 visible ASCII characters with every POST.",
  },
  idempotency_key_reused: {
    status: 422,
    advice: "This Idempotency-Key was used for a different request; use a new key for a new request.",
  },
  idempotency_in_progress: {
    status: 409,
    advice: "The first request with this key is still running; try again shortly.",
  },
  body_too_large: { status: 413, advice: "Send a smaller body; the limit is in the API's documentation." },
  unsupported_media_type: { status: 415, advice: "Send the body as `application/json`." },
  not_found: { status: 404, advice: "Check the id; it must be one that your key may see." },
  method_not_allowed: { status: 405, advice: "Use a method that the API's documentation lists for this path." },
  // Identity
  unauthenticated: { status: 401, advice: "Send an API key as `Authorization: Bearer orr_…`." },
  api_key_expired: { status: 401, advice: "Ask an operator for a new API key." },
  insufficient_scope: { status: 403, advice: "Use an API key that has the scope named in `required_scope`." },
  rate_limited: { status: 429, advice: "Wait for the seconds given in `Retry-After`." },
  bootstrap_used: {
    status: 403,
    advice: "The bootstrap secret works once; use an operator key, or set a new secret and deploy.",
  },
  // Chains and subscriptions
  chain_not_found: {
    status: 404,
    advice: "Push the chain with `orrery chains push`, or choose one that `orrery chains list` shows.",
  },
  chain_invalid: {
    status: 422,
    advice: "Correct the chain's files as named in `issues`; `orrery chains validate` checks them locally.",
  },
  node_type_not_found: { status: 422, advice: "Choose a node type that the chain's profile declares." },
  provider_unavailable: {
    status: 422,
    advice: "Choose a provider that the chain's profile and this deployment both have.",
  },
  subscription_not_active: { status: 409, advice: "Activate or renew the subscription, or use another." },
  subscription_in_use: {
    status: 409,
    advice: "The subscription already has its node; terminate that one or use another subscription.",
  },
  // Nodes
  node_not_found: { status: 404, advice: "Check the node's id; it must be one that your key may see." },
  node_ended: { status: 409, advice: "The node has ended; create a new one." },
  node_terminating: { status: 409, advice: "The node is being terminated; nothing else can be asked of it." },
  invalid_transition: { status: 409, advice: "The node's state does not allow this; look at its state and events." },
  state_changed: { status: 409, advice: "The node changed meanwhile; read it again and retry." },
  incarnation_conflict: { status: 409, advice: "The object was created anew meanwhile; read it again and retry." },
  // Commands
  command_not_found: { status: 404, advice: "Check the command's id; `orrery nodes get` lists the latest." },
  command_ended: { status: 409, advice: "The command has ended; look at its result." },
  command_expired: {
    status: 409,
    advice: "The command was not started within its time to live; send a new one if it still makes sense.",
  },
  command_cancelled: { status: 409, advice: "The command was cancelled." },
  command_interrupted: {
    status: 409,
    advice: "The agent or host stopped in the middle; look at the node, then send a new command.",
  },
  command_lost: {
    status: 409,
    advice: "The agent no longer reports the command as running; look at the node, then send a new one.",
  },
  command_stalled: {
    status: 409,
    advice: "The command made no progress for too long; look at its last step and the agent's log.",
  },
  command_refused: { status: 422, advice: "The agent does not know this command or its payload; upgrade the agent." },
  command_failed: { status: 422, advice: "Look at the message and the agent's log; the step that failed is named." },
  no_installation: { status: 409, advice: "The node has no agent yet; wait until it is provisioned." },
  // Agents
  agent_unauthenticated: { status: 401, advice: "Check the node token in the agent's configuration." },
  agent_conflict: {
    status: 409,
    advice: "Another installation holds this node; stop the copy, or re-enrol a rebuilt host.",
  },
  agent_revoked: { status: 403, advice: "This host no longer belongs to the node; shut it down." },
  agent_protocol_unsupported: {
    status: 426,
    advice: "Upgrade the agent: the edge speaks the current protocol version and the one before.",
  },
  agent_not_enrolled: { status: 409, advice: "Enrol the installation's keys, then open the session again." },
  proof_invalid: { status: 401, advice: "The installation's key did not sign this session; re-enrol a rebuilt host." },
  frame_forged: {
    status: 400,
    advice: "A frame was altered or made up on its way; look at what stands between agent and control plane.",
  },
  frame_replayed: {
    status: 400,
    advice: "A frame came twice; look at what stands between agent and control plane.",
  },
  frame_out_of_order: {
    status: 400,
    advice: "A frame was left out or reordered; look at what stands between agent and control plane.",
  },
  challenge_forged: {
    status: 400,
    advice: "No trusted control key signed the challenge; look at the bridge, and re-enrol after a missed rotation.",
  },
  goodbye_forged: { status: 400, advice: "No trusted control key signed the refusal; look at the bridge." },
  command_forged: { status: 400, advice: "No trusted control key signed the command; look at the bridge." },
  enrolment_forged: { status: 400, advice: "The enrolment's answer is not the control plane's; look at the bridge." },
  // The bridge
  edge_unreachable: {
    status: 502,
    advice: "The bridge does not reach the edge; the agent tries again or goes direct.",
  },
  bridge_overloaded: {
    status: 503,
    advice: "Start another bridge or raise its limits; agents try again or go direct.",
  },
  bridge_draining: { status: 503, advice: "The bridge is going away; reconnect after the hint." },
  exchange_lost: { status: 409, advice: "The bridge does not know this exchange (any more); open a new one." },
  malformed_frame: { status: 400, advice: "Send frames of the published protocol; the session was closed." },
  frame_too_large: { status: 413, advice: "Send frames of at most 256 KiB; the session was closed." },
  // Agent work
  recipe_invalid: { status: 422, advice: "Correct the recipe as named in the message." },
  path_outside_data_dir: {
    status: 422,
    advice: "Use paths inside the node's data directory, without `..`, absolute parts or symbolic links that leave it.",
  },
  template_unresolved: { status: 422, advice: "Define the value in the profile or correct its name in the template." },
  download_failed: { status: 422, advice: "Check that the artifact's address answers from the host." },
  checksum_mismatch: {
    status: 422,
    advice: "The artifact is not the one that the profile names; correct the checksum or the artifact.",
  },
  step_failed: { status: 422, advice: "Look at the message and the agent's log; the step that failed is named." },
  step_timeout: { status: 422, advice: "The step took longer than its timeout; look at the agent's log." },
  process_start_failed: { status: 422, advice: "Look at the chain node's log on the host." },
  disk_full: { status: 422, advice: "Free space on the host's data disk, then send the command again." },
  // Keys
  keys_missing: {
    status: 409,
    advice: "The node's keys are not in Postgres; restore them with `orrery nodes keys restore`.",
  },
  key_backup_missing: { status: 404, advice: "There is nothing to restore from; keys of an ended node are deleted." },
  keys_conflict: { status: 409, advice: "Other keys are there already; nothing was overwritten." },
  key_unreadable: {
    status: 500,
    advice:
      "The keys do not open as they were made: check MASTER_SECRET, or whether they were altered; then restore them from the backup.",
  },
  key_injection_failed: {
    status: 422,
    advice: "Look at the message and the agent's log; no key was left half written.",
  },
  // Sagas and infrastructure
  saga_not_found: { status: 404, advice: "Check the saga's id." },
  saga_superseded: { status: 409, advice: "Another saga of this node took over; look at that one." },
  agent_not_ready: {
    status: 504,
    advice: "The host was created but its agent did not connect in time; look at the host's console.",
  },
  inputs_unsupported: {
    status: 422,
    advice: "Choose a chain whose keys are all generated and that requires no inputs; this version provides no others.",
  },
  provider_error: {
    status: 502,
    advice: "The infrastructure provider refused or failed; look at the message, then try again.",
  },
  provider_quota: {
    status: 502,
    advice: "The infrastructure provider has no capacity or quota left; raise it or choose another region.",
  },
  cleanup_incomplete: {
    status: 500,
    advice: "Something was left at the provider; look at `partial_failures` and remove it by hand.",
  },
  // The deployment
  configuration_invalid: { status: 500, advice: "Set the values named in the message and start again." },
  database_unavailable: { status: 503, advice: "Postgres does not answer; try again, and check /readyz." },
  limit_exceeded: { status: 500, advice: "A value is larger than the platform's limit named in the message." },
  schema_ahead: { status: 500, advice: "The stored schema is newer than this version; deploy the newer version." },
  schema_conflict: {
    status: 500,
    advice: "The stored schema has another history than this version's; deploy the version that wrote it.",
  },
  internal: { status: 500, advice: "Try again; if it stays, give the correlation id to the operator." },
} as const satisfies Record<string, ErrorDefinition>;

export type ErrorCode = keyof typeof ERRORS;

/** What an error carries beside its code: plain data that a client may see (never a secret or a host's id). */
export type ErrorDetails = Readonly<Record<string, unknown>>;

export class OrreryError extends Error {
  readonly code: ErrorCode;
  readonly details: ErrorDetails;

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}, options?: ErrorOptions) {
    super(message, options);
    this.name = "OrreryError";
    this.code = code;
    this.details = details;
  }
}

export function isErrorCode(value: unknown): value is ErrorCode {
  return typeof value === "string" && Object.hasOwn(ERRORS, value);
}

/** The error as data. RPC loses the class but keeps own properties, so this looks at the code and never at the class. */
export interface ErrorData {
  readonly code: ErrorCode;
  readonly message: string;
  readonly details: ErrorDetails;
}

/** Reads any thrown value as data; what carries no code of ours is `internal` and its message stays inside. */
export function toErrorData(thrown: unknown): ErrorData {
  const code = errorCodeOf(thrown);
  if (code === null) return { code: "internal", message: "Something went wrong on our side.", details: {} };
  const carrier: { message?: unknown; details?: unknown } = Object(thrown);
  return {
    code,
    message: typeof carrier.message === "string" ? carrier.message : ERRORS[code].advice,
    details: isDetails(carrier.details) ? carrier.details : {},
  };
}

/** The code that a thrown value carries, or null when it carries none of ours. */
export function errorCodeOf(thrown: unknown): ErrorCode | null {
  if (typeof thrown !== "object" || thrown === null || !("code" in thrown)) return null;
  return isErrorCode(thrown.code) ? thrown.code : null;
}

function isDetails(value: unknown): value is ErrorDetails {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
