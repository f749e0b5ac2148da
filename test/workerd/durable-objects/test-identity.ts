import { x25519 } from "@noble/curves/ed25519.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, utf8ToBytes } from "@noble/hashes/utils.js";
import { type EnrolmentClaim, knockMessage, type TicketSubject } from "../../../domain/identity/enrolment.ts";
import { sign, signingPublicKey } from "../../../domain/identity/signature.ts";

const INSTALLATION = "11111111-1111-4111-8111-111111111111";

/** What an agent keeps in its state directory; the same id has the same keys, so that a copy is easily made. */
export class TestIdentity {
  readonly installationId: string;
  readonly signingSecret: Uint8Array;
  readonly sealingSecret: Uint8Array;

  constructor(installationId: string = INSTALLATION, keys: string = installationId) {
    this.installationId = installationId;
    this.signingSecret = sha256(utf8ToBytes(`signing ${keys}`));
    this.sealingSecret = sha256(utf8ToBytes(`sealing ${keys}`));
  }

  /** What it signs for a connection; hex. */
  knock(subject: TicketSubject): string {
    return bytesToHex(sign(this.signingSecret, knockMessage(subject)));
  }

  claim(nodeId: string, generation = 1): EnrolmentClaim {
    return {
      nodeId,
      generation,
      installationId: this.installationId,
      signingKey: signingPublicKey(this.signingSecret),
      sealingKey: x25519.getPublicKey(this.sealingSecret),
    };
  }
}
