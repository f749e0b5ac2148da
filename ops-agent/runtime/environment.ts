const PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** The whole environment of a program that the agent starts: nothing of the agent's own gets in. */
export function programEnvironment(home: string, own: Readonly<Record<string, string>>): Record<string, string> {
  return { PATH, HOME: home, LANG: "C.UTF-8", ...own };
}
