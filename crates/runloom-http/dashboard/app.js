// The frame around the pages: navigation, sign-in state, and what happens when a key is refused.

import * as approvals from "./approvals.js";
import * as catalog from "./catalog.js";
import { credentials, forget, takeFromAddress } from "./credentials.js";
import { button, h, problem, say, show } from "./dom.js";
import { listen } from "./keys.js";
import * as playground from "./playground.js";
import * as run from "./run.js";
import * as runs from "./runs.js";
import * as server from "./server.js";
import * as session from "./session.js";
import * as sessions from "./sessions.js";
import * as signin from "./signin.js";
import * as usage from "./usage.js";

/** What the navigation shows: the first word of an address, and a title. */
const MENU = [
  ["playground", "Playground"],
  ["runs", "Runs"],
  ["approvals", "Approvals"],
  ["sessions", "Sessions"],
  ["models", "Models"],
  ["usage", "Usage"],
  ["server", "Server"],
];

/** Pages by the first word of an address; the second is an id. */
const PAGES = new Map(Object.entries({
  playground: playground.page,
  approvals: approvals.page,
  runs: runs.page,
  "runs/": run.page,
  sessions: sessions.page,
  "sessions/": session.page,
  models: catalog.page,
  usage: usage.page,
  server: server.page,
}));

const main = document.getElementById("main");
let leaving = new AbortController();

/** The address as words and parameters: `#/runs/run_1?x=y`. */
function where() {
  const [path, search] = location.hash.replace(/^#\/?/, "").split("?");
  const words = path.split("/").filter(Boolean).map(safelyDecoded);
  return { words, parameters: new URLSearchParams(search ?? "") };
}

function safelyDecoded(word) {
  try {
    return decodeURIComponent(word);
  } catch {
    return word;
  }
}

/** Opens what the address names. Whatever the page before was doing ends. */
async function open() {
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  const arrived = takeFromAddress();
  if (arrived) catalog.forgetCatalog();
  if (!credentials()) {
    frame(null);
    signin.page(show(main), { onDone: open });
    return;
  }
  const { words, parameters } = where();
  const first = words[0] ?? (await home(signal));
  const page = PAGES.get(words.length > 1 ? `${first}/` : first);
  if (signal.aborted) return;
  const held = heldField();
  frame(first);
  show(main, h("p", { class: "quiet" }, "…"));
  try {
    if (!page) throw new Error("There is no such page.");
    await page(main, { id: words[1], parameters, signal });
    if (signal.aborted) return;
    say(document.title);
    focus(held);
  } catch (error) {
    if (signal.aborted) return;
    refused(error);
  }
}

/** The label of the field that has the focus: a filter that redraws its page must not throw its user out. */
function heldField() {
  return document.activeElement?.closest("label.field")?.firstChild.textContent;
}

/** Puts the focus where it was, or on what is new, unless the page has chosen itself. */
function focus(label) {
  if (main.contains(document.activeElement) && document.activeElement !== main) return;
  const fields = [...main.querySelectorAll("label.field")];
  const field = label && fields.find((one) => one.firstChild.textContent === label);
  (field?.querySelector("select, input, textarea") ?? main).focus({ preventScroll: true });
}

/** Where one begins: with the model to try things with if there is one, else with what happened. */
async function home(signal) {
  try {
    const { models } = await catalog.modelsAndAgents(signal);
    return models.some((model) => model.provider === "demo") ? "playground" : "runs";
  } catch {
    return "runs";
  }
}

function refused(error) {
  if (error.status === 401) {
    signOut();
    main.prepend(problem({ message: "The key is not valid any more.", hint: "Sign in with another one." }));
    return;
  }
  show(main, problem(error), button("Try again", open));
}

function signOut() {
  forget();
  catalog.forgetCatalog();
  open();
}

/** Navigation and name of who is signed in. */
function frame(current) {
  const known = credentials();
  document.body.classList.toggle("signed-in", Boolean(known));
  const items = known ? MENU : [];
  const waiting = h("span", { class: "badge", hidden: true });
  show(document.getElementById("nav"), items.map(([word, title]) =>
    h("a", { href: `#/${word}`, "aria-current": word === current ? "page" : null }, title, word === "approvals" && waiting)));
  if (known) approvals.badge(waiting, leaving.signal);
  show(document.getElementById("who"), known && [
    h("span", { class: "workspace", title: "Workspace" }, known.workspace),
    button("Sign out", () => {
      // Clears storage and memory for the next user of the tab.
      forget();
      history.replaceState(null, "", "#/");
      location.reload();
    }, { class: "plain" }),
  ]);
}

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
listen(main);
window.addEventListener("hashchange", () => {
  window.scrollTo(0, 0);
  open();
});
open();
