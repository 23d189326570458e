import assert from "node:assert/strict";
import { ENDLESS, localTool } from "../visitor.mjs";

/** Calls of these are made at once. */
const SIDE_BY_SIDE = ["left", "right"].map((name) => ({ ...localTool(name), readOnly: true }));

const said = ".turn:not(.prompt) .said:not(.thinking)";

export async function words_are_shown_before_their_turn_has_ended({ visit }) {
  const visitor = await visit();
  const { page } = visitor;
  await visitor.run({ prompt: ENDLESS });
  await page.locator(".turn.live .said", { hasText: "one small word after another" }).waitFor();
  await page.locator(".run-head .status.running").waitFor();
  await page.getByRole("button", { name: "Cancel", exact: true }).click();
  await visitor.ended("cancelled");
  assert.equal(await page.locator(".turn.live").count(), 0);
}

export async function what_is_shown_in_the_end_is_the_answer({ server, visit }) {
  const visitor = await visit();
  const { page } = visitor;
  const id = await visitor.run({ prompt: "slow 5ms\ntokens 100" });
  await visitor.ended();
  const { finalText } = await server.api()(`/agent-runs/${id}`);
  assert.equal(await page.locator(said).textContent(), finalText);
  await page.locator(".run-head .status.succeeded").waitFor();
}

export async function thinking_is_folded_and_a_server_tool_shows_what_it_was_asked_and_answered({ visit }) {
  const visitor = await visit();
  const { page } = visitor;
  await page.getByRole("button", { name: /Think, then use a tool/ }).click();
  await visitor.ended();
  const tool = page.getByRole("article", { name: "Tool now" });
  assert.match(await tool.innerText(), /"timezone": "Europe\/Oslo"[^]*"unixSeconds"/);
  assert.equal(await tool.getAttribute("data-state"), "ok");
  const thoughts = page.locator(".thoughts").first();
  assert.equal(await thoughts.locator(".thinking").isVisible(), false);
  await thoughts.locator("summary").press("Enter");
  await thoughts.getByText("I ask the clock").waitFor();
  assert.deepEqual(await page.locator(".turn .who").allTextContents(), ["Prompt", "Turn 1", "Turn 2"]);
}

export async function a_client_tool_is_answered_by_hand_with_a_result_and_with_an_error({ server, visit }) {
  const visitor = await visit();
  const { page } = visitor;
  const id = await visitor.run({
    prompt: 'call weather {"city": "Oslo"}\nthen\ncall weather {"city": "Bergen"}\nsay Thank you.',
    tools: [localTool("weather")],
  });
  const tools = page.getByRole("article", { name: "Tool weather" });
  await tools.nth(0).getByLabel("Answer").fill('{"degrees": 4}');
  await page.locator(".run-head .status.waiting_tool").waitFor();
  await tools.nth(0).getByRole("button", { name: "Send result" }).click();
  const second = tools.nth(1);
  await second.getByRole("button", { name: "Send as error" }).click();
  await second.getByRole("alert").getByText("an error needs a text").waitFor();
  await second.getByLabel("Answer").fill("no such station");
  await second.getByRole("button", { name: "Send as error" }).click();
  await visitor.ended();
  assert.match(await tools.nth(0).innerText(), /"degrees": 4/);
  assert.equal(await tools.nth(1).getAttribute("data-state"), "failed");
  assert.equal(await page.locator(".answer").count(), 0, "nobody is asked any more");
  const { events } = await server.api()(`/agent-runs/${id}/events`);
  const answers = events.filter((event) => event.type === "local_tool_result_in").map(({ data }) => data.output ?? data.error);
  assert.deepEqual(answers, ['{"degrees": 4}', "no such station"]);
}

export async function a_run_waits_as_long_as_one_of_its_calls_does({ server, visit }) {
  const visitor = await visit();
  const { page } = visitor;
  const id = await visitor.run({ prompt: "call left {}\ncall right {}\nsay Thank you.", tools: SIDE_BY_SIDE });
  const left = page.getByRole("article", { name: "Tool left" });
  const right = page.getByRole("article", { name: "Tool right" });
  await right.getByLabel("Answer").waitFor();
  await left.getByRole("button", { name: "Send result" }).click();
  await page.locator('article[aria-label="Tool left"][data-state="ok"]').waitFor();
  assert.equal((await server.api()(`/agent-runs/${id}`)).status, "waiting_tool");
  assert.equal(await page.locator(".run-head .status").textContent(), "waiting tool");
  await right.getByRole("button", { name: "Send result" }).click();
  await visitor.ended();
}

export async function files_of_a_tool_stand_at_the_call_that_brought_them({ server, visit }) {
  const visitor = await visit();
  const { page } = visitor;
  const id = await visitor.run({ prompt: "call left {}\ncall right {}\nsay Thank you.", tools: SIDE_BY_SIDE });
  await page.getByRole("article", { name: "Tool right" }).getByLabel("Answer").waitFor();
  const { events } = await server.api()(`/agent-runs/${id}/events`);
  for (const { toolUseId, name } of events.filter((event) => event.type === "local_tool_call").map((event) => event.data)) {
    const files = [{ filename: `${name}.txt`, mimeType: "text/plain", data: Buffer.from(name).toString("base64") }];
    await server.api()(`/agent-runs/${id}/tool-results`, { toolUseId, result: "see the file", files });
  }
  await visitor.ended();
  for (const name of ["left", "right"]) {
    assert.deepEqual(await page.getByRole("article", { name: `Tool ${name}` }).locator(".files code").allTextContents(), [`${name}.txt`]);
  }
}

