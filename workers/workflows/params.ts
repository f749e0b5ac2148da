import { z } from "zod";

/** What a saga's instance is given: ids only, so that nothing secret or large is kept by the engine. */
export const sagaParamsSchema = z.strictObject({ nodeId: z.uuid() });
export type SagaParams = z.output<typeof sagaParamsSchema>;
