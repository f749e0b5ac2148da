import { createMiddleware } from "hono/factory";
import { uuidv7 } from "uuidv7";
import { type ApiEnv, setHeader } from "../context.ts";

const ACCEPTABLE = /^[A-Za-z0-9._-]{1,128}$/;

/** Takes the caller's X-Correlation-Id, or makes one, and answers with it. */
export const correlation = createMiddleware<ApiEnv>(async (c, next) => {
  const given = c.req.header("x-correlation-id");
  const id = given !== undefined && ACCEPTABLE.test(given) ? given : uuidv7();
  c.set("correlationId", id);
  await next();
  setHeader(c, "x-correlation-id", id);
});
