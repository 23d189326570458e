import assert from "node:assert/strict";
import { localTool } from "../visitor.mjs";

const EVIL = [
  `<img src=x onerror="window.caught=1">`,
  `<script>window.caught=1</script>`,
  `<svg onload="window.caught=1"></svg>`,
  `<a href="javascript:window.caught=1">click me</a>`,
  `[click](javascript:window.caught=1)`,
  `"><iframe srcdoc="<script>parent.caught=1</script>"></iframe>`,
  `</textarea></pre><style>*{display:none}</style>`,
  `{{constructor.constructor('window.caught=1')()}}`,
].join(" ");

/** The worst of it, short enough for a name. */
const NAME = `<img src=x onerror="window.caught=1"> javascript:window.caught=1`;

/** The texts are there, and nothing in the page came out of them. */
async function inert(page, where) {
  await page.waitForFunction(([root, text]) => document.querySelector(root)?.textContent.includes(text), [where, "javascript:window.caught=1"]);
  const found = await page.evaluate(() => ({
    caught: window.caught ?? null,
    markup: document.querySelectorAll("main img, main script, main iframe, main style, main object, main embed, main svg").length,
    links: [...document.querySelectorAll("main a")].map((link) => link.getAttribute("href")).filter((href) => !href.startsWith("#/")),
    listeners: [...document.querySelectorAll("main *")].flatMap((element) => element.getAttributeNames()).filter((name) => name.startsWith("on")),
  }));
  assert.deepEqual(found, { caught: null, markup: 0, links: [], listeners: [] });
}

export async function what_models_tools_and_users_write_stays_text({ server, visit }) {
  const visitor = await visit();
  const { page } = visitor;
  await visitor.run({
    prompt: `think ${EVIL}\ntext ${EVIL}\ncall evil ${JSON.stringify({ [EVIL]: EVIL })}\nsay ${EVIL}`,
    tools: [localTool("evil")],
    reasoning: "high",
  });
  const tool = page.getByRole("article", { name: "Tool evil" });
  await inert(page, ".tool");
  await tool.getByLabel("Answer").fill(EVIL);
  await tool.getByRole("button", { name: "Send as error" }).click();
  await visitor.ended();
  await page.locator("details").evaluateAll((all) => all.forEach((one) => (one.open = true)));
  for (const where of [".thinking", ".tool .body", ".timeline > :nth-last-child(2) .said", ".prompt"]) await inert(page, where);

  const body = { systemPrompt: EVIL, name: NAME, prompt: `say ${EVIL}`, metadata: { evil: NAME } };
  const { runId } = await server.api()("/agent-runs", body);
  await visitor.open("Runs");
  await page.locator(`tr[data-run="${runId}"]`).waitFor();
  await inert(page, "table.runs");
  await visitor.go(`#/runs/${runId}`);
  await visitor.ended();
  await page.locator("details.spec").evaluate((one) => (one.open = true));
  for (const where of ["h1", "details.spec", ".prompt"]) await inert(page, where);

  const { sessionId } = await server.api()("/agent-sessions", { systemPrompt: EVIL, name: NAME });
  await visitor.go(`#/sessions/${sessionId}`);
  await page.getByLabel("Message").fill(`say ${EVIL}`);
  await page.getByRole("button", { name: "Send" }).click();
  await visitor.ended();
  await inert(page, ".conversation");
  await page.reload();
  await page.locator(".bubble.assistant").waitFor();
  await inert(page, ".bubble.assistant");
  await visitor.open("Sessions");
  await page.locator(`tr[data-session="${sessionId}"]`).waitFor();
  await inert(page, "table");
}

export async function hostile_addresses_are_only_refused({ visit }) {
  const visitor = await visit();
  const { page } = visitor;
  for (const fragment of [`#/runs/${encodeURIComponent(EVIL)}`, `#/${encodeURIComponent(EVIL)}`, "#/runs/%E0%A4%A", "#/__proto__", "#/constructor", "#/sessions/..%2F..%2Fusage", "#/playground?from=%00"]) {
    await visitor.go(fragment);
    await page.getByRole("alert").waitFor();
    assert.equal(await page.evaluate(() => window.caught ?? null), null);
    await visitor.open("Server");
  }
}

export async function the_page_cannot_be_framed_and_refuses_markup({ server, visit }) {
  const { page, complaints } = await visit();
  await page.getByRole("heading", { level: 1, name: "Playground" }).waitFor();
  const refused = await page.evaluate(() => {
    try {
      document.createElement("div").innerHTML = "<b>x</b>";
      return false;
    } catch {
      return true;
    }
  });
  assert.ok(refused, "trusted types are on");
  assert.equal((await fetch(server.url)).headers.get("x-frame-options"), "DENY");
  // The browser told about the attempt above, as it should.
  complaints.length = 0;
}
