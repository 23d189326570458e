import assert from "node:assert/strict";

export async function a_conversation_is_begun_held_and_ended({ visit }) {
  const visitor = await visit();
  const { page } = visitor;
  await visitor.open("Sessions");
  await page.getByText("New session").click();
  await page.getByLabel("Name").fill("About the loom");
  await page.getByRole("button", { name: "Begin" }).click();
  await page.getByRole("heading", { level: 1, name: "About the loom" }).waitFor();
  for (const [index, [text, answer]] of [["say I am the loom.", "I am the loom."], ["history", '"say I am the loom."']].entries()) {
    await page.getByLabel("Message").fill(text);
    await page.getByLabel("Message").press("Control+Enter");
    await page.locator(".ending.result").nth(index).waitFor();
    assert.ok((await page.locator(".run").nth(index).innerText()).includes(answer));
  }
  await page.reload();
  await page.locator(".bubble.assistant").nth(1).waitFor();
  assert.deepEqual(await page.locator(".bubble .who").allTextContents(), ["user", "assistant", "user", "assistant"]);
  await page.getByRole("button", { name: "End session" }).click();
  await page.getByRole("button", { name: "Really end it?" }).click();
  await page.getByText("This session has ended").waitFor();
  assert.equal(await page.getByLabel("Message").count(), 0);
  await page.getByRole("link", { name: "Its runs" }).click();
  await page.locator("table.runs tr[data-run]").nth(1).waitFor();
  assert.equal(await page.locator("table.runs tr[data-run]").count(), 2);
}

export async function a_session_that_is_being_answered_is_followed({ server, visit }) {
  const api = server.api();
  const { sessionId } = await api("/agent-sessions", { systemPrompt: "s" });
  const { runId } = await api(`/agent-sessions/${sessionId}/messages`, { prompt: "hang" });
  const visitor = await visit();
  const { page } = visitor;
  await visitor.go(`#/sessions/${sessionId}`);
  await page.locator(`section.run[data-run="${runId}"] .status.running`).waitFor();
  assert.equal(await page.getByText("hang", { exact: true }).count(), 1, "what was asked is shown once");
  await page.getByRole("button", { name: "Cancel", exact: true }).click();
  await visitor.ended("cancelled");
}

export async function files_of_messages_are_named_in_runs_and_sessions({ server, visit }) {
  const api = server.api();
  const file = (filename) => ({ type: "input_file", filename, mimeType: "text/plain", data: "aGVsbG8=" });
  const { sessionId } = await api("/agent-sessions", { systemPrompt: "s" });
  const { runId } = await api(`/agent-sessions/${sessionId}/messages`, { messages: [{ role: "user", content: "", attachments: [file("<b>alone</b>.txt")] }] });
  const visitor = await visit();
  const { page } = visitor;
  await visitor.go(`#/runs/${runId}`);
  await visitor.ended();
  const listed = "<b>alone</b>.txt text/plain, 5 bytes";
  assert.equal((await page.locator(".prompt .files li").innerText()).trim(), listed);
  await visitor.go(`#/sessions/${sessionId}`);
  const bubble = page.locator(".bubble.user");
  await bubble.waitFor();
  assert.equal((await bubble.locator(".files li").innerText()).trim(), listed);
  assert.equal(await bubble.locator(".said").count(), 0, "no empty bubble");
}

export async function a_session_names_the_model_that_it_moved_to({ server, visit }) {
  const { sessionId } = await server.api()("/agent-sessions", { systemPrompt: "s", modelId: "platform:demo", fallbackModelId: "platform:demo-spare" });
  const visitor = await visit();
  const { page } = visitor;
  await visitor.go(`#/sessions/${sessionId}`);
  await page.getByLabel("Message").fill("fail 503\nsay the spare speaks");
  await page.getByRole("button", { name: "Send" }).click();
  await visitor.ended();
  await page.reload();
  await page.getByText("platform:demo-spare (fell back from platform:demo)").waitFor();
}

