// Somebody in front of a browser, and a witness of what the page does meanwhile: every request, every message of the
// console.

import assert from "node:assert/strict";

/** A request that is refused on purpose is told on the console as well. */
const EXPECTED = /Failed to load resource: (the server responded with a status of (400|401|404|409)|net::ERR_(CONNECTION_|INCOMPLETE_CHUNKED|EMPTY_RESPONSE))/;

export class Visitor {
  /** Opens the link that `runloom dev` prints, unless another address is given. */
  static async arrive(browser, server, { address = server.link, origins = [], ...options } = {}) {
    const context = await browser.newContext({ viewport: { width: 1200, height: 860 }, ...options });
    const visitor = new Visitor(await context.newPage(), server);
    visitor.origins = [server.url, ...origins];
    await visitor.page.goto(address);
    return visitor;
  }

  constructor(page, server) {
    this.page = page;
    this.server = server;
    this.requests = [];
    this.complaints = [];
    page.setDefaultTimeout(30_000);
    page.on("request", (request) => this.requests.push(request.url()));
    page.on("pageerror", (error) => this.complaints.push(`error: ${error.message}`));
    page.on("dialog", (dialog) => {
      this.complaints.push(`dialog: ${dialog.message()}`);
      dialog.dismiss();
    });
    page.on("console", (message) => {
      if (["error", "warning"].includes(message.type()) && !EXPECTED.test(message.text())) this.complaints.push(`${message.type()}: ${message.text()}`);
    });
  }

  leave() {
    return this.page.context().close();
  }

  seen() {
    return [...this.complaints, ...this.requests.slice(-10)].map((text) => `        ${text}`).join("\n");
  }

  /** Nothing was complained of, nobody else was asked for anything, and no key stood in an address. */
  assertClean() {
    assert.deepEqual(this.complaints, []);
    for (const url of this.requests.filter((url) => !url.startsWith("blob:"))) {
      assert.ok(this.origins.some((origin) => url.startsWith(`${origin}/`)), `asked somebody else: ${url}`);
      assert.ok(!url.includes("mantyx_"), `a key in an address: ${url}`);
    }
  }

  /** Opens a page of the dashboard by its navigation. */
  async open(title) {
    await this.page.getByRole("navigation").getByRole("link", { name: title, exact: true }).click();
    await this.page.getByRole("heading", { level: 1, name: title }).waitFor();
  }

  /** Opens what a fragment names. */
  async go(fragment) {
    await this.page.evaluate((hash) => (location.hash = hash), fragment);
  }

  /** Fills the playground's form and starts the run; its id. */
  async run({ prompt, tools, schema, reasoning }) {
    const { page } = this;
    await page.getByLabel("Prompt", { exact: true }).fill(prompt);
    if (reasoning) await page.getByLabel("Reasoning").selectOption(reasoning);
    for (const [title, value] of [["Tools", tools], ["Output schema", schema]]) {
      const fold = page.locator("form details", { has: page.getByText(title, { exact: true }) });
      await fold.evaluate((element) => (element.open = true));
      await fold.locator("textarea").fill(value ? JSON.stringify(value) : "");
    }
    const before = await page.evaluate(() => document.querySelector("section.run")?.dataset.run ?? null);
    await page.getByRole("button", { name: "Run", exact: true }).click();
    const found = await page.waitForFunction((old) => {
      const id = document.querySelector("section.run")?.dataset.run;
      return id && id !== old ? id : null;
    }, before);
    return found.jsonValue();
  }

  /** Waits until the shown run has ended in this way: `result`, `error` or `cancelled`. */
  async ended(how = "result") {
    await this.page.locator(`.ending.${how}`).waitFor();
  }
}

/** A prompt whose answer takes longer than any test. */
export const ENDLESS = "slow 50ms\ntokens 100000";

/** A client tool that takes anything. */
export function localTool(name) {
  return { kind: "local", name, description: "A tool of tests.", parameters: { type: "object" } };
}
