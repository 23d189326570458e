// Trying things: a run from a form, and everything that happens in it.

import { bodyOf, start } from "./again.js";
import { get, newOnce, post } from "./api.js";
import { agentChoices, modelChoices, modelsAndAgents } from "./catalog.js";
import { createCommand } from "./curl.js";
import { button, copy, empty, field, h, heading, problem, select, show, withChosen } from "./dom.js";
import { EXAMPLES } from "./examples.js";
import { FileField } from "./files.js";
import { RunView } from "./run.js";
import { block } from "./tools.js";

const LEVELS = [["", "default"], ["off", "off"], ["low", "low"], ["medium", "medium"], ["high", "high"]];

/** What stood in the form when the page was left. */
let draft = null;

export async function page(root, { parameters, signal }) {
  const catalog = await modelsAndAgents(signal);
  const again = parameters.get("from") ? await bodyOf(parameters.get("from"), signal) : null;
  if (again) draft = draftOf(again.body);
  draft ??= { system: "You are helpful." };
  if (parameters.get("model")) draft.model = parameters.get("model");
  if (parameters.get("agent")) draft = { ...draft, agent: parameters.get("agent"), model: "" };
  const form = new Form(catalog, signal);
  if (again) show(form.lost, lostNote(again));
  show(root,
    heading("Playground", "Start a run and watch everything that happens in it."),
    h("div", { class: "split" }, form.element, h("div", { class: "stage" }, form.examples, form.stage)));
}

/** What a run that is started again would lack. */
function lostNote({ lost, whole }) {
  return [
    lost.length > 0 && h("div", { class: "note warn" }, h("b", null, "This is not all that the run had."), h("ul", null, lost.map((text) => h("li", null, text)))),
    !whole && h("p", { class: "hint" }, "The server tells the last message of a run. If there were others before it, add them."),
  ];
}

/** A body as the form shows it; what has no field of its own stands in `more`. */
function draftOf({ modelId, agentId, systemPrompt, prompt, messages, reasoningLevel, outputSchema, tools, ...more }) {
  const files = filesOf(messages);
  if (messages && !files) more.messages = messages;
  const level = { 0: "off", 30: "low", 50: "medium", 80: "high" }[reasoningLevel] ?? reasoningLevel;
  const named = LEVELS.some(([value]) => value === level);
  if (level !== undefined && !named) more.reasoningLevel = reasoningLevel;
  return {
    model: modelId, agent: agentId, system: systemPrompt ?? "", prompt: prompt ?? (files ? messages[0].content : ""), files, reasoning: named ? level : "",
    schema: outputSchema, tools: tools?.length > 0 ? tools : undefined, more: Object.keys(more).length > 0 ? more : undefined,
  };
}

/** The files of messages that this form made: a prompt with files beside it. */
function filesOf(messages) {
  const [only, ...others] = Array.isArray(messages) ? messages : [];
  if (only?.role !== "user" || others.length > 0 || typeof only.content !== "string" || !Array.isArray(only.attachments)) return undefined;
  return only.attachments.every((file) => file.data) ? only.attachments.map((file) => ({ ...file, size: Math.floor(file.data.length * 3 / 4) })) : undefined;
}

