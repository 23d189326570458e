import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { ENDLESS, localTool } from "../visitor.mjs";

const rows = "table.runs tr[data-run]";

export async function new_runs_appear_and_change_by_themselves({ server, visit }) {
  const { workspace, key } = await server.anotherWorkspace("fresh");
  const api = server.api({ workspace, key });
  const visitor = await visit({ address: server.linkFor({ workspace, key }) });
  const { page } = visitor;
  await visitor.open("Runs");
  await page.getByText("No runs yet").waitFor();
  const tools = [{ kind: "local", name: "ask" }];
  const { runId } = await api("/agent-runs", { systemPrompt: "s", prompt: "call ask {}\nsay done", tools });
  const row = page.locator(`tr[data-run="${runId}"]`);
  await row.locator(".status.waiting_tool").waitFor();
  const { events } = await api(`/agent-runs/${runId}/events`);
  const { toolUseId } = events.find((event) => event.type === "local_tool_call").data;
  await api(`/agent-runs/${runId}/tool-results`, { toolUseId, result: "yes" });
  await row.locator(".status.succeeded").waitFor();
  await row.getByText("done").last().waitFor();
}

export async function older_runs_are_paged_and_new_ones_do_not_move_what_is_read({ server, visit }) {
  const { workspace, key } = await server.anotherWorkspace("many");
  const api = server.api({ workspace, key });
  const start = (number) => api("/agent-runs", { systemPrompt: "s", prompt: `say ${number}`, metadata: { n: String(number % 2) } });
  for (let number = 0; number < 60; number += 1) await start(number);
  const visitor = await visit({ address: server.linkFor({ workspace, key }) });
  const { page } = visitor;
  await visitor.open("Runs");
  await page.locator(rows).nth(49).waitFor();
  assert.equal(await page.locator(rows).count(), 50);
  await page.getByRole("button", { name: "Older runs" }).click();
  await page.locator(rows).nth(59).waitFor();
  const titles = await page.locator(`${rows} .what > a`).allTextContents();
  assert.deepEqual(titles, Array.from({ length: 60 }, (_, index) => `say ${59 - index}`));
  assert.equal(await page.getByRole("button", { name: "Older runs" }).isVisible(), false);

  await page.locator(rows).nth(30).scrollIntoViewIfNeeded();
  const place = () => page.locator(rows, { hasText: "say 29" }).evaluate((row) => row.getBoundingClientRect().top);
  const before = await place();
  await start(60);
  await page.getByRole("button", { name: "1 new run" }).waitFor();
  assert.equal(await place(), before, "the list did not move");
  await page.getByRole("button", { name: "1 new run" }).click();
  await page.locator(rows).nth(60).waitFor();
  assert.equal(await page.locator(`${rows} .what > a`).first().textContent(), "say 60");
}

export async function a_burst_leaves_no_gap_in_the_list({ server, visit }) {
  const { workspace, key } = await server.anotherWorkspace("burst");
  const api = server.api({ workspace, key });
  const start = async (from, to) => {
    for (let number = from; number < to; number += 1) await api("/agent-runs", { systemPrompt: "s", prompt: `say ${number}` });
  };
  await start(0, 60);
  const visitor = await visit({ address: server.linkFor({ workspace, key }) });
  const { page } = visitor;
  await visitor.open("Runs");
  await page.locator(rows).nth(49).waitFor();
  // The page does not see the burst before it is over.
  let release;
  const over = new Promise((resolve) => (release = resolve));
  await page.route("**/agent-runs?*", async (route) => {
    await over;
    await route.continue();
  });
  await start(60, 120);
  release();
  await page.locator(`${rows} .what > a`, { hasText: "say 119" }).waitFor();
  for (const known of [50, 100]) {
    await page.locator(rows).nth(known - 1).waitFor();
    await page.getByRole("button", { name: "Older runs" }).click();
    await page.locator(rows).nth(known).waitFor();
  }
  await page.locator(rows).nth(119).waitFor();
  const titles = await page.locator(`${rows} .what > a`).allTextContents();
  assert.deepEqual(titles, Array.from({ length: 120 }, (_, index) => `say ${119 - index}`));
}

/** Starts a run that asks its client; a way to answer it. */
async function asking(api) {
  const { runId } = await api("/agent-runs", { systemPrompt: "s", prompt: "call ask {}\nsay done", tools: [localTool("ask")] });
  const answer = async () => {
    const { events } = await api(`/agent-runs/${runId}/events`);
    const { toolUseId } = events.find((event) => event.type === "local_tool_call").data;
    await api(`/agent-runs/${runId}/tool-results`, { toolUseId, result: "yes" });
  };
  return { runId, answer };
}

