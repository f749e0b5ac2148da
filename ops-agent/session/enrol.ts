import { create, toBinary } from "@bufbuild/protobuf";
import { OrreryError } from "../../domain/errors.ts";
import { type EnrolmentClaim, enrolmentMac, isEnrolmentAnswerMac } from "../../domain/identity/enrolment.ts";
import {
  type EnrollRequest,
  EnrollRequestSchema,
  type EnrollResponse,
  EnrollResponseSchema,
} from "../../proto/gen/orrery/agent/v1/gateway_pb.js";

/** The request by which an installation's keys are made known; the same claim gives the same request. */
export function enrolmentRequest(nodeToken: string, claim: EnrolmentClaim): EnrollRequest {
  return create(EnrollRequestSchema, { ...claim, mac: enrolmentMac(nodeToken, claim) });
}

/**
 * What the control plane answered.
 * @throws enrolment_forged when the answer is not the control plane's, or not to this request
 */
export function enrolmentResult(
  nodeToken: string,
  request: EnrollRequest,
  { result, mac }: EnrollResponse,
): Exclude<EnrollResponse["result"], { case: undefined }> {
  const bytes = toBinary(EnrollResponseSchema, create(EnrollResponseSchema, { result }));
  if (result.case === undefined || !isEnrolmentAnswerMac(nodeToken, request.mac, bytes, mac)) {
    throw new OrreryError("enrolment_forged", "The answer to the enrolment is not the control plane's.");
  }
  return result;
}
