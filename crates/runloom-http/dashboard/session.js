// One conversation: what was said, what is being said, and a place to say something.

import { get, newOnce, post, query, remove } from "./api.js";
import { carefulButton, empty, h, heading, problem, show } from "./dom.js";
import { fileList } from "./files.js";
import { labels, spoken, status, time } from "./format.js";
import { facts } from "./notes.js";
import { RunView } from "./run.js";
import { block } from "./tools.js";

const ENDED = new Set(["succeeded", "failed", "cancelled"]);

export async function page(root, { id, signal }) {
  const path = `/agent-sessions/${encodeURIComponent(id)}`;
  const [session, latest] = await Promise.all([
    get(path, signal),
    get(query("/agent-runs", { sessionId: id, limit: 1 }), signal),
  ]);
  const conversation = h("div", { class: "conversation" });
  const trouble = h("div", null);
  const messages = session.messages.map((message) => bubble(message.role, spoken(message.content), message.attachments));
  if (messages.length === 0) messages.push(empty("Nothing was said yet", session.status === "active" ? "Say something below." : "This session ended before anybody spoke."));
  if (session.truncated) messages.unshift(h("p", { class: "quiet" }, "Earlier messages are not shown."));
  show(conversation, messages);

  const watch = (run) => {
    const view = new RunView(run, { signal, withHeading: false });
    conversation.append(view.element);
    view.follow();
  };
  const composer = session.status === "active" ? compose(path, { signal, conversation, watch }) : h("p", { class: "quiet" }, "This session has ended. It can still be read.");
  const end = session.status === "active" && carefulButton("End session", "Really end it?", async () => {
    try {
      await remove(path, signal);
      await page(root, { id, signal });
    } catch (error) {
      if (!signal.aborted) show(trouble, problem(error));
    }
  });
  show(root,
    heading(session.name || "Session", null, h("a", { class: "button", href: query("#/runs", { sessionId: id }) }, "Its runs"), end),
    h("div", { class: "row" }, status(session.status), h("code", { class: "quiet" }, id), labels(session.metadata)),
    facts([["Model", model(session.agentSpec ?? {})], ["Begun", time(session.createdAt)], ["Last used", time(session.lastUsedAt)], ["Ended", session.endedAt && time(session.endedAt)]]),
    h("details", { class: "block spec" }, h("summary", null, h("span", { class: "label" }, "Spec")), block("Spec", session.agentSpec)),
    trouble, conversation, composer);
  const [run] = latest.runs;
  if (run && !ENDED.has(run.status)) {
    const { inputPreview, attachments, ...whole } = await get(`/agent-runs/${encodeURIComponent(run.id)}`, signal);
    conversation.append(bubble("user", inputPreview ?? "", attachments));
    watch(whole);
  }
}

/** A message may be words, files, or both. */
function bubble(role, text, files) {
  return h("div", { class: `bubble ${role}` }, h("span", { class: "who" }, role), text && h("div", { class: "said" }, text), fileList(files));
}

/** Who answers here: after a fallback that is another model than the one that was asked for. */
function model({ modelId, activeModelId }) {
  return activeModelId ? `${activeModelId} (fell back from ${modelId ?? "the default model"})` : modelId;
}

/** Where the next message is written; its run is followed below the ones before. */
function compose(path, { signal, conversation, watch }) {
  const text = h("textarea", { rows: 3, required: true, placeholder: "Say something…", "aria-label": "Message" });
  const send = h("button", { class: "primary" }, "Send");
  const trouble = h("div", null);
  const form = h("form", {
    class: "card composer",
    onsubmit: async (event) => {
      event.preventDefault();
      if (send.disabled || text.value.trim() === "") return;
      send.disabled = true;
      try {
        const { runId } = await post(`${path}/messages`, { prompt: text.value }, { signal, once: newOnce() });
        conversation.querySelector(".empty")?.remove();
        conversation.append(bubble("user", text.value));
        text.value = "";
        show(trouble);
        watch({ ...(await get(`/agent-runs/${encodeURIComponent(runId)}`, signal)), inputPreview: null });
      } catch (error) {
        if (!signal.aborted) show(trouble, problem(error));
      }
      send.disabled = false;
      text.focus();
    },
  }, text, trouble, h("div", { class: "row" }, send, h("span", { class: "hint" }, h("kbd", null, "Ctrl"), " + ", h("kbd", null, "Enter"), " sends it")));
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  return form;
}
