// The runs of the workspace: newest first, filtered, kept fresh without moving what is being read.

import { get, query } from "./api.js";
import { agentChoices, modelChoices, modelsAndAgents } from "./catalog.js";
import { button, empty, field, h, heading, problem, select, show, withChosen } from "./dom.js";
import { count, duration, labels, line, short, status, time } from "./format.js";
import { rest } from "./stream.js";

const FRESH_MS = 2500;
const TROUBLED_MS = 8000;
const PAGE = 50;

/** Rows outside the newest page that are looked at one by one with each refresh. */
const LOOKED_AFTER = 8;

/** Further down than this, new runs wait behind a button instead of pushing the list. */
const SCROLLED_PX = 120;

const ENDED = new Set(["succeeded", "failed", "cancelled"]);

const STATUSES = ["queued", "running", "waiting_tool", "waiting_approval", "succeeded", "failed", "cancelled"];

export async function page(root, { parameters, signal }) {
  const filter = {
    status: parameters.get("status") ?? "",
    modelId: parameters.get("modelId") ?? "",
    agentId: parameters.get("agentId") ?? "",
    sessionId: parameters.get("sessionId") ?? "",
    metadata: parameters.getAll("metadata"),
  };
  const catalog = await modelsAndAgents(signal);
  const list = new RunList(filter, signal);
  show(root,
    heading("Runs", "Everything this workspace ran, newest first.", h("a", { class: "button primary", href: "#/playground" }, "New run")),
    filters(filter, catalog), list.element);
  try {
    list.begin(await get(list.address(), signal));
  } catch (error) {
    // A slip in a filter is mended in the filters, which therefore stay.
    if (error.status !== 400) throw error;
    show(list.trouble, problem(error));
  }
}

/** The filters stand in the address, so that a view can be kept and sent. */
function filters(filter, catalog) {
  const chosen = {
    status: select(withChosen([["", "any status"], ...STATUSES.map((word) => [word, word.replaceAll("_", " ")])], filter.status), filter.status),
    modelId: select(withChosen(modelChoices(catalog, "any model"), filter.modelId), filter.modelId),
    agentId: select(withChosen(agentChoices(catalog, "any agent"), filter.agentId), filter.agentId),
    metadata: h("input", { value: filter.metadata.join(", "), placeholder: "team:support, env:prod", spellcheck: "false", autocapitalize: "none" }),
  };
  const apply = (event) => {
    event?.preventDefault();
    const metadata = chosen.metadata.value.split(",").map((pair) => pair.trim()).filter(Boolean);
    location.hash = query("#/runs", {
      status: chosen.status.value, modelId: chosen.modelId.value, agentId: chosen.agentId.value, sessionId: filter.sessionId, metadata,
    });
  };
  for (const name of ["status", "modelId", "agentId"]) chosen[name].addEventListener("change", apply);
  const active = Object.values(filter).some((value) => value.length > 0);
  return h("form", { class: "filters", onsubmit: apply, role: "search", "aria-label": "Filters" },
    field("Status", chosen.status), field("Model", chosen.modelId),
    (catalog.agents.length > 0 || filter.agentId) && field("Agent", chosen.agentId),
    field("Labels", chosen.metadata),
    filter.sessionId && h("span", { class: "chip" }, h("b", null, "session"), " ", filter.sessionId),
    h("button", null, "Apply"),
    active && h("a", { class: "button plain", href: "#/runs" }, "Clear"));
}

/** When a run was created, as a number. */
function age(run) {
  return Date.parse(run.createdAt);
}

/** What lists say of a run that may have changed, out of its own page. */
function asListed(run) {
  const { status, error, turns, tokens, completedAt, startedAt } = run;
  const durationMs = completedAt && startedAt ? new Date(completedAt) - new Date(startedAt) : null;
  return { status, error, turns, tokens, completedAt, durationMs, outputPreview: run.finalText };
}