class Form {
  constructor(catalog, signal) {
    this.catalog = catalog;
    this.signal = signal;
    const withAgents = (this.withAgents = catalog.agents.length > 0 || Boolean(draft.agent));
    const json = (value) => (value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value, null, 2));
    this.inputs = {
      model: select(withChosen(modelChoices(catalog, withAgents && "the agent's own"), draft.model), draft.model ?? catalog.defaultModelId, { onchange: () => this.#drawExamples() }),
      agent: select(withChosen(agentChoices(catalog, "none"), draft.agent), draft.agent, { onchange: () => this.#chooseModel() }),
      system: h("textarea", { rows: 2, value: draft.system ?? "" }),
      prompt: h("textarea", { rows: 6, value: draft.prompt ?? "", placeholder: "What should it do?", required: true }),
      reasoning: select(LEVELS, draft.reasoning),
      schema: h("textarea", { rows: 8, class: "code", spellcheck: "false", value: json(draft.schema), placeholder: "{\"name\": \"answer\", \"schema\": {\"type\": \"object\", …}}" }),
      tools: h("textarea", { rows: 8, class: "code", spellcheck: "false", value: json(draft.tools), placeholder: "[{\"kind\": \"local\", \"name\": \"weather\", \"parameters\": {…}}]" }),
      more: h("textarea", { rows: 5, class: "code", spellcheck: "false", value: json(draft.more), placeholder: "{\"budgets\": {\"maxToolTurns\": 4}, \"metadata\": {\"team\": \"support\"}}" }),
    };
    this.files = new FileField(draft.files, () => this.#changed());
    this.lost = h("div", null);
    this.trouble = h("div", null);
    this.stage = h("div", { class: "stage-run" });
    this.examples = h("div", { class: "examples" });
    this.submit = h("button", { class: "primary" }, "Run");
    this.element = this.#draw();
    this.#drawExamples();
    this.#settle();
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
    const form = h("form", { class: "card playground", onsubmit: (event) => this.#run(event), oninput: () => this.#changed() },
      this.catalog.models.length === 0 && problem({ message: "This workspace has no model.", hint: "Give it a provider in runloom.toml, or switch on platform.demo." }),
      this.lost,
      h("div", { class: "pair narrow" }, field("Model", inputs.model), field("Reasoning", inputs.reasoning)),
      this.withAgents && field("Agent", inputs.agent,
        "Its prompt and tools are used; tools given below come on top. Its model and settings hold unless others are given here."),
      field("System prompt", inputs.system),
      field("Prompt", inputs.prompt), this.files.element,
      this.folds.schema, this.folds.tools, this.folds.more, this.trouble,
      h("div", { class: "row" }, this.submit, button("Check only", () => this.#check(), { title: "A dry run: nothing is created" }), asCurl),
      h("p", { class: "hint" }, h("kbd", null, "Ctrl"), " + ", h("kbd", null, "Enter"), " runs it"));
    form.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
    });
    return form;
  }

  #changed() {
    this.#settle();
    this.#remember();
  }

  #remember() {
    draft = Object.fromEntries(Object.entries(this.inputs).map(([name, input]) => [name, input.value]));
    draft.files = this.files.files;
  }

  /** An agent comes with a model; nobody means to change it by choosing the agent. */
  #chooseModel() {
    this.inputs.model.value = this.inputs.agent.value ? "" : this.inputs.model.value || this.catalog.defaultModelId;
    this.#drawExamples();
    this.#changed();
  }

  /** Fields that would not be sent cannot be written in, and say why. */
  #settle() {
    const { agent, system, prompt } = this.inputs;
    system.disabled = agent.value !== "";
    system.placeholder = system.disabled ? "The agent has its own." : "";
    prompt.disabled = this.#bringsMessages();
    prompt.placeholder = prompt.disabled ? "The messages of “More fields” are sent." : "What should it do?";
    prompt.required = this.files.files.length === 0;
  }

  #bringsMessages() {
    try {
      return Object.hasOwn(JSON.parse(this.inputs.more.value) ?? {}, "messages");
    } catch {
      return false;
    }
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
    const body = { ...json("more", "More fields"), ...this.#said() };
    if (value("system").trim() && !value("agent")) body.systemPrompt = value("system");
    if (value("model")) body.modelId = value("model");
    if (value("agent")) body.agentId = value("agent");
    if (value("reasoning")) body.reasoningLevel = value("reasoning");
    const schema = json("schema", "Output schema");
    if (schema !== undefined) body.outputSchema = schema !== null && typeof schema === "object" && "schema" in schema ? schema : { schema };
    const tools = json("tools", "Tools");
    if (tools !== undefined) body.tools = Array.isArray(tools) ? tools : [tools];
    return body;
  }

  /** What the user says: a prompt, one with files, or nothing beside the messages of `more`. */
  #said() {
    const attachments = this.files.attachments();
    if (!this.#bringsMessages()) {
      const content = this.inputs.prompt.value;
      return attachments.length > 0 ? { messages: [{ role: "user", content, attachments }] } : { prompt: content };
    }
    if (attachments.length > 0) throw new Error("Files go with the prompt. With messages in “More fields”, put them there as attachments, or remove them here.");
    return {};
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
      show(this.lost);
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
    const id = this.inputs.model.value || this.catalog.defaultModelId;
    const model = this.catalog.models.find((one) => one.id === id);
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
    this.#chooseModel();
    if (!this.inputs.system.value.trim()) this.inputs.system.value = "You are helpful.";
    this.inputs.more.value = "";
    this.files.set([]);
    for (const [name, fold] of Object.entries(this.folds)) fold.open = this.inputs[name].value !== "";
    this.#run();
  }
}
