import { readFile } from "node:fs/promises";
import { Validator } from "@seriousme/openapi-schema-validator";
import { it } from "vitest";

/** The Worker's document as test/workerd/api/routes.test.ts last found it; the validator compiles code, which workerd forbids. */
const SNAPSHOT = new URL("../workerd/api/openapi.json.snap", import.meta.url);

it("the API's description is valid OpenAPI 3.1", async ({ expect }) => {
  const validator = new Validator();
  const result = await validator.validate(JSON.parse(await readFile(SNAPSHOT, "utf8")));
  expect(result).toMatchObject({ valid: true });
  expect(validator.version).toBe("3.1");
});
