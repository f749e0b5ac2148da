import { bodyLimit } from "hono/body-limit";
import { createMiddleware } from "hono/factory";
import { DEFAULTS } from "../../../domain/defaults.ts";
import { OrreryError } from "../../../domain/errors.ts";
import type { ApiEnv } from "../context.ts";

/** Refuses a longer body before it is read, also one that does not say how long it is. */
export function limitBody(maxBytes: number = DEFAULTS.api.bodyLimitBytes) {
  return bodyLimit({
    maxSize: maxBytes,
    onError: () => {
      throw new OrreryError("body_too_large", `The body is longer than ${maxBytes} bytes.`, { limit_bytes: maxBytes });
    },
  });
}

const JSON_TYPE = /^application\/json(\s*;.*)?$/i;

/** Reads the body as JSON; the schema comes after. A route whose body is optional takes none at all, too. */
export function jsonBody(required: boolean) {
  return createMiddleware<ApiEnv>(async (c, next) => {
    const type = c.req.header("content-type");
    if (type !== undefined && !JSON_TYPE.test(type)) throw notJson();
    const text = await c.req.text();
    if (type === undefined) {
      if (required || text !== "") throw notJson();
      return next();
    }
    try {
      JSON.parse(text);
    } catch (cause) {
      throw new OrreryError("malformed_json", "The body is not valid JSON.", {}, { cause });
    }
    await next();
  });
}

/** Lets a body of this media type pass, unread. */
export function bodyOfType(mediaType: string) {
  return createMiddleware<ApiEnv>(async (c, next) => {
    const [type] = (c.req.header("content-type") ?? "").split(";");
    if (type?.trim().toLowerCase() !== mediaType) {
      throw new OrreryError("unsupported_media_type", `The body must be sent as ${mediaType}.`);
    }
    await next();
  });
}

function notJson(): OrreryError {
  return new OrreryError("unsupported_media_type", "The body must be sent as application/json.");
}
