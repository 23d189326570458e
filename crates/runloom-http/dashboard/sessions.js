// The conversations of the workspace, and the beginning of a new one.

import { get, newOnce, post, query } from "./api.js";
import { modelChoices, modelsAndAgents, table } from "./catalog.js";
import { button, empty, field, h, heading, problem, select, show } from "./dom.js";
import { labels, line, status, time } from "./format.js";

export async function page(root, { parameters, signal }) {
  const chosen = parameters.get("status") ?? "";
  const address = (cursor) => query("/agent-sessions", { status: chosen, cursor });
  const [catalog, first] = await Promise.all([modelsAndAgents(signal), get(address(), signal)]);
  const trouble = h("div", null);
  const rows = h("tbody", null);
  let next = first.nextCursor;
  const add = (page) => rows.append(...page.sessions.map(row));
  const more = button("Older sessions", async () => {
    more.disabled = true;
    try {
      const page = await get(address(next), signal);
      add(page);
      next = page.nextCursor;
      more.hidden = !next;
    } catch (error) {
      if (!signal.aborted) show(trouble, problem(error));
    }
    more.disabled = false;
  }, { hidden: !next });
  add(first);
  const list = table("Sessions", ["Status", "Session", "Labels", "Last used", "Created"], []);
  list.querySelector("tbody").replaceWith(rows);
  const filter = select([["", "any status"], ["active", "active"], ["ended", "ended"]], chosen, {
    onchange: () => (location.hash = query("#/sessions", { status: filter.value })),
  });
  show(root,
    heading("Sessions", "Conversations that remember what was said."),
    beginning(catalog, signal),
    h("div", { class: "filters" }, field("Status", filter)), trouble,
    first.sessions.length === 0 ? empty("No sessions", chosen ? "None has this status." : "Begin one above, or with an SDK.") : list,
    h("div", { class: "row centre" }, more));
}

function row(session) {
  const title = line(session.summary) || session.sessionId;
  return h("tr", { "data-session": session.sessionId },
    h("td", null, status(session.status)),
    h("td", { class: "what" }, h("a", { href: `#/sessions/${encodeURIComponent(session.sessionId)}` }, title)),
    h("td", null, labels(session.metadata)),
    h("td", null, time(session.lastInteractionDate)),
    h("td", null, time(session.creationDate)));
}

function beginning(catalog, signal) {
  const name = h("input", { placeholder: "optional", maxlength: 256 });
  const system = h("textarea", { rows: 2, value: "You are helpful.", required: true });
  const model = select(modelChoices(catalog), catalog.defaultModelId);
  const trouble = h("div", null);
  const form = h("form", {
    class: "card",
    onsubmit: async (event) => {
      event.preventDefault();
      try {
        const body = { systemPrompt: system.value, ...(model.value && { modelId: model.value }), ...(name.value && { name: name.value }) };
        const { sessionId } = await post("/agent-sessions", body, { signal, once: newOnce() });
        location.hash = `#/sessions/${encodeURIComponent(sessionId)}`;
      } catch (error) {
        if (!signal.aborted) show(trouble, problem(error));
      }
    },
  }, h("div", { class: "pair" }, field("Name", name), field("Model", model)), field("System prompt", system), trouble, h("button", { class: "primary" }, "Begin"));
  return h("details", { class: "new" }, h("summary", { class: "button" }, "New session"), form);
}
