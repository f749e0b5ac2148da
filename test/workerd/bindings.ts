/** What a deployment gets as secrets; a test may know them. */
export const TEST_SECRETS = {
  MASTER_SECRET: "test-master-secret-that-is-long-enough-0",
  BOOTSTRAP_SECRET: "test-bootstrap-secret-that-is-long-enough",
  PUBLIC_URL: "http://orrery.test",
  ARTIFACTS_URL: "http://127.0.0.1:9/artifacts",
  HOST_RUNNER_URL: "http://127.0.0.1:9",
  HOST_RUNNER_TOKEN: "test-host-runner-token-that-is-long-enough",
};
