// Tool calls that wait for a person, and those that were decided: newest first, kept fresh while the page is open.

import { get, query } from "./api.js";
import { button, empty, field, h, heading, problem, select, show } from "./dom.js";
import { labels, status, time } from "./format.js";
import { decisionForm } from "./decide.js";
import { facts } from "./notes.js";
import { rest } from "./stream.js";
import { block } from "./tools.js";

const FRESH_MS = 2500;
const TROUBLED_MS = 8000;
const BADGE_MS = 5000;
const BADGE_MOST = 99;
const PAGE = 50;

const STATUSES = ["pending", "approved", "denied", "expired", "cancelled"];

export async function page(root, { parameters, signal }) {
  const chosen = parameters.get("status") ?? "pending";
  const list = new ApprovalList(chosen === "any" ? "" : chosen, signal);
  const choice = select([...STATUSES.map((word) => [word, word]), ["any", "any status"]], chosen);
  choice.addEventListener("change", () => (location.hash = query("#/approvals", { status: choice.value })));
  show(root,
    heading("Approvals", "Tool calls that wait for a person's decision."),
    h("form", { class: "filters", role: "search", "aria-label": "Filters", onsubmit: (event) => event.preventDefault() }, field("Status", choice)),
    list.element);
  list.begin(await get(list.address(), signal));
}

class ApprovalList {
  constructor(wanted, signal) {
    this.wanted = wanted;
    this.signal = signal;
    this.cards = new Map();
    this.trouble = h("div", null);
    this.nothing = h("div", { hidden: true }, empty("Nothing here", wanted === "pending" ? "No call waits for a decision." : "No approvals match."));
    this.items = h("div", { class: "approvals" });
    this.more = button("Older approvals", () => this.#older(), { hidden: true });
    this.element = h("div", null, this.trouble, this.nothing, this.items, h("div", { class: "row centre" }, this.more));
  }

  address(cursor) {
    return query("/approvals", { status: this.wanted, limit: PAGE, cursor });
  }

  begin(first) {
    for (const approval of first.approvals) this.items.append(this.#card(approval));
    this.#cursor(first.nextCursor);
    this.#refresh();
  }

  /** New ones come to the top. One that was decided elsewhere loses its form; one that is being written in stays as it is. */
  async #refresh() {
    for (let pause = FRESH_MS; ;) {
      await rest(pause, this.signal);
      if (this.signal.aborted) return;
      if (document.hidden) continue;
      try {
        const newest = await get(this.address(), this.signal);
        this.#merge(newest);
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
    const fresh = newest.approvals.filter((approval) => !this.cards.has(approval.approvalId));
    this.items.prepend(...fresh.map((approval) => this.#card(approval)));
    const listed = new Map(newest.approvals.map((approval) => [approval.approvalId, approval]));
    for (const card of this.cards.values()) {
      const now = listed.get(card.approval.approvalId);
      if (now && now.status !== card.approval.status) card.decided(now);
      else if (!now && card.approval.status === "pending" && this.wanted === "pending") this.#look(card);
    }
    this.nothing.hidden = this.cards.size > 0;
  }

  /** What left the list of pending ones was decided, or is on a later page. */
  async #look(card) {
    try {
      const now = await get(`/approvals/${encodeURIComponent(card.approval.approvalId)}`, this.signal);
      if (now.status !== "pending") card.decided(now);
    } catch {
      // The next refresh looks again.
    }
  }

  #card(approval) {
    const card = new Card(approval);
    this.cards.set(approval.approvalId, card);
    return card.element;
  }

  async #older() {
    this.more.disabled = true;
    try {
      const page = await get(this.address(this.next), this.signal);
      this.items.append(...page.approvals.filter((approval) => !this.cards.has(approval.approvalId)).map((approval) => this.#card(approval)));
      this.#cursor(page.nextCursor);
    } catch (error) {
      show(this.trouble, problem(error));
    }
    this.more.disabled = false;
  }

  #cursor(next) {
    this.next = next;
    this.more.hidden = !next;
    this.nothing.hidden = this.cards.size > 0;
  }
}

/** One approval: what is asked, by which agent, with which arguments; a form while it is pending. */
class Card {
  constructor(approval) {
    this.approval = approval;
    this.element = h("article", { class: "card approval", "aria-label": `Approval of ${approval.name}`, "data-approval": approval.approvalId });
    this.#draw();
  }

  decided(approval) {
    this.approval = approval;
    this.#draw();
  }

  #draw() {
    const { approval } = this;
    this.element.dataset.status = approval.status;
    const run = h("a", { href: `#/runs/${encodeURIComponent(approval.runId)}` }, approval.runId);
    show(this.element,
      h("header", { class: "row" }, h("code", { class: "name" }, approval.name), status(approval.status), h("span", { class: "kind" }, approval.effect)),
      approval.reason && h("p", { class: "reason" }, approval.reason),
      facts([
        ["Run", run],
        ["Agent", approval.agentId],
        ["Rule", approval.rule],
        ["Asked", time(approval.createdAt)],
        ["Expires", approval.status === "pending" ? time(approval.expiresAt) : null],
        ["Decided", approval.decidedAt && time(approval.decidedAt)],
        ["By", approval.by && (approval.by.id ?? approval.by.kind)],
        ["Note", approval.note],
      ]),
      labels(approval.metadata),
      block("Arguments", approval.input),
      approval.subActions?.length > 0 && block("Parts", approval.subActions),
      approval.editedInput && block("Executed with", approval.editedInput),
      approval.status === "pending" && decisionForm(approval, { onDone: (now) => this.decided(now) }));
  }
}

/** Keeps the number of pending approvals beside the link of the navigation, until the page's frame is drawn anew. */
export async function badge(element, signal) {
  while (!signal.aborted) {
    if (!document.hidden) {
      try {
        const { total } = await get(query("/approvals", { status: "pending", limit: 1, includeTotal: true }), signal);
        element.hidden = !total;
        element.textContent = total > BADGE_MOST ? `${BADGE_MOST}+` : String(total);
        element.setAttribute("aria-label", `${total} pending`);
      } catch {
        // A key that may not read approvals sees no number.
        element.hidden = true;
      }
    }
    await rest(BADGE_MS, signal);
  }
}
