import { subscribe, unsubscribe } from "node:diagnostics_channel";

/** Of each HTTP/2 stream, before gRPC sees it; both see the same headers. */
const CHANNEL = "http2.server.stream.created";
const ENCODING = "grpc-encoding";

/**
 * Has gRPC refuse compressed messages with UNIMPLEMENTED. Agents send none, and gRPC, which has no setting for it, unpacks
 * all that come in one piece at once: two megabytes of a stranger's became two gigabytes.
 * @returns what ends it
 */
export function refuseCompression(): () => void {
  subscribe(CHANNEL, disown);
  return () => void unsubscribe(CHANNEL, disown);
}

function disown(message: unknown): void {
  if (typeof message !== "object" || message === null || !("headers" in message)) return;
  const { headers } = message;
  if (typeof headers !== "object" || headers === null || !(ENCODING in headers)) return;
  // The answer says: unsupported encoding "any".
  if (headers[ENCODING] !== "identity") headers[ENCODING] = "any";
}
