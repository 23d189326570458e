// The form in which a person decides about a tool call: approve it, approve it with other arguments, or deny it,
// with a note.

import { newOnce, post } from "./api.js";
import { button, field, h, problem, say, show } from "./dom.js";
import { pretty } from "./format.js";

const NOTE_CHARS = 2000;

/** The form for `{approvalId, runId, input, subActions?}`. `onDone` gets the approval as the server has it afterwards. */
export function decisionForm(approval, { onDone } = {}) {
  const note = h("input", { maxlength: NOTE_CHARS, placeholder: "For the model and for the record" });
  const text = h("textarea", { rows: 6, spellcheck: "false", value: pretty(approval.input), "aria-label": "Arguments" });
  const editor = h("div", { class: "editor", hidden: true }, field("Arguments", text, "The call is executed with these instead."));
  const trouble = h("div", null);
  const approve = button("Approve", () => send("approve"), { class: "primary" });
  const deny = button("Deny", () => send("deny"), { class: "danger" });
  const edit = button("Edit", () => {
    editor.hidden = !editor.hidden;
    edit.textContent = editor.hidden ? "Edit" : "Do not edit";
    approve.textContent = editor.hidden ? "Approve" : "Approve edited";
    if (!editor.hidden) text.focus();
  });
  const buttons = [approve, edit, deny];

  const send = async (decision) => {
    const body = { approvalId: approval.approvalId, decision };
    if (note.value.trim()) body.note = note.value.trim();
    if (decision === "approve" && !editor.hidden) {
      try {
        body.input = JSON.parse(text.value);
      } catch (error) {
        show(trouble, problem({ message: `The arguments are not JSON: ${error.message}` }));
        return;
      }
    }
    buttons.forEach((one) => (one.disabled = true));
    try {
      const { approval: decided } = await post(`/agent-runs/${encodeURIComponent(approval.runId)}/approvals`, body, { once: newOnce() });
      say(decision === "approve" ? "Approved" : "Denied");
      onDone?.(decided);
    } catch (error) {
      buttons.forEach((one) => (one.disabled = false));
      show(trouble, problem(error));
    }
  };

  const canEdit = !approval.subActions?.length;
  return h("div", { class: "decide" }, editor, field("Note (optional)", note),
    h("div", { class: "row" }, approve, canEdit && edit, deny), trouble);
}
