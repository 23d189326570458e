// What a person thinks of a run's answer: said here, kept by the server, listed by its API.

import { get, post, query } from "./api.js";
import { button, field, h, problem, say, show } from "./dom.js";
import { time } from "./format.js";

const WORDS = { UP: "Good answer", DOWN: "Bad answer" };

const EXPLANATION_CHARS = 8000;

/** The verdict on a run, and a way to give or to change it. Empty for a key that may not read it. */
export class Feedback {
  constructor(run, signal) {
    this.run = run;
    this.signal = signal;
    this.element = h("section", { class: "feedback", "aria-label": "Feedback" });
  }

  async load() {
    try {
      const { feedback } = await get(query("/reply-feedback", { agentRunId: this.run, limit: 1 }), this.signal);
      this.#draw(feedback[0]);
    } catch {
      // The run is what the page is for; what was thought of it is shown where it can be.
    }
  }

  #draw(given) {
    const why = h("textarea", { rows: 2, maxlength: EXPLANATION_CHARS, value: given?.explanation ?? "" });
    const trouble = h("div", null);
    const choices = Object.entries(WORDS).map(([verdict, label]) =>
      button(label, () => send(verdict), { "aria-pressed": String(given?.verdict === verdict) }));
    const send = async (verdict) => {
      choices.forEach((one) => (one.disabled = true));
      try {
        const explanation = why.value.trim() || undefined;
        await post(`/agent-runs/${encodeURIComponent(this.run)}/feedback`, { verdict, explanation }, { signal: this.signal });
        this.#draw({ verdict, explanation, updatedAt: new Date().toISOString() });
        say(`Noted: ${WORDS[verdict]}`);
      } catch (error) {
        if (this.signal.aborted) return;
        choices.forEach((one) => (one.disabled = false));
        show(trouble, problem(error));
      }
    };
    const told = given && h("p", { class: "given" }, h("b", null, WORDS[given.verdict] ?? given.verdict), " ", time(given.updatedAt ?? given.createdAt),
      given.explanation && h("span", { class: "said" }, ` ${given.explanation}`));
    const form = h("details", { open: !given }, h("summary", null, given ? "Change the verdict" : "Was it a good answer?"),
      field("Why (optional)", why), h("div", { class: "row" }, choices), trouble);
    show(this.element, told, form);
  }
}
