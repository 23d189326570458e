// A tool call on the timeline: what it was asked, what it answered, and a form when it waits for somebody's answer.

import { newOnce, post } from "./api.js";
import { decisionForm } from "./decide.js";
import { button, h, problem, show } from "./dom.js";
import { fileList } from "./files.js";
import { pretty } from "./format.js";

const FOLDED_LINES = 14;
const FOLDED_CHARS = 900;

/** A text in a block of its own; a long one is folded, and only made when somebody opens it. */
export function block(label, value) {
  const text = pretty(value);
  const lines = text.split("\n", FOLDED_LINES + 1).length;
  if (lines <= FOLDED_LINES && text.length <= FOLDED_CHARS) {
    return h("div", { class: "block" }, h("div", { class: "label" }, label), h("pre", { tabindex: 0 }, text));
  }
  const size = text.length < 10_000 ? `${text.length} characters` : `${Math.round(text.length / 1000)}k characters`;
  const body = h("pre", { tabindex: 0 });
  const preview = text.slice(0, 160).replaceAll(/\s+/g, " ");
  return h("details", {
    class: "block",
    ontoggle: (event) => {
      if (event.target.open && body.textContent === "") body.textContent = text;
    },
  }, h("summary", null, h("span", { class: "label" }, label), h("span", { class: "size" }, size), h("span", { class: "preview" }, preview)), body);
}

/** One call. */
export class ToolCall {
  constructor(run, id, name) {
    this.run = run;
    this.id = id;
    this.name = name;
    this.state = h("span", { class: "state" });
    this.kind = h("span", { class: "kind" });
    this.body = h("div", { class: "body" });
    this.element = h("article", { class: "tool", "aria-label": `Tool ${name}` },
      h("header", null, h("code", { class: "name" }, name), this.kind, this.state), this.body);
    this.answered = false;
  }

  #mark(word, text) {
    this.element.dataset.state = word;
    this.state.textContent = text;
  }

  input(value) {
    if (this.hasInput) return;
    this.hasInput = true;
    const isEmpty = value && typeof value === "object" && Object.keys(value).length === 0;
    this.body.prepend(isEmpty ? h("p", { class: "quiet" }, "No arguments") : block("Arguments", value ?? null));
  }

  /** The server executes it. */
  running() {
    this.kind.textContent = "server";
    this.#mark("running", "running");
  }

  /** Somebody outside is asked; while the run lives, that can be whoever looks at the page. */
  waiting(kind, details, live) {
    this.kind.textContent = kind === "local" ? "client" : (kind ?? "client").replaceAll("_", " ");
    this.#mark("waiting", "waits for an answer");
    if (details) this.body.append(block("Where it goes", details));
    if (live) this.body.append((this.form = this.#answerForm()));
  }

  /** A person is asked; while the run lives, that can be whoever looks at the page. */
  pending(request, live) {
    this.kind.textContent = request.effect;
    this.#mark("waiting", "waits for approval");
    if (request.reason) this.body.append(h("p", { class: "reason" }, request.reason));
    if (live) this.body.append((this.form = decisionForm(request)));
  }

  /** A person decided, or nobody did in time. */
  decided({ status, input, note }) {
    this.form?.remove();
    this.#mark(status === "approved" ? "running" : "failed", status);
    if (input !== undefined) this.body.append(block("Executed with", input));
    if (note) this.body.append(h("p", { class: "reason" }, `Note: ${note}`));
  }

  #answerForm() {
    const text = h("textarea", { rows: 3, placeholder: "What the tool would answer: plain text or JSON", "aria-label": "Answer" });
    const trouble = h("div", null);
    const buttons = [];
    const send = async (field) => {
      if (field === "error" && text.value.trim() === "") {
        show(trouble, problem({ message: "Say what went wrong: an error needs a text." }));
        return;
      }
      buttons.forEach((one) => (one.disabled = true));
      try {
        await post(`/agent-runs/${encodeURIComponent(this.run)}/tool-results`, { toolUseId: this.id, [field]: text.value }, { once: newOnce() });
        if (!this.answered) this.#mark("waiting", "answer sent");
        show(trouble);
      } catch (error) {
        buttons.forEach((one) => (one.disabled = false));
        show(trouble, problem(error));
      }
    };
    buttons.push(button("Send result", () => send("result"), { class: "primary" }), button("Send as error", () => send("error")));
    return h("div", { class: "answer" },
      h("p", null, "This tool runs on the client's side. Its program can answer, or you can do it here:"),
      text, h("div", { class: "row" }, buttons), trouble);
  }

  files(list) {
    const element = fileList(list);
    if (element) this.body.append(element);
  }

  /** It has answered, or somebody in its place has. */
  done(ok, value) {
    this.answered = true;
    this.form?.remove();
    // A guard answered in its place.
    if (!this.element.dataset.state) this.kind.textContent = "not executed";
    this.#mark(ok ? "ok" : "failed", ok ? "answered" : "error");
    this.body.append(value === "" ? h("p", { class: "quiet" }, "Empty answer") : block(ok ? "Result" : "Error", value));
  }

  /** The run has ended; nobody waits any more. */
  closed() {
    this.form?.remove();
    if (!this.answered && this.element.dataset.state !== "failed") this.#mark("closed", "not answered");
  }
}
