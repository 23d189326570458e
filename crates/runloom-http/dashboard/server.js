// The server itself: which version, whether it is well, and how programs reach it.

import { BASE, getOpen } from "./api.js";
import { credentials } from "./credentials.js";
import { button, copy, h, heading, show } from "./dom.js";
import { facts } from "./notes.js";

export async function page(root, { signal }) {
  const [info, health, ready] = await Promise.all([
    getOpen("info", signal),
    state("health", signal),
    state("ready", signal),
  ]);
  const lines = [
    `export MANTYX_BASE_URL=${BASE.replace(/\/$/, "")}`,
    `export MANTYX_WORKSPACE_SLUG=${credentials().workspace}`,
    "export MANTYX_API_KEY=…   # the key you signed in with",
  ].join("\n");
  const copyLines = button("Copy", () => copy(lines, copyLines));
  show(root,
    heading("Server", "What answers here, and how to reach it from a program."),
    h("div", { class: "card" },
      facts([
        ["Version", `${info.name} ${info.version}`],
        ["Protocol", info.protocol],
        ["Health", health],
        ["Ready", ready],
        ["Address", h("code", null, BASE)],
      ]),
      h("div", { class: "row" }, info.features.map((feature) => h("span", { class: "chip" }, feature)))),
    h("h2", null, "From a program"),
    h("div", { class: "card" },
      h("p", null, "The official SDKs and the command line read these variables:"),
      h("pre", { tabindex: 0 }, lines),
      h("div", { class: "row" }, copyLines),
      h("p", { class: "hint" }, "Every endpoint is described by ", h("code", null, `${BASE}openapi.json`), ".")));
}

/** What a probe says; a refusal is an answer too. */
async function state(path, signal) {
  try {
    const answer = await getOpen(path, signal);
    return h("span", { class: "status succeeded" }, answer.status);
  } catch (error) {
    return h("span", { class: "status failed" }, error.message);
  }
}
