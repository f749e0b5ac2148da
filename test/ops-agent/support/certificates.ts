import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";

export interface Certificates {
  readonly ca: string;
  readonly cert: string;
  readonly key: string;
}

/**
 * An authority of a test's own and a certificate for 127.0.0.1, good for a server and for a client, as files in a
 * directory.
 */
export function makeCertificates(directory: string): Certificates {
  const file = (name: string) => join(directory, name);
  const openssl = (...args: string[]) => execFileSync("openssl", args, { stdio: "pipe" });
  const newKey = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
  openssl(
    ...["req", "-x509", ...newKey, "-subj", "/CN=Test authority", "-days", "1"],
    ...["-keyout", file("ca.key"), "-out", file("ca.pem")],
  );
  openssl("req", ...newKey, "-subj", "/CN=127.0.0.1", "-keyout", file("end.key"), "-out", file("end.csr"));
  writeFileSync(file("end.ext"), "subjectAltName=IP:127.0.0.1\n");
  openssl(
    ...["x509", "-req", "-in", file("end.csr"), "-CA", file("ca.pem"), "-CAkey", file("ca.key"), "-CAcreateserial"],
    ...["-days", "1", "-extfile", file("end.ext"), "-out", file("end.pem")],
  );
  return { ca: file("ca.pem"), cert: file("end.pem"), key: file("end.key") };
}
