// What happens beside the conversation: guards, restarts, fallbacks, plans, and events that this page does not know.

import { h } from "./dom.js";
import { count, duration, money } from "./format.js";
import { block } from "./tools.js";

const STEP = { done: "✓", completed: "✓", in_progress: "▸", active: "▸", skipped: "–", cancelled: "–", failed: "✗" };

const KNOWN = {
  turn_restarted: (data) => ["warn", "Turn interrupted", `Turn ${data.turn + 1} was cut off (${data.reason}) and is made again. What it had said is discarded.`],
  loop_detected: (data) => data.hardCutoff
    ? ["stop", "Loop cut off", `The same calls ${data.consecutiveCount} times in a row (${list(data.tools)}): tools are off for a last turn.`]
    : ["warn", "Loop detected", `The same calls ${data.consecutiveCount} times in a row (${list(data.tools)}): they were not executed again.`],
  tool_budget_exceeded: (data) => ["warn", "Tool budget used up", `${data.tool} may be called ${data.maxCalls} times; call ${data.callIndex} was not executed.`],
  model_fallback: (data) => ["warn", "Another model went on", `${data.primaryModelId} failed (${data.errorClass}); ${data.fallbackModelId} took over.`],
  context_compacted: (data) => [data.summarised ? "info" : "warn", data.summarised ? "Older turns summarised" : "Older turns dropped", `${data.turns} turns: about ${count(data.afterTokens)} tokens instead of ${count(data.beforeTokens)}, by ${data.model}.${data.reason ? ` ${data.reason}` : ""}`],
  approval_requested: (data) => ["warn", "A run below waits for approval", `${data.name} (${data.runId}): ${data.reason ?? "a policy asks"}`],
  approval_decided: (data) => ["info", "A run below has its decision", `${data.name} (${data.runId}): ${data.status}`],
  sub_action: (data) => [data.phase === "errored" || data.phase === "denied" ? "warn" : "info", data.name, `${data.phase}${data.reason ? `: ${data.reason}` : ""}`],
  supervisor: (data) => [data.action === "on_track" ? "info" : "warn", `Supervisor: ${String(data.action).replaceAll("_", " ")}`, data.reason],
};

function list(names) {
  return (Array.isArray(names) ? names : []).map((name) => (typeof name === "string" ? name : name?.name)).join(", ");
}

/** A note for an event that is neither text nor a tool call. */
export function note(type, data) {
  if (type === "task_plan" && Array.isArray(data.steps)) return plan(data);
  const known = Object.hasOwn(KNOWN, type) ? KNOWN[type](data) : null;
  if (known) {
    const [tone, title, text] = known;
    return item(tone, h("b", null, title), " ", text);
  }
  return item("info", h("b", null, type), block("Payload", data));
}

function plan(data) {
  const steps = data.steps.map((step) => h("li", { "data-state": step.status }, h("span", { "aria-hidden": "true" }, STEP[step.status] ?? "○"), " ", step.title, h("span", { class: "unseen" }, ` (${step.status})`)));
  return item("info", h("b", null, "Plan"), data.brief && ` ${data.brief}`, h("ul", { class: "plan" }, steps));
}

function item(tone, ...children) {
  return h("li", null, h("div", { class: `note ${tone}` }, children));
}

/** Names and values; those without a value are left out. */
export function facts(pairs) {
  const rows = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return h("dl", { class: "facts" }, rows.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))));
}

/** What a run used. */
export function usage(data) {
  const tokens = data.tokens ?? {};
  return [
    ["Turns", data.turns],
    ["Input", tokens.inputTokens === undefined ? null : h("span", { title: "tokens, cached ones included" }, count(tokens.inputTokens))],
    ["Cached", tokens.cachedTokens ? count(tokens.cachedTokens) : null],
    ["Output", tokens.outputTokens === undefined ? null : h("span", { title: "tokens, thinking included" }, count(tokens.outputTokens))],
    ["Thinking", tokens.reasoningTokens ? count(tokens.reasoningTokens) : null],
    ["Cost", data.costUsd === undefined || data.costUsd === null ? null : money(data.costUsd)],
    ["Model", data.model?.id],
    ["Effort", data.model?.reasoningEffort],
  ];
}

const TITLES = { result: "Succeeded", error: "Failed", cancelled: "Cancelled" };

/** The last node: how the run ended, and what it used. */
export function ending(type, data) {
  const body = [];
  if (type === "result" && data.structuredOutput?.schemaRequested) body.push(block("Structured output", data.text));
  if (type === "result" && data.plan) body.push(block("Plan", data.plan));
  if (type === "error") {
    const wire = [data.apiStatus, data.apiCode].filter(Boolean).join(" ");
    body.push(h("p", { class: "why" }, data.error), facts([
      ["Class", data.errorClass ?? data.code],
      ["Provider said", wire],
      ["Finish reason", data.finishReason],
      ["Worth another try", data.retryable === undefined ? null : data.retryable ? "yes" : "no"],
    ]));
  }
  if (type === "cancelled") {
    const took = data.requestedAt && data.stoppedAt ? duration(new Date(data.stoppedAt) - new Date(data.requestedAt)) : null;
    body.push(facts([["Reason", data.reason], ["Stopped after", took], ["Interrupted", data.interrupted?.join(", ")]]));
  }
  return h("li", { class: `ending ${type}` }, h("h3", null, TITLES[type]), body, facts(usage(data)));
}
