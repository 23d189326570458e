// One run: how it stands, everything that happened, and what can be done with it.

import { asked, ownBody } from "./again.js";
import { get, post } from "./api.js";
import { createCommand, followCommand } from "./curl.js";
import { button, copy, h, heading, problem, say, show } from "./dom.js";
import { Feedback } from "./feedback.js";
import { duration, labels, line, status, time } from "./format.js";
import { facts, usage } from "./notes.js";
import { follow, rest } from "./stream.js";
import { Timeline } from "./timeline.js";
import { block } from "./tools.js";
import { Waterfall } from "./waterfall.js";

const ENDED = new Set(["succeeded", "failed", "cancelled"]);

/** Where a run stands after an event, by the calls that wait for a client and the approvals that wait for a person. */
function standing(type, open, approvals) {
  const moves = ["started", "local_tool_call", "local_tool_result_in", "approval_requested", "approval_decided"];
  if (!moves.includes(type)) return null;
  if (approvals.size > 0) return "waiting_approval";
  return open.size > 0 ? "waiting_tool" : "running";
}

export async function page(root, { id, signal }) {
  const run = await get(`/agent-runs/${encodeURIComponent(id)}`, signal);
  const view = new RunView(run, { signal });
  show(root, view.element);
  view.follow();
}

/** A run with its head and its timeline, kept in step until the page is left. */
export class RunView {
  constructor(run, { signal, withHeading = true, onEnd } = {}) {
    this.run = run;
    this.signal = signal;
    this.withHeading = withHeading;
    this.onEnd = onEnd;
    this.trouble = h("div", null);
    this.connection = h("span", { class: "connection" });
    this.head = h("div", { class: "run-head" });
    const live = !ENDED.has(run.status);
    this.timeline = new Timeline(run.id, { live, following: live, onEnd: (type, data) => this.#ended(type, data) });
    this.waterfall = withHeading ? new Waterfall() : null;
    this.open = new Set();
    this.approvals = new Set();
    this.feedback = withHeading ? new Feedback(run.id, signal) : null;
    const { text, cut } = asked(run);
    if (text || run.attachments?.length > 0) this.timeline.prompt(text, cut ? "Prompt (its beginning)" : "Prompt", run.attachments);
    this.element = h("section", { class: "run", "data-run": run.id }, this.head, this.trouble, this.waterfall?.element, this.timeline.element, this.feedback?.element);
    this.#drawHead();
  }

  /** Follows the log to its end. */
  async follow() {
    this.#tick();
    try {
      await follow(this.run.id, {
        signal: this.signal,
        onEvent: (event) => this.#heard(event),
        onState: (state) => this.#connected(state),
      });
    } catch (error) {
      this.#connected("ended");
      show(this.trouble, problem(error));
    }
  }

  #connected(state) {
    const live = !ENDED.has(this.run.status);
    const text = { live: live ? "live" : "", waiting: "connection lost, trying again…", ended: "" }[state];
    this.connection.dataset.state = live || state === "waiting" ? state : "ended";
    this.connection.textContent = text;
  }

  async #ended(type, data) {
    const word = { result: "succeeded", error: "failed", cancelled: "cancelled" }[type];
    this.run = { ...this.run, status: word, tokens: data.tokens, turns: data.turns, model: data.model, costUsd: data.costUsd };
    this.#drawHead();
    say(`The run has ${word}.`);
    this.onEnd?.(word, data);
    this.feedback?.load();
    try {
      this.run = await get(`/agent-runs/${encodeURIComponent(this.run.id)}`, this.signal);
      this.#drawHead();
    } catch {
      // The event said all that matters.
    }
  }