export async function an_answer_is_judged_and_the_verdict_can_be_changed({ server, visit }) {
  const api = server.api();
  const { runId } = await api("/agent-runs", { systemPrompt: "s", prompt: "say It is Monday." });
  const visitor = await visit();
  const { page } = visitor;
  await visitor.go(`#/runs/${runId}`);
  const feedback = page.getByRole("region", { name: "Feedback" });
  await feedback.getByLabel("Why").fill("<i>It is Tuesday.</i>");
  await feedback.getByRole("button", { name: "Bad answer" }).click();
  await feedback.locator(".given", { hasText: "Bad answer" }).waitFor();
  await page.reload();
  await feedback.locator(".given", { hasText: "<i>It is Tuesday.</i>" }).waitFor();
  await feedback.getByText("Change the verdict").click();
  await feedback.getByLabel("Why").fill("");
  await feedback.getByRole("button", { name: "Good answer" }).click();
  await feedback.locator(".given", { hasText: "Good answer" }).waitFor();
  const { feedback: kept } = await api(`/reply-feedback?agentRunId=${runId}`);
  assert.deepEqual(kept.map(({ verdict, explanation }) => [verdict, explanation ?? null]), [["UP", null]]);
}

export async function models_usage_and_the_server_are_shown({ server, visit }) {
  const visitor = await visit();
  const { page } = visitor;
  await visitor.run({ prompt: "say counted" });
  await visitor.ended();
  await page.getByRole("navigation").getByRole("link", { name: "Models" }).click();
  await page.getByRole("link", { name: "platform:demo", exact: true }).click();
  await page.getByRole("heading", { level: 1, name: "Playground" }).waitFor();
  await visitor.open("Usage");
  const { total } = await server.api()("/usage");
  assert.ok(total.runs > 0);
  await page.locator(".figure", { hasText: "Runs" }).getByText(/[1-9]/).waitFor();
  assert.ok((await page.locator(".chart rect.output").count()) > 0);
  await page.getByLabel("By").selectOption("model");
  await page.getByRole("cell", { name: "platform:demo", exact: true }).waitFor();
  await visitor.open("Server");
  await page.getByText(/^runloom \d/).waitFor();
  await page.getByText("ready", { exact: true }).waitFor();
}

export async function no_page_is_wider_than_a_phone({ server, visit }) {
  const api = server.api();
  const long = "W".repeat(200);
  const { runId } = await api("/agent-runs", { systemPrompt: "s", name: long, prompt: `say ${long}`, metadata: { long } });
  const { sessionId } = await api("/agent-sessions", { systemPrompt: "s", name: long });
  const visitor = await visit({ viewport: { width: 360, height: 740 } });
  const { page } = visitor;
  await page.getByRole("heading", { level: 1, name: "Playground" }).waitFor();
  for (const fragment of ["#/playground", "#/runs", `#/runs/${runId}`, "#/sessions", `#/sessions/${sessionId}`, "#/models", "#/usage", "#/server"]) {
    await visitor.go(fragment);
    await page.waitForFunction((hash) => document.querySelector("h1") && location.hash === hash, fragment);
    if (fragment.includes("run_")) await visitor.ended();
    const [inner, wide] = await page.evaluate(() => [innerWidth, document.scrollingElement.scrollWidth]);
    assert.ok(wide <= inner, `${fragment}: ${wide} > ${inner}`);
  }
}

export async function dark_is_dark_and_light_is_light({ visit }) {
  for (const [colorScheme, isDark] of [["light", false], ["dark", true]]) {
    const { page } = await visit({ colorScheme });
    await page.getByRole("heading", { level: 1, name: "Playground" }).waitFor();
    const [red] = await page.evaluate(() => getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number));
    assert.equal(red < 128, isDark, colorScheme);
  }
}