class RunList {
  constructor(filter, signal) {
    this.filter = filter;
    this.signal = signal;
    this.rows = new Map();
    this.unseen = { runs: [], next: null };
    this.looks = 0;
    this.body = h("tbody", null);
    this.news = button("", () => this.#showUnseen(), { class: "news", hidden: true });
    this.more = button("Older runs", () => this.#older(), { hidden: true });
    this.trouble = h("div", null);
    const heads = ["Status", "Run", "#Turns", "#Tools", "#Tokens", "#Took", "Created"];
    this.table = h("div", { class: "scroll", hidden: true }, h("table", { class: "runs" },
      h("thead", null, h("tr", null, heads.map((head) => h("th", { scope: "col", class: head.startsWith("#") ? "number" : null }, head.replace("#", ""))))),
      this.body));
    this.nothing = h("div", { hidden: true });
    this.element = h("div", { class: "run-list" }, this.trouble, this.news, this.nothing, this.table, h("div", { class: "row centre" }, this.more));
  }

  address(cursor) {
    return query("/agent-runs", { ...this.filter, limit: PAGE, cursor });
  }

  begin(first) {
    for (const run of first.runs) this.#append(run);
    this.#cursor(first.nextCursor);
    this.#emptiness();
    this.#refresh();
  }

  /** Looks for what is new and what has changed, as long as the page is open and seen. */
  async #refresh() {
    let pause = FRESH_MS;
    for (;;) {
      await rest(pause, this.signal);
      if (this.signal.aborted) return;
      if (document.hidden) continue;
      try {
        const newest = await get(this.address(), this.signal);
        this.#merge(newest);
        await this.#lookAfter(newest);
        show(this.trouble);
        pause = FRESH_MS;
      } catch (error) {
        if (this.signal.aborted) return;
        show(this.trouble, problem({ message: `${error.message} The list may be old; trying again.`, hint: error.hint }));
        pause = TROUBLED_MS;
      }
    }
  }

  #merge(newest) {
    const fresh = newest.runs.filter((run) => !this.rows.has(run.id));
    for (const run of newest.runs) {
      const row = this.rows.get(run.id);
      if (row) this.#update(row, run);
    }
    this.unseen = { runs: fresh, next: newest.nextCursor };
    if (this.#isScrolled()) {
      this.news.textContent = fresh.length === 1 ? "1 new run" : `${fresh.length}${fresh.length === PAGE ? "+" : ""} new runs`;
      this.news.hidden = fresh.length === 0;
      return;
    }
    this.#removeUnfit(newest);
    this.#insert();
  }

