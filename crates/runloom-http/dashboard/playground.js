// Trying things: a run from a form, and everything that happens in it.

import { get, newOnce, post } from "./api.js";
import { agentChoices, modelChoices, modelsAndAgents } from "./catalog.js";
import { createCommand } from "./curl.js";
import { button, copy, empty, field, h, heading, problem, select, show } from "./dom.js";
import { EXAMPLES } from "./examples.js";
import { RunView, bodyOf, start } from "./run.js";
import { block } from "./tools.js";

const LEVELS = [["", "default"], ["off", "off"], ["low", "low"], ["medium", "medium"], ["high", "high"]];

/** What stood in the form when the page was left. */
let draft = null;

export async function page(root, { parameters, signal }) {
  const catalog = await modelsAndAgents(signal);
  let cut = false;
  if (parameters.get("from")) {
    const again = await bodyOf(parameters.get("from"), signal);
    draft = draftOf(again.body);
    ({ cut } = again);
  }
  draft ??= { system: "You are helpful." };
  if (parameters.get("model")) draft.model = parameters.get("model");
  if (parameters.get("agent")) draft.agent = parameters.get("agent");
  const form = new Form(catalog, signal);
  if (cut) show(form.trouble, h("p", { class: "note warn" }, "The server keeps only the beginning of a prompt, and nothing of header values. Complete them before you run this."));
  show(root,
    heading("Playground", "Start a run and watch everything that happens in it."),
    h("div", { class: "split" }, form.element, h("div", { class: "stage" }, form.examples, form.stage)));
}

/** A body as the form shows it; what has no field of its own stands in `more`. */
function draftOf({ modelId, agentId, systemPrompt, prompt, reasoningLevel, outputSchema, tools, agentVersion, ...more }) {
  const level = { 0: "off", 30: "low", 50: "medium", 80: "high" }[reasoningLevel] ?? reasoningLevel;
  const named = LEVELS.some(([value]) => value === level);
  if (level !== undefined && !named) more.reasoningLevel = reasoningLevel;
  return {
    model: modelId, agent: agentId, system: systemPrompt ?? "", prompt: prompt ?? "", reasoning: named ? level : "",
    schema: outputSchema, tools: tools?.length > 0 ? tools : undefined, more: Object.keys(more).length > 0 ? more : undefined,
  };
}

class Form {
  constructor(catalog, signal) {
    this.catalog = catalog;
    this.signal = signal;
    const json = (value) => (value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value, null, 2));
    this.inputs = {
      model: select(modelChoices(catalog), draft.model ?? catalog.defaultModelId, { onchange: () => this.#drawExamples() }),
      agent: select(agentChoices(catalog, "none"), draft.agent),
      system: h("textarea", { rows: 2, value: draft.system ?? "" }),
      prompt: h("textarea", { rows: 6, value: draft.prompt ?? "", placeholder: "What should it do?", required: true }),
      reasoning: select(LEVELS, draft.reasoning),
      schema: h("textarea", { rows: 8, class: "code", spellcheck: "false", value: json(draft.schema), placeholder: "{\"name\": \"answer\", \"schema\": {\"type\": \"object\", …}}" }),
      tools: h("textarea", { rows: 8, class: "code", spellcheck: "false", value: json(draft.tools), placeholder: "[{\"kind\": \"local\", \"name\": \"weather\", \"parameters\": {…}}]" }),
      more: h("textarea", { rows: 5, class: "code", spellcheck: "false", value: json(draft.more), placeholder: "{\"budgets\": {\"maxToolTurns\": 4}, \"metadata\": {\"team\": \"support\"}}" }),
    };
    this.trouble = h("div", null);
    this.stage = h("div", { class: "stage-run" });
    this.examples = h("div", { class: "examples" });
    this.submit = h("button", { class: "primary" }, "Run");
    this.element = this.#draw();
    this.#drawExamples();
  }

  #draw() {
    const { inputs } = this;
    this.folds = {
      schema: h("details", { open: inputs.schema.value !== "" }, h("summary", null, "Output schema"), inputs.schema),
      tools: h("details", { open: inputs.tools.value !== "" }, h("summary", null, "Tools"), inputs.tools,
        h("p", { class: "hint" }, "Those of kind ", h("code", null, "local"), " wait for an answer, which you can give by hand.")),
      more: h("details", { open: inputs.more.value !== "" }, h("summary", null, "More fields"), inputs.more),
    };
    const asCurl = button("Copy as curl", () => this.#guarded(() => copy(createCommand(this.#body()), asCurl)));
    const form = h("form", { class: "card playground", onsubmit: (event) => this.#run(event), oninput: () => this.#remember() },
      this.catalog.models.length === 0 && problem({ message: "This workspace has no model.", hint: "Give it a provider in runloom.toml, or switch on platform.demo." }),
      h("div", { class: "pair narrow" }, field("Model", inputs.model), field("Reasoning", inputs.reasoning)),
      this.catalog.agents.length > 0 && field("Agent", inputs.agent, "Its prompt and tools are used; the fields below come on top."),
      field("System prompt", inputs.system),
      field("Prompt", inputs.prompt),
      this.folds.schema, this.folds.tools, this.folds.more, this.trouble,
      h("div", { class: "row" }, this.submit, button("Check only", () => this.#check(), { title: "A dry run: nothing is created" }), asCurl),
      h("p", { class: "hint" }, h("kbd", null, "Ctrl"), " + ", h("kbd", null, "Enter"), " runs it"));
    form.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
    });
    return form;
  }

  #remember() {
    draft = Object.fromEntries(Object.entries(this.inputs).map(([name, input]) => [name, input.value]));
  }

  /** The request that the form says. */
  #body() {
    const value = (name) => this.inputs[name].value;
    const json = (name, label) => {
      if (value(name).trim() === "") return undefined;
      try {
        return JSON.parse(value(name));
      } catch (error) {
        this.folds[name].open = true;
        throw new Error(`${label}: this is not JSON. ${error.message}`);
      }
    };
    const body = { ...json("more", "More fields"), prompt: value("prompt") };
    if (value("system").trim()) body.systemPrompt = value("system");
    if (value("model")) body.modelId = value("model");
    if (value("agent")) body.agentId = value("agent");
    if (value("reasoning")) body.reasoningLevel = value("reasoning");
    const schema = json("schema", "Output schema");
    if (schema !== undefined) body.outputSchema = schema !== null && typeof schema === "object" && "schema" in schema ? schema : { schema };
    const tools = json("tools", "Tools");
    if (tools !== undefined) body.tools = Array.isArray(tools) ? tools : [tools];
    return body;
  }

