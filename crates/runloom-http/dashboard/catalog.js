// Models and agents: what runs can name. Other pages offer them as choices.

import { get } from "./api.js";
import { empty, h, heading, show } from "./dom.js";
import { count, money, time } from "./format.js";

let known = null;

/** The workspace's models and agents, asked once. */
export async function modelsAndAgents(signal) {
  if (known) return known;
  const [catalog, listed] = await Promise.all([get("/models", signal), agents(signal)]);
  known = { models: catalog.models, defaultModelId: catalog.defaultModelId, agents: listed.agents };
  return known;
}

/** A credential may run things and not be allowed to list agents. */
async function agents(signal) {
  try {
    return await get("/agents", signal);
  } catch (error) {
    if (error.status === 403) return { agents: [] };
    throw error;
  }
}

/** Asks anew next time. */
export function forgetCatalog() {
  known = null;
}

/** `[value, label]` pairs of the models, for a choice. */
export function modelChoices({ models, defaultModelId }, none) {
  const label = (model) => `${model.id}${model.id === defaultModelId ? " (default)" : ""}`;
  const pairs = models.map((model) => [model.id, label(model)]);
  return none ? [["", none], ...pairs] : pairs;
}

/** The same of the agents. */
export function agentChoices({ agents }, none) {
  return [["", none], ...agents.map((agent) => [agent.id, agent.name ?? agent.slug])];
}

export async function page(root, { signal }) {
  forgetCatalog();
  const catalog = await modelsAndAgents(signal);
  const perMillion = (price) => (price === null || price === undefined ? "–" : money(price));
  const models = catalog.models.map((model) => h("tr", null,
    h("td", null, h("a", { href: `#/playground?model=${encodeURIComponent(model.id)}` }, model.id), model.id === catalog.defaultModelId && h("span", { class: "chip" }, "default")),
    h("td", null, model.label),
    h("td", null, model.provider),
    h("td", null, model.source === "platform_offering" ? "server" : "workspace"),
    h("td", { class: "number" }, count(model.contextWindowTokens)),
    h("td", { class: "number" }, perMillion(model.pricing?.inputPer1MUsd)),
    h("td", { class: "number" }, perMillion(model.pricing?.cacheReadPer1MUsd)),
    h("td", { class: "number" }, perMillion(model.pricing?.outputPer1MUsd))));
  const named = catalog.agents.map((agent) => h("tr", null,
    h("td", null, h("a", { href: `#/playground?agent=${encodeURIComponent(agent.id)}` }, agent.name ?? agent.slug), h("div", { class: "quiet" }, h("code", null, agent.id))),
    h("td", null, agent.description ?? "–"),
    h("td", null, agent.modelId ?? "the default"),
    h("td", { class: "number" }, `v${agent.version}`),
    h("td", null, time(agent.updatedAt))));
  show(root,
    heading("Models and agents", "What a run of this workspace can name."),
    h("h2", null, "Models"),
    models.length === 0
      ? empty("No model yet", "Give the workspace a provider in ", h("code", null, "runloom.toml"), " or with ", h("code", null, "runloom admin provider put"), ".")
      : table("Models", ["Id", "Name", "Provider", "Offered by", "#Context", "#Input $/M", "#Cached $/M", "#Output $/M"], models),
    h("h2", null, "Agents"),
    named.length === 0
      ? empty("No agent yet", "An agent is a prompt, a model and tools under one name: ", h("code", null, "runloom admin agent put"), ".")
      : table("Agents", ["Agent", "What for", "Model", "#Version", "Changed"], named));
}

/** A table that scrolls by itself where it is too wide; heads that begin with `#` stand over numbers. */
export function table(label, heads, rows) {
  const cells = heads.map((head) => h("th", { scope: "col", class: head.startsWith("#") ? "number" : null }, head.replace("#", "")));
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label },
    h("table", null, h("thead", null, h("tr", null, cells)), h("tbody", null, rows)));
}
