import assert from "node:assert/strict";
import { localTool } from "../visitor.mjs";

const policy = { rules: [{ id: "sends", tools: ["send"], decision: "ask", reason: "It is sent to people." }] };

const starting = (prompt) => ({ systemPrompt: "s", prompt, tools: [localTool("send")], policy });

async function inAnotherWorkspace(server, visit, slug) {
  const { workspace, key } = await server.anotherWorkspace(slug);
  const visitor = await visit({ address: server.linkFor({ workspace, key }) });
  return { api: server.api({ workspace, key }), visitor, page: visitor.page };
}

const until = async (api, runId, type) => {
  for (;;) {
    const { events } = await api(`/agent-runs/${runId}/events`);
    const found = events.find((event) => event.type === type);
    if (found) return found.data;
  }
};

export async function approvals_are_approved_edited_and_denied({ server, visit }) {
  const { api, visitor, page } = await inAnotherWorkspace(server, visit, "approving");
  await visitor.go("#/approvals");
  await page.getByText("No call waits for a decision.").waitFor();
  const approved = await api("/agent-runs", starting('call send {"to": "first"}'));
  const edited = await api("/agent-runs", starting('call send {"to": "second"}'));
  const denied = await api("/agent-runs", starting('call send {"to": "third"}\nsay over'));
  const card = (text) => page.locator("article.approval", { hasText: text });
  await card("first").waitFor();
  await card("third").waitFor();
  assert.match(await card("first").innerText(), /It is sent to people\./);
  const badge = page.locator("#nav .badge");
  await badge.getByText("3", { exact: true }).waitFor();

  await card("first").getByRole("button", { name: "Approve", exact: true }).click();
  await page.locator("article.approval[data-status=approved]", { hasText: "first" }).waitFor();
  assert.deepEqual((await until(api, approved.runId, "local_tool_call")).args, { to: "first" });

  await card("second").getByRole("button", { name: "Edit", exact: true }).click();
  await card("second").getByLabel("Arguments", { exact: true }).fill('{"to": ');
  await card("second").getByRole("button", { name: "Approve edited" }).click();
  await card("second").getByText("The arguments are not JSON").waitFor();
  await card("second").getByLabel("Arguments", { exact: true }).fill('{"to": "somebody else"}');
  await card("second").getByRole("button", { name: "Approve edited" }).click();
  await page.locator("article.approval[data-status=approved]", { hasText: "somebody else" }).waitFor();
  assert.deepEqual((await until(api, edited.runId, "local_tool_call")).args, { to: "somebody else" });

  await card("third").getByLabel("Note (optional)").fill("Not to them.");
  await card("third").getByRole("button", { name: "Deny", exact: true }).click();
  await page.locator("article.approval[data-status=denied]", { hasText: "Not to them." }).waitFor();
  const { result } = await until(api, denied.runId, "tool_result");
  assert.match(result, /A person denied this call: Not to them\./);
  await badge.waitFor({ state: "hidden" });
}

export async function a_run_is_decided_on_its_timeline({ server, visit }) {
  const { api, visitor, page } = await inAnotherWorkspace(server, visit, "deciding");
  const { runId } = await api("/agent-runs", starting('call send {"to": "x"}\nsay over'));
  await until(api, runId, "approval_requested");
  await visitor.go(`#/runs/${runId}`);
  await page.locator(".run-head .status.waiting_approval").waitFor();
  const tool = page.locator("article.tool", { hasText: "send" });
  await tool.getByText("waits for approval").waitFor();
  await tool.getByRole("button", { name: "Deny", exact: true }).click();
  await tool.getByText("A person denied this call").first().waitFor();
  await page.locator(".run-head .status.succeeded").waitFor();
}

export async function approvals_fit_in_light_and_dark({ server, visit }) {
  const { workspace, key } = await server.anotherWorkspace("looking");
  const api = server.api({ workspace, key });
  await api("/agent-runs", starting('call send {"to": "x", "text": "a longer text"}'));
  for (const colorScheme of ["light", "dark"]) {
    const { page } = await visit({ address: server.linkFor({ workspace, key }), colorScheme });
    await page.evaluate(() => (location.hash = "#/approvals"));
    await page.locator("article.approval").waitFor();
    await page.locator("#nav .badge:not([hidden])").waitFor();
    const wide = await page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth);
    assert.equal(wide, false, colorScheme);
  }
}