export async function files_and_whole_conversations_are_sent_as_well({ visit }) {
  const visitor = await visit();
  const { page } = visitor;
  await page.locator("input[type=file]").setInputFiles([
    { name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("hello") },
    { name: "spare.txt", mimeType: "text/plain", buffer: Buffer.from("not needed") },
  ]);
  await page.getByRole("button", { name: "Remove spare.txt" }).click();
  await visitor.run({ prompt: "files" });
  await visitor.ended();
  assert.match(await page.locator(said).textContent(), /notes\.txt/);
  assert.match(await page.locator(".prompt").innerText(), /files[^]*notes\.txt text\/plain, 5 bytes/);
  await page.locator("input[type=file]").setInputFiles({ name: "big.txt", mimeType: "text/plain", buffer: Buffer.alloc(6 * 1024 * 1024) });
  await page.getByRole("alert").getByText("5 MB in all").waitFor();

  await page.getByRole("button", { name: "Remove notes.txt" }).click();
  const more = page.locator("form details", { has: page.getByText("More fields", { exact: true }) });
  await more.evaluate((element) => (element.open = true));
  const messages = [{ role: "user", content: "say first" }, { role: "assistant", content: "first" }, { role: "user", content: "history" }];
  await more.locator("textarea").fill(JSON.stringify({ messages }));
  assert.equal(await page.getByLabel("Prompt", { exact: true }).isDisabled(), true);
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.locator(said, { hasText: '"say first"' }).waitFor();
  await visitor.ended();
}

export async function an_agent_brings_its_own_prompt_tools_and_model({ server, visit }) {
  const { workspace, key } = await server.anotherWorkspace("agents");
  const api = server.api({ workspace, key });
  const agent = await server.agent(workspace, { slug: "clock", name: "Clock", systemPrompt: "You are a clock.", modelId: "platform:demo-spare", tools: [{ kind: "mantyx_plugin", name: "@time/now" }] });
  const visitor = await visit({ address: server.linkFor({ workspace, key }) });
  const { page } = visitor;
  const chosen = page.getByRole("combobox", { name: /^Agent/ });
  await chosen.selectOption("Clock");
  assert.equal(await page.getByLabel("System prompt").isDisabled(), true);
  const id = await visitor.run({ prompt: "say tick" });
  await visitor.ended();
  const { agentSpec } = await api(`/agent-runs/${id}`);
  assert.deepEqual([agentSpec.agentId, agentSpec.systemPrompt, agentSpec.modelId], [agent, "You are a clock.", "platform:demo-spare"]);

  await page.reload();
  await visitor.go(`#/playground?from=${id}`);
  await page.getByText("Its agent brings its own tools").waitFor();
  assert.equal(await chosen.inputValue(), agent);
  assert.equal(await page.getByLabel("System prompt").inputValue(), "");
  assert.equal(await page.locator("form details textarea").nth(1).inputValue(), "", "the tools are the agent's");
}

export async function a_run_is_cancelled_and_shows_its_receipt({ server, visit }) {
  const visitor = await visit();
  const { page } = visitor;
  const id = await visitor.run({ prompt: "text Never.\nhang" });
  await page.locator(".run-head .status.running").waitFor();
  await page.getByRole("button", { name: "Cancel", exact: true }).click();
  await visitor.ended("cancelled");
  assert.match(await page.locator(".ending").innerText(), /Reason\s+user/);
  assert.equal(await page.getByRole("button", { name: "Cancel", exact: true }).count(), 0);
  assert.equal((await server.api()(`/agent-runs/${id}`)).status, "cancelled");
}

export async function guards_and_failures_are_told({ visit }) {
  const visitor = await visit();
  const { page } = visitor;
  await page.getByRole("button", { name: /Catch a loop/ }).click();
  await page.locator(".note.stop", { hasText: "Loop cut off" }).waitFor();
  await visitor.ended();
  await visitor.run({ prompt: "fail 401" });
  await visitor.ended("error");
  assert.match(await page.locator(".ending.error").innerText(), /Class\s+auth/);
}

export async function a_schema_is_answered_and_slips_of_the_form_are_named({ visit }) {
  const visitor = await visit();
  const { page } = visitor;
  await page.getByRole("button", { name: /Answer by a schema/ }).click();
  await visitor.ended();
  assert.match(await page.locator(".ending").innerText(), /Structured output[^]*"label"/);
  const tools = page.locator("form details", { has: page.getByText("Tools", { exact: true }) });
  await tools.evaluate((element) => (element.open = true));
  await tools.locator("textarea").fill("[{");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByRole("alert").getByText("Tools: this is not JSON").waitFor();
  await tools.locator("textarea").fill('[{"kind": "local", "name": "not a name!"}]');
  await page.getByRole("button", { name: "Check only" }).click();
  await page.getByRole("alert").getByText("tools[0].name").first().waitFor();
  await tools.locator("textarea").fill("");
  await page.getByRole("button", { name: "Check only" }).click();
  await page.getByText("It would run").waitFor();
}

export async function the_keyboard_is_enough({ visit }) {
  const visitor = await visit();
  const { page } = visitor;
  const prompt = page.getByLabel("Prompt", { exact: true });
  await prompt.waitFor();
  for (let step = 0; step < 40 && !(await prompt.evaluate((element) => element === document.activeElement)); step += 1) await page.keyboard.press("Tab");
  await page.keyboard.type("say typed");
  await page.keyboard.press("Control+Enter");
  await visitor.ended();
  assert.equal(await page.locator(said).textContent(), "typed");
  await page.locator("#said").getByText("The run has succeeded.").waitFor({ state: "attached" });
}
