/** Shows the demo's steps as they happen: one line each, with how long it took. */
export interface Display {
  heading(text: string): void;
  line(text: string): void;
  /** Runs `work` under a running line; its result is shown with the time it took, and a failure is shown and thrown on. */
  step<T>(label: string, work: (note: (text: string) => void) => Promise<T>): Promise<T>;
  /** Shows nothing more of the steps that are running: whoever ran them has turned to something else. */
  abandonSteps(): void;
}

const FRAME_MS = 100;
const FRAMES = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
const LABEL_WIDTH = 46;

/** @param live whether lines may be redrawn in place (a terminal); otherwise each step prints once when it is over. */
export function createDisplay(out: NodeJS.WritableStream, live: boolean): Display {
  const running = new Set<() => void>();
  return {
    heading: (text) => out.write(`\n${text}\n`),
    line: (text) => out.write(`  ${text}\n`),
    async step(label, work) {
      const startedAt = performance.now();
      let detail = "";
      const stopDrawing = live ? drawRunning(out, label, startedAt, () => detail) : () => undefined;
      running.add(stopDrawing);
      const end = (mark: string) => {
        // Abandoned meanwhile.
        if (!running.delete(stopDrawing)) return;
        stopDrawing();
        const text = detail === "" ? "" : `   ${detail}`;
        out.write(`  ${mark} ${label.padEnd(LABEL_WIDTH)} ${seconds(startedAt)}${text}\n`);
      };
      try {
        const result = await work((text) => {
          detail = text;
        });
        end("✓");
        return result;
      } catch (error) {
        end("✗");
        throw error;
      }
    },
    abandonSteps() {
      for (const stopDrawing of running) stopDrawing();
      running.clear();
    },
  };
}

function drawRunning(out: NodeJS.WritableStream, label: string, startedAt: number, detail: () => string): () => void {
  let frame = 0;
  const draw = () => {
    const spinner = FRAMES[frame++ % FRAMES.length];
    out.write(`\r\x1b[2K  ${spinner} ${label.padEnd(LABEL_WIDTH)} ${seconds(startedAt)}   ${detail()}`);
  };
  draw();
  const timer = setInterval(draw, FRAME_MS);
  return () => {
    clearInterval(timer);
    out.write("\r\x1b[2K");
  };
}

function seconds(since: number): string {
  return `${((performance.now() - since) / 1000).toFixed(1).padStart(6)} s`;
}