  #guarded(act) {
    try {
      show(this.trouble);
      return act();
    } catch (error) {
      show(this.trouble, problem(error));
      return undefined;
    }
  }

  async #run(event) {
    event?.preventDefault();
    const body = this.#guarded(() => this.#body());
    if (!body || this.submit.disabled) return;
    this.#remember();
    this.submit.disabled = true;
    this.running?.abort();
    try {
      const id = await start(body, { signal: this.signal, once: newOnce() });
      const run = await get(`/agent-runs/${encodeURIComponent(id)}`, this.signal);
      this.#show(run);
    } catch (error) {
      if (!this.signal.aborted) show(this.trouble, problem(error));
    }
    this.submit.disabled = false;
  }

  /** Shows the run in the place of the one before, which goes on without us. */
  #show(run) {
    this.running = new AbortController();
    const signal = AbortSignal.any([this.signal, this.running.signal]);
    const view = new RunView(run, { signal, withHeading: false });
    this.examples.classList.add("small");
    show(this.stage, view.element);
    if (this.stage.getBoundingClientRect().top > window.innerHeight / 2) this.stage.scrollIntoView({ block: "start" });
    view.follow();
  }

  async #check() {
    const body = this.#guarded(() => this.#body());
    if (!body) return;
    try {
      const told = await post("/agent-runs?dryRun=1", body, { signal: this.signal });
      this.running?.abort();
      show(this.stage, h("div", { class: "card" }, h("h2", null, "It would run"),
        told.warnings.map((warning) => h("p", { class: "note warn" }, warning)), block("Dry run", told)));
    } catch (error) {
      if (!this.signal.aborted) show(this.trouble, problem(error));
    }
  }

  #drawExamples() {
    const model = this.catalog.models.find((one) => one.id === this.inputs.model.value);
    if (model?.provider !== "demo") {
      show(this.examples);
      if (!this.running) show(this.stage, empty("Nothing has run yet", "Write a prompt and press Run: what the model says, thinks and calls appears here as it happens."));
      return;
    }
    if (!this.running) show(this.stage);
    show(this.examples,
      h("h2", null, "The demo model works offline. Try:"),
      h("div", { class: "tiles" }, EXAMPLES.map((example) =>
        h("button", { type: "button", class: "tile", onclick: () => this.#take(example) }, h("b", null, example.title), h("span", null, example.what)))));
  }

  #take(example) {
    const text = (value) => (value === undefined ? "" : JSON.stringify(value, null, 2));
    this.inputs.prompt.value = example.prompt;
    this.inputs.reasoning.value = example.reasoning ?? "";
    this.inputs.schema.value = text(example.schema);
    this.inputs.tools.value = text(example.tools);
    this.inputs.agent.value = "";
    if (!this.inputs.system.value.trim()) this.inputs.system.value = "You are helpful.";
    this.inputs.more.value = "";
    for (const [name, fold] of Object.entries(this.folds)) fold.open = this.inputs[name].value !== "";
    this.#run();
  }
}
