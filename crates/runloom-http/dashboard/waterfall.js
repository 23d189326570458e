// The waterfall of a run: what took time, in the order of its beginning. Bars are placed by the times of events.

import { h, show } from "./dom.js";
import { count, duration, money } from "./format.js";

/** Narrower bars could not be seen. */
const NARROWEST_PERCENT = 0.4;

/** Rows beyond this number are left out and counted. */
const MOST_ROWS = 400;

/** Draws as often as somebody can read. */
const REDRAW_MS = 250;

/** The bars of a run, folded from its events. Logs of older servers have no times and give no bars. */
export class Waterfall {
  constructor() {
    this.rows = [];
    this.open = new Map();
    this.begin = null;
    this.last = null;
    this.list = h("ol", { class: "bars" });
    this.total = h("span", { class: "quiet" });
    this.element = h("section", { class: "waterfall", hidden: true, "aria-label": "Where the time went" },
      h("header", null, h("h2", null, "Where the time went"), this.total), this.list);
  }

  /** Takes an event; it is drawn soon. */
  add({ type, data, at }) {
    if (typeof at !== "number") return;
    this.begin ??= at;
    this.last = at;
    this.#fold(type, data, at);
    this.timer ??= setTimeout(() => this.#draw(), REDRAW_MS);
  }

  #fold(type, data, at) {
    switch (type) {
      case "assistant_delta":
      case "thinking_delta":
        if (!this.open.has("turn")) this.#start("turn", { kind: "model", name: "Model", from: at });
        return;
      case "assistant_message": return this.#turn(data, at);
      case "turn_restarted":
        this.#end("turn", at, { kind: "retry", name: `Turn ${data.turn + 1}, cut off` });
        return;
      case "tool_call": return this.#start(data.toolUseId, { kind: "tool", name: data.name, from: at });
      case "local_tool_call": return this.#start(data.toolUseId, { kind: "wait", name: `${data.name} (client)`, from: at });
      case "approval_requested": return this.#start(data.approvalId, { kind: "wait", name: `${data.name} (approval)`, from: at });
      case "approval_decided": return this.#end(data.approvalId, at);
      case "tool_result": return this.#result(data, at);
      case "local_tool_result_in": return this.#end(data.toolUseId, at, { failed: Boolean(data.error) });
      case "subagent": return this.#below(data, at);
      default:
    }
    if (type === "result" || type === "error" || type === "cancelled") [...this.open.keys()].forEach((key) => this.#end(key, at));
  }

  /** A turn with its figures. The message tells how long it took, also when nothing was streamed before. */
  #turn(data, at) {
    const from = data.durationMs === undefined ? this.open.get("turn")?.from ?? at : at - data.durationMs;
    const about = [
      data.tokens && `${count(data.tokens.inputTokens)} → ${count(data.tokens.outputTokens)} tokens`,
      data.costUsd !== undefined && money(data.costUsd),
      data.timeToFirstTokenMs !== undefined && `first token after ${duration(data.timeToFirstTokenMs)}`,
      data.attempts > 1 && `${data.attempts} attempts`,
    ].filter(Boolean).join(" · ");
    if (!this.open.has("turn")) this.#start("turn", { kind: "model", from });
    this.#end("turn", at, { from, name: `Turn ${data.turn + 1}`, about, kind: data.attempts > 1 ? "model retried" : "model" });
  }

  /** A guard may answer a call that was never made: it has no bar. */
  #result(data, at) {
    this.#end(data.toolUseId, at, { failed: !data.ok });
  }

  #below(data, at) {
    const key = `below ${data.runId}`;
    if (data.phase === "started" && !this.open.has(key)) this.#start(key, { kind: "below", name: data.name, from: at, depth: data.depth, run: data.runId });
    else if (data.phase !== "started" && data.phase !== "paused" && data.phase !== "waiting") this.#end(key, at, { failed: Boolean(data.error), about: data.costUsd !== undefined ? money(data.costUsd) : "" });
  }

  #start(key, row) {
    this.open.set(key, row);
    this.rows.push(row);
  }

  #end(key, at, changes) {
    const row = this.open.get(key);
    if (!row) return;
    Object.assign(row, changes, { to: at });
    this.open.delete(key);
  }

  #draw() {
    this.timer = null;
    const span = Math.max(1, this.last - this.begin);
    const rows = this.rows.toSorted((one, other) => one.from - other.from);
    this.element.hidden = rows.length === 0;
    this.total.textContent = duration(span);
    show(this.list, rows.slice(0, MOST_ROWS).map((row) => this.#bar(row, span)),
      rows.length > MOST_ROWS && h("li", { class: "quiet" }, `and ${count(rows.length - MOST_ROWS)} more`));
  }

  #bar(row, span) {
    const to = row.to ?? this.last;
    const left = Math.max(0, (row.from - this.begin) / span) * 100;
    const width = Math.min(100 - left, Math.max(NARROWEST_PERCENT, ((to - row.from) / span) * 100));
    const bar = h("span", { class: "bar" });
    bar.style.marginLeft = `${Math.min(left, 100 - NARROWEST_PERCENT)}%`;
    bar.style.width = `${Math.max(width, NARROWEST_PERCENT)}%`;
    const name = row.run ? h("a", { class: "name", href: `#/runs/${encodeURIComponent(row.run)}` }, row.name) : h("span", { class: "name" }, row.name);
    return h("li", { class: `${row.kind}${row.failed ? " failed" : ""}${row.to === undefined ? " open" : ""}`, title: row.about || null },
      name, h("span", { class: "track" }, bar), h("span", { class: "took" }, duration(to - row.from)), row.about && h("span", { class: "about" }, row.about));
  }
}