  /** Shows the time that a living run takes. */
  async #tick() {
    while (!this.signal.aborted && !ENDED.has(this.run.status)) {
      this.elapsed.textContent = this.#time();
      await rest(1000, this.signal);
    }
  }

  /** Events tell where the run stands before anybody asks for it. */
  #heard(event) {
    this.timeline.add(event);
    this.waterfall?.add(event);
    if (event.type === "local_tool_call") this.open.add(event.data.toolUseId);
    if (event.type === "local_tool_result_in") this.open.delete(event.data.toolUseId);
    if (event.type === "approval_requested") this.approvals.add(event.data.approvalId);
    if (event.type === "approval_decided") this.approvals.delete(event.data.approvalId);
    const word = standing(event.type, this.open, this.approvals);
    if (!word || ENDED.has(this.run.status) || this.run.status === word) return;
    this.run = { ...this.run, status: word };
    this.#drawHead();
  }

  #time() {
    const begin = this.run.startedAt ?? this.run.createdAt;
    const end = this.run.completedAt ? new Date(this.run.completedAt) : Date.now();
    return duration(end - new Date(begin));
  }

  #drawHead() {
    const { run } = this;
    this.element.dataset.status = run.status;
    const live = !ENDED.has(run.status);
    const title = line(run.agentSpec?.name || run.inputPreview || run.id, 90);
    this.elapsed = h("span", null, this.#time());
    const copyCurl = button("Copy as curl", () => copy(this.#curl(), copyCurl));
    const actions = [
      live && button("Cancel", () => this.#cancel(), { class: "danger", "data-act": "cancel" }),
      copyCurl,
      !live && button("Export", () => this.#export(), { title: "Every event as JSON lines" }),
      h("a", { class: "button", href: `#/playground?from=${encodeURIComponent(run.id)}` }, "Again"),
      !this.withHeading && h("a", { class: "button", href: `#/runs/${encodeURIComponent(run.id)}` }, "Open"),
    ];
    const bar = h("div", { class: "row" }, status(run.status), this.connection, h("code", { class: "quiet" }, run.id));
    const pairs = facts([
      ["Took", this.elapsed],
      ...usage(run),
      ["Created", time(run.createdAt)],
      ["Session", run.sessionId && h("a", { href: `#/sessions/${encodeURIComponent(run.sessionId)}` }, run.sessionId)],
      ["Agent", run.agentId && `${run.agentId}${run.agentVersion ? ` v${run.agentVersion}` : ""}`],
    ]);
    const spec = block("Spec", run.agentSpec);
    spec.classList.add("spec");
    if (spec.tagName !== "DETAILS") {
      this.spec ??= h("details", { class: "spec block" }, h("summary", null, h("span", { class: "label" }, "Spec")), spec.querySelector("pre"));
    } else {
      this.spec ??= spec;
    }
    show(this.head,
      this.withHeading ? [heading(title, null, actions), bar] : h("div", { class: "heading" }, bar, h("div", { class: "actions" }, actions)),
      labels(run.metadata).length > 0 && h("div", { class: "row" }, labels(run.metadata)), pairs, this.spec);
  }

  #curl() {
    const body = ownBody(this.run.id);
    const follow = followCommand(this.run.id);
    return body ? `${createCommand(body)}\n\n${follow}` : follow;
  }

  async #cancel() {
    try {
      await post(`/agent-runs/${encodeURIComponent(this.run.id)}/cancel`, undefined, { signal: this.signal });
      show(this.trouble);
    } catch (error) {
      if (!this.signal.aborted) show(this.trouble, problem(error));
    }
  }

  /** The log as a file, byte for byte, in the format of `runloom runs export`: one JSON text per line. */
  async #export() {
    try {
      const run = await get(`/agent-runs/${encodeURIComponent(this.run.id)}`, this.signal);
      const lines = [JSON.stringify({ type: "runloom.export", version: 1, run })];
      await follow(this.run.id, { signal: this.signal, onEvent: (event) => lines.push(event.raw), onState: () => {} });
      if (!this.signal.aborted) save(`${this.run.id}.jsonl`, `${lines.join("\n")}\n`);
    } catch (error) {
      if (!this.signal.aborted) show(this.trouble, problem(error));
    }
  }
}

/** Gives a text to the user as a file. */
function save(name, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/x-ndjson" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