export async function a_run_that_a_filter_no_longer_lets_through_leaves_the_list({ server, visit }) {
  const { workspace, key } = await server.anotherWorkspace("leaving");
  const api = server.api({ workspace, key });
  const [first, second] = [await asking(api), await asking(api)];
  const visitor = await visit({ address: server.linkFor({ workspace, key }) });
  const { page } = visitor;
  await visitor.go("#/runs?status=waiting_tool");
  await page.locator(`tr[data-run="${first.runId}"]`).waitFor();
  await second.answer();
  await page.locator(`tr[data-run="${second.runId}"]`).waitFor({ state: "detached" });
  await first.answer();
  await page.getByText("Nothing fits").waitFor();
}

export async function a_living_run_far_down_the_list_is_kept_fresh({ server, visit }) {
  const { workspace, key } = await server.anotherWorkspace("deep");
  const api = server.api({ workspace, key });
  const deep = await asking(api);
  for (let number = 0; number < 50; number += 1) await api("/agent-runs", { systemPrompt: "s", prompt: `say ${number}` });
  const visitor = await visit({ address: server.linkFor({ workspace, key }) });
  const { page } = visitor;
  await visitor.open("Runs");
  await page.getByRole("button", { name: "Older runs" }).click();
  const row = page.locator(`tr[data-run="${deep.runId}"]`);
  await row.locator(".status.waiting_tool").waitFor();
  await deep.answer();
  await row.locator(".status.succeeded").waitFor();
  await row.locator(".preview", { hasText: "done" }).waitFor();
}

export async function filters_stand_in_the_address({ server, visit }) {
  const { workspace, key } = await server.anotherWorkspace("sorted");
  const api = server.api({ workspace, key });
  await api("/agent-runs", { systemPrompt: "s", prompt: "say one", metadata: { team: "a", env: "prod" } });
  await api("/agent-runs", { systemPrompt: "s", prompt: "fail 401", metadata: { team: "a" } });
  await api("/agent-runs", { systemPrompt: "s", prompt: "say three", metadata: { team: "b" } });
  const visitor = await visit({ address: server.linkFor({ workspace, key }) });
  const { page } = visitor;
  await visitor.open("Runs");
  await page.locator(".status.failed").waitFor();
  const titles = async (...wanted) => {
    await page.waitForFunction(([where, text]) => JSON.stringify([...document.querySelectorAll(where)].map((link) => link.textContent)) === text,
      [`${rows} .what > a`, JSON.stringify(wanted)]);
  };
  await titles("say three", "fail 401", "say one");
  await page.getByLabel("Labels").fill("team:a");
  await page.getByRole("button", { name: "Apply" }).click();
  await titles("fail 401", "say one");
  const status = page.getByLabel("Status");
  await status.focus();
  await status.selectOption("failed");
  await titles("fail 401");
  // The page was redrawn and the keyboard focus is unchanged.
  await page.waitForFunction(() => document.activeElement?.value === "failed");
  await page.reload();
  await titles("fail 401");
  await page.getByLabel("Labels").fill("no colon");
  await page.getByRole("button", { name: "Apply" }).click();
  await page.getByRole("alert").getByText("metadata").first().waitFor();
  assert.equal(await page.getByLabel("Labels").inputValue(), "no colon", "the slip stands where it can be mended");
  await visitor.go("#/runs?modelId=nowhere");
  await page.getByText("Nothing fits").waitFor();
  assert.equal(await page.getByLabel("Model").inputValue(), "nowhere");
  await visitor.go("#/runs?metadata=team:nobody");
  await page.getByText("Nothing fits").waitFor();
}

export async function a_run_is_exported_byte_for_byte_and_started_again_as_it_was({ server, visit }) {
  const api = server.api();
  const rest = { reasoningLevel: 65, budgets: { maxToolTurns: 7 }, metadata: { team: "support" } };
  const { runId } = await api("/agent-runs", { ...rest, systemPrompt: "s", prompt: 'call now {}\nsay 12345678901234567890', tools: [{ kind: "mantyx_plugin", name: "@time/now" }] });
  const visitor = await visit();
  const { page } = visitor;
  await visitor.go(`#/runs/${runId}`);
  await visitor.ended();
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Export" }).click()]);
  assert.equal(download.suggestedFilename(), `${runId}.jsonl`);
  const [head, ...lines] = readFileSync(await download.path(), "utf8").trimEnd().split("\n");
  const { type, run } = JSON.parse(head);
  assert.deepEqual([type, run.id], ["runloom.export", runId]);
  const { events } = await api(`/agent-runs/${runId}/events?limit=1000`);
  assert.deepEqual(lines.map((line) => JSON.parse(line)), events);
  await page.getByRole("link", { name: "Again" }).click();
  await page.getByRole("heading", { level: 1, name: "Playground" }).waitFor();
  assert.match(await page.getByLabel("Prompt", { exact: true }).inputValue(), /^call now/);
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await visitor.ended();
  const specs = await Promise.all((await api("/agent-runs?limit=2")).runs.map(async ({ id }) => (await api(`/agent-runs/${id}`)).agentSpec));
  const { modelId, ...again } = specs[0];
  assert.deepEqual(again, specs[1]);
}