  #isScrolled() {
    return document.scrollingElement.scrollTop > SCROLLED_PX;
  }

  /** Takes away what the filter no longer lets through: what the newest page passes over, and what is known to stand elsewhere now. */
  #removeUnfit({ runs, nextCursor }) {
    const there = new Set(runs.map((run) => run.id));
    const last = nextCursor ? age(runs.at(-1)) : -Infinity;
    for (const { run } of [...this.rows.values()]) {
      const passedOver = !there.has(run.id) && age(run) > last;
      if (passedOver || (this.filter.status && run.status !== this.filter.status)) this.#remove(run.id);
    }
  }

  #remove(id) {
    this.rows.get(id).element.remove();
    this.rows.delete(id);
  }

  /** Rows that no refresh of the newest page reaches are asked for by themselves as long as they live: a few each time, in turns. */
  async #lookAfter({ runs }) {
    const there = new Set(runs.map((run) => run.id));
    const living = [...this.rows.values()].filter(({ run }) => !there.has(run.id) && !ENDED.has(run.status));
    const next = living.sort((one, other) => one.looked - other.looked).slice(0, LOOKED_AFTER);
    await Promise.all(next.map(async (row) => {
      row.looked = this.looks += 1;
      try {
        const run = await get(`/agent-runs/${encodeURIComponent(row.run.id)}`, this.signal);
        this.#update(row, { ...row.run, ...asListed(run) });
      } catch (error) {
        if (error.status !== 404) throw error;
        if (this.rows.has(row.run.id)) this.#remove(row.run.id);
        this.#emptiness();
      }
    }));
  }

  #showUnseen() {
    this.#insert();
    window.scrollTo({ top: 0 });
  }

  #insert() {
    const { runs, next } = this.unseen;
    // A whole page of new runs: there may be more between them and the listed ones, so the list starts again.
    if (runs.length >= PAGE) {
      this.rows.clear();
      this.body.replaceChildren();
      runs.forEach((run) => this.#append(run));
      this.#cursor(next);
    } else {
      runs.toReversed().forEach((run) => this.#place(run));
    }
    this.unseen = { runs: [], next: null };
    this.news.hidden = true;
    this.#emptiness();
  }

  /** Puts a row where its age belongs: one that has just come to fit the filter need not be the newest. */
  #place(run) {
    const older = [...this.body.children].find((element) => age(this.rows.get(element.dataset.run).run) <= age(run));
    this.body.insertBefore(this.#row(run), older ?? null);
  }

  async #older() {
    this.more.disabled = true;
    const from = this.next;
    try {
      const page = await get(this.address(from), this.signal);
      // Meanwhile the list may have begun anew; then this page is not the next one.
      if (this.next === from) {
        page.runs.filter((run) => !this.rows.has(run.id)).forEach((run) => this.#append(run));
        this.#cursor(page.nextCursor);
      }
      show(this.trouble);
    } catch (error) {
      if (!this.signal.aborted) show(this.trouble, problem(error));
    }
    this.more.disabled = false;
  }

  #cursor(next) {
    this.next = next;
    this.more.hidden = !next;
  }

  #append(run) {
    this.body.append(this.#row(run));
  }

  #row(run) {
    const row = { element: h("tr", { "data-run": run.id }), looked: 0 };
    this.rows.set(run.id, row);
    this.#update(row, run);
    return row.element;
  }

  /** Draws a row only when something in it has changed. */
  #update(row, run) {
    row.run = run;
    const state = JSON.stringify(run);
    if (row.state === state) return;
    row.state = state;
    const title = line(run.specName || run.inputPreview || run.id);
    const below = run.error ? h("div", { class: "preview failed" }, line(run.error)) : run.outputPreview && h("div", { class: "preview" }, line(run.outputPreview));
    const tokens = run.tokens && h("span", { title: `${count(run.tokens.inputTokens)} in, ${count(run.tokens.outputTokens)} out` },
      `${short(run.tokens.inputTokens)} → ${short(run.tokens.outputTokens)}`);
    show(row.element,
      h("td", null, status(run.status)),
      h("td", { class: "what" }, h("a", { href: `#/runs/${encodeURIComponent(run.id)}` }, title), below,
        h("div", { class: "tags" }, run.modelId && h("code", null, run.modelId), labels(run.metadata))),
      h("td", { class: "number" }, count(run.turns)),
      h("td", { class: "number" }, run.toolCallCount || "–"),
      h("td", { class: "number" }, tokens ?? "–"),
      h("td", { class: "number" }, duration(run.durationMs)),
      h("td", null, time(run.createdAt)));
  }

  #emptiness() {
    const none = this.rows.size === 0;
    this.table.hidden = none;
    this.nothing.hidden = !none;
    if (!none) return;
    const filtered = Object.values(this.filter).some((value) => value.length > 0);
    show(this.nothing, filtered
      ? empty("Nothing fits", "No run of this workspace matches these filters. ", h("a", { href: "#/runs" }, "Show all"))
      : empty("No runs yet", "Start one in the ", h("a", { href: "#/playground" }, "playground"), ", with an SDK or with ", h("code", null, "runloom run \"hello\""), ". It appears here by itself."));
  }
}
