// Signing in: a workspace and a key of it, tried before they are kept.

import { get } from "./api.js";
import { forget, keep } from "./credentials.js";
import { field, h, problem, show } from "./dom.js";

const ICON = new URL("icon.svg", import.meta.url).href;

/** Shows the form; `onDone` opens what the address names. */
export function page(root, { onDone }) {
  document.title = "Sign in · Runloom";
  const workspace = h("input", { name: "workspace", required: true, autocomplete: "organization", spellcheck: "false", autocapitalize: "none", placeholder: "demo" });
  const key = h("input", { name: "key", type: "password", required: true, autocomplete: "off", spellcheck: "false", placeholder: "mantyx_…" });
  const stay = h("input", { type: "checkbox", name: "stay" });
  const trouble = h("div", null);
  const submit = h("button", { class: "primary" }, "Sign in");
  const form = h("form", {
    class: "card signin",
    onsubmit: async (event) => {
      event.preventDefault();
      submit.disabled = true;
      keep(workspace.value.trim(), key.value.trim(), { stay: stay.checked });
      try {
        await get("/models");
        onDone();
      } catch (error) {
        forget();
        submit.disabled = false;
        show(trouble, problem(error));
        key.focus();
      }
    },
  },
    h("div", { class: "brand" }, h("img", { src: ICON, alt: "", width: 28, height: 28 }), "Runloom"),
    h("h1", null, "Sign in"),
    h("p", { class: "lead" }, "With an API key of a workspace on this server."),
    field("Workspace", workspace), field("API key", key),
    h("label", { class: "choice" }, stay, " Stay signed in, also in new tabs of this browser"), trouble, submit,
    h("p", { class: "hint" }, "Without that, the key stays in this tab and is forgotten when you close it. ",
      h("code", null, "runloom dev"), " prints a link that signs you in; elsewhere make a key with ",
      h("code", null, "runloom admin key create --workspace W"), "."));
  root.append(form);
  workspace.focus();
}
