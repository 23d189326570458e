import assert from "node:assert/strict";
import { localTool } from "../visitor.mjs";

export async function a_run_shows_where_its_time_went({ server, visit }) {
  const visitor = await visit();
  const { page } = visitor;
  const { runId } = await server.api()("/agent-runs", { systemPrompt: "s", prompt: "call ask {}\nsay done", tools: [localTool("ask")] });
  await visitor.go(`#/runs/${runId}`);
  const tool = page.getByRole("article", { name: "Tool ask" });
  await tool.getByLabel("Answer").fill("yes");
  await tool.getByRole("button", { name: "Send result" }).click();
  await visitor.ended();
  const waterfall = page.getByRole("region", { name: "Where the time went" });
  await waterfall.getByText("Turn 2", { exact: true }).waitFor();
  assert.deepEqual(await waterfall.locator(".name").allTextContents(), ["Turn 1", "ask (client)", "Turn 2"]);
  const { events } = await server.api()(`/agent-runs/${runId}/events`);
  const times = events.map((event) => event.at);
  assert.ok(times.every((at, index) => Number.isInteger(at) && (index === 0 || at >= times[index - 1])), String(times));
  const turn = events.find((event) => event.type === "assistant_message").data;
  for (const field of ["tokens", "durationMs", "timeToFirstTokenMs", "attempts"]) assert.notEqual(turn[field], undefined, field);
}

export async function markdown_becomes_elements_and_links_stay_text({ server, visit }) {
  const visitor = await visit();
  const { page } = visitor;
  const { runId } = await server.api()("/agent-runs", { systemPrompt: "s", prompt: "say **bold** `code` [click](javascript:window.caught=1) ![x](https://example.com/x.png)" });
  await visitor.go(`#/runs/${runId}`);
  await visitor.ended();
  const text = page.locator(".turn:not(.prompt) .markdown");
  assert.equal(await text.locator("strong").textContent(), "bold");
  assert.equal(await text.locator("code").first().textContent(), "code");
  assert.deepEqual(await text.locator(".address code").allTextContents(), ["javascript:window.caught=1", "https://example.com/x.png"]);
  assert.equal(await text.locator("a, img").count(), 0);
}

export async function keys_move_through_the_list_and_open_pages({ server, visit }) {
  const { workspace, key } = await server.anotherWorkspace("keys");
  const api = server.api({ workspace, key });
  for (const text of ["one", "two"]) await api("/agent-runs", { systemPrompt: "s", prompt: `say ${text}` });
  const visitor = await visit({ address: server.linkFor({ workspace, key }) });
  const { page } = visitor;
  await visitor.open("Usage");
  await page.keyboard.press("g");
  await page.keyboard.press("r");
  await page.locator("table.runs tr[data-run]").nth(1).waitFor();
  const focused = () => page.evaluate(() => document.activeElement?.textContent);
  await page.keyboard.press("j");
  assert.equal(await focused(), "say two");
  await page.keyboard.press("j");
  assert.equal(await focused(), "say one");
  await page.keyboard.press("k");
  assert.equal(await focused(), "say two");
  await page.keyboard.press("/");
  await page.waitForFunction(() => document.activeElement?.tagName === "INPUT");
}

export async function a_new_tab_is_signed_in_by_choice({ server, visit }) {
  const { page } = await visit({ address: server.url });
  const signIn = async (stay) => {
    await page.getByLabel("Workspace").fill(server.workspace);
    await page.getByLabel("API key").fill(server.key);
    if (stay) await page.getByLabel("Stay signed in").check();
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("button", { name: "Sign out" }).waitFor();
  };
  const inNewTab = async (what) => {
    const tab = await page.context().newPage();
    await tab.goto(server.url);
    await tab.getByRole(what.role, { name: what.name }).first().waitFor();
    await tab.close();
  };
  await signIn(false);
  await inNewTab({ role: "heading", name: "Sign in" });
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  await signIn(true);
  await inNewTab({ role: "button", name: "Sign out" });
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  assert.equal(await page.evaluate(() => localStorage.length), 0);
}
