import assert from "node:assert/strict";

export async function the_link_of_dev_leads_inside_and_leaves_no_trace_of_the_key({ server, visit }) {
  const visitor = await visit();
  const { page } = visitor;
  await page.getByRole("heading", { level: 1, name: "Playground" }).waitFor();
  assert.equal(page.url(), `${server.url}/#/`);
  await page.getByText(server.workspace, { exact: true }).waitFor();
  await page.goBack();
  await page.goForward();
  await page.getByRole("heading", { level: 1, name: "Playground" }).waitFor();
  assert.equal(page.url(), `${server.url}/#/`, "the history has the address without the key");
}

export async function the_key_is_kept_for_the_tab_and_forgotten_by_signing_out({ server, visit }) {
  const visitor = await visit();
  const { page } = visitor;
  await visitor.open("Runs");
  await page.reload();
  await page.getByRole("heading", { level: 1, name: "Runs" }).waitFor();
  const kept = () => page.evaluate(() => JSON.stringify([{ ...sessionStorage }, { ...localStorage }, document.cookie]));
  const before = JSON.parse(await kept());
  assert.ok(JSON.stringify(before[0]).includes(server.key));
  assert.deepEqual(before.slice(1), [{}, ""]);
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  assert.ok(!(await kept()).includes(server.key));
}

export async function a_wrong_key_and_a_wrong_workspace_are_told_apart({ server, visit }) {
  const { page } = await visit({ address: server.url });
  const signIn = async (workspace, key) => {
    await page.getByLabel("Workspace").fill(workspace);
    await page.getByLabel("API key").fill(key);
    await page.getByRole("button", { name: "Sign in" }).click();
  };
  await signIn("demo", "mantyx_nobody");
  await page.getByRole("alert").getByText("Invalid API key").waitFor();
  await signIn("elsewhere", server.key);
  await page.getByRole("alert").getByText("demo").waitFor();
  await signIn("demo", server.key);
  await page.getByRole("heading", { level: 1, name: "Playground" }).waitFor();
}

export async function a_revoked_key_is_sent_back_to_the_door({ server, visit }) {
  const visitor = await visit();
  const { page } = visitor;
  await visitor.open("Runs");
  await page.evaluate(() => {
    const kept = JSON.parse(sessionStorage.runloom);
    sessionStorage.runloom = JSON.stringify({ ...kept, key: "mantyx_revoked" });
  });
  await page.reload();
  await page.getByText("The key is not valid any more").waitFor();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
}

export async function a_key_of_another_workspace_sees_nothing({ server, visit }) {
  const { runId } = await server.api()("/agent-runs", { systemPrompt: "s", prompt: "say a secret of the demo workspace" });
  const { sessionId } = await server.api()("/agent-sessions", { systemPrompt: "s", name: "a secret session" });
  const other = await server.anotherWorkspace("neighbour");
  const visitor = await visit({ address: server.linkFor(other) });
  const { page } = visitor;
  await visitor.open("Runs");
  await page.getByText("No runs yet").waitFor();
  await visitor.open("Sessions");
  await page.getByText("No sessions").waitFor();
  for (const fragment of [`#/runs/${runId}`, `#/sessions/${sessionId}`, `#/playground?from=${runId}`]) {
    await visitor.go(fragment);
    await page.getByRole("alert").waitFor();
    assert.ok(!(await page.locator("body").innerText()).includes("secret"), fragment);
    await visitor.open("Server");
  }
}