export async function a_prompt_of_which_only_the_beginning_is_known_is_not_run_again_unseen({ server, visit }) {
  const { runId } = await server.api()("/agent-runs", { systemPrompt: "s", prompt: `say ${"long ".repeat(100)}` });
  const visitor = await visit();
  const { page } = visitor;
  await visitor.go(`#/runs/${runId}`);
  await page.getByText("Prompt (its beginning)").waitFor();
  await page.getByRole("link", { name: "Again" }).click();
  await page.getByText("keeps only the beginning of a prompt").waitFor();
}

export async function what_a_run_had_and_its_second_start_would_lack_is_told({ server, visit }) {
  const api = server.api();
  const attachments = [{ type: "input_file", filename: "invoice.txt", mimeType: "text/plain", data: "aGVsbG8=" }];
  const tools = [{ kind: "a2a", name: "peer", agentCardUrl: "https://peer.example/card.json", headers: { Authorization: "Bearer secret" } }];
  const { runId } = await api("/agent-runs", { systemPrompt: "s", messages: [{ role: "user", content: "files", attachments }], tools });
  const visitor = await visit();
  const { page } = visitor;
  await visitor.go(`#/runs/${runId}`);
  await page.getByRole("link", { name: "Again" }).click();
  const note = page.locator(".playground .note.warn");
  await note.getByText("attach invoice.txt").waitFor();
  await note.getByText("fill in Authorization of the tool peer").waitFor();
  const [tool] = JSON.parse(await page.locator("form details textarea").nth(1).inputValue());
  assert.deepEqual(tool.headers, { Authorization: "" });
  const { sessionId } = await api("/agent-sessions", { systemPrompt: "s" });
  const { runId: ofSession } = await api(`/agent-sessions/${sessionId}/messages`, { prompt: "say hello" });
  await visitor.go(`#/playground?from=${ofSession}`);
  await note.getByText("what was said there before is not part of this run").waitFor();
}

export async function thousands_of_events_are_a_handful_of_elements({ server, visit }) {
  const { runId } = await server.api()("/agent-runs", { systemPrompt: "s", prompt: "tokens 20000" });
  const visitor = await visit();
  const { page } = visitor;
  await visitor.go(`#/runs/${runId}`);
  await visitor.ended();
  const { finalText } = await server.api()(`/agent-runs/${runId}`);
  assert.ok(finalText.length > 50_000);
  assert.equal(await page.locator(".turn:not(.prompt) .said").evaluate((element) => element.textContent), finalText);
  const nodes = await page.locator(".timeline").evaluate((element) => element.querySelectorAll("*").length);
  assert.ok(nodes < 60, `${nodes} elements`);
}

export async function what_a_killed_server_had_said_of_a_turn_is_shown_once({ server, visit }) {
  const visitor = await visit();
  const { page } = visitor;
  const id = await visitor.run({ prompt: ENDLESS });
  const words = page.locator(".turn.live .said", { hasText: "one small word" });
  await words.waitFor();
  await server.kill();
  await page.locator('.connection[data-state="waiting"]').waitFor();
  await server.comeBack();
  await page.locator(".note.warn", { hasText: "Turn interrupted" }).waitFor();
  await words.waitFor();
  await page.getByRole("button", { name: "Cancel", exact: true }).click();
  await visitor.ended("cancelled");
  const { events } = await server.api()(`/agent-runs/${id}/events?limit=1000`);
  const again = events.slice(events.findLastIndex((event) => event.type === "turn_restarted"));
  const said = again.filter((event) => event.type === "assistant_delta").map((event) => event.data.text).join("");
  assert.deepEqual(await page.locator(".turn:not(.prompt) .said").allTextContents(), [said]);
  assert.deepEqual(await page.locator(".turn .who").allTextContents(), ["Prompt", "Turn 1"]);
}

export async function a_question_outlives_a_killed_server_and_is_answered_on_the_same_page({ server, visit }) {
  const visitor = await visit();
  const { page } = visitor;
  await visitor.run({ prompt: "call ask {}\nsay Thank you.", tools: [{ kind: "local", name: "ask" }] });
  await page.getByLabel("Answer").fill("written before the server died");
  await server.kill();
  await page.getByRole("button", { name: "Send result" }).click();
  await page.getByRole("alert").getByText("The server does not answer.").waitFor();
  await server.comeBack();
  await page.getByRole("button", { name: "Send result" }).click();
  await visitor.ended();
  assert.equal(await page.getByRole("article", { name: "Tool ask" }).count(), 1, "no event is shown twice");
  await page.getByRole("article").getByText("written before the server died").waitFor();
}
