// The npm package @ag-ui/client, unmodified and with its own checks of events, against the real server.
//
//   MANTYX_BASE_URL=… MANTYX_API_KEY=… MANTYX_WORKSPACE_SLUG=… node interop/ag_ui/run.mjs FOLDER RECORD
//
// FOLDER has @ag-ui/client in its node_modules. RECORD gets every event that the server sent, one JSON document per
// line, for the types of the PyPI package. The last line is `N passed, N failed`.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { appendFileSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

const [folder, record] = process.argv.slice(2).map((argument) => path.resolve(argument));
const { HttpAgent } = createRequire(`${folder}/`)("@ag-ui/client");
const { version } = JSON.parse(readFileSync(`${folder}/node_modules/@ag-ui/client/package.json`));
const isOld = version.startsWith("0.");

const base = `${process.env.MANTYX_BASE_URL}/api/v1/workspaces/${process.env.MANTYX_WORKSPACE_SLUG}`;
const headers = { Authorization: `Bearer ${process.env.MANTYX_API_KEY}` };
const plainFetch = globalThis.fetch;
globalThis.fetch = async (url, init) => {
  const response = await plainFetch(url, init);
  if (response.ok && `${url}`.includes("/ag-ui")) recordEvents(response.clone());
  return response;
};

async function recordEvents(response) {
  const text = await response.text().catch(() => "");
  for (const line of text.split("\n")) if (line.startsWith("data: ")) appendFileSync(record, `${line.slice(6)}\n`);
}

async function api(route, body) {
  const init = body && { method: "POST", body: JSON.stringify(body), headers: { ...headers, "Content-Type": "application/json" } };
  const response = await plainFetch(`${base}${route}`, init ?? { headers });
  assert.ok(response.ok, `${route}: ${response.status}`);
  return response.json();
}

const PAINT = { name: "paint-it", description: "Paints.", parameters: { type: "object", properties: { colour: { type: "string" } } } };

/** An agent on a thread of its own, and a way to run it that keeps what happened. */
function visitor(threadId = randomUUID(), props = {}) {
  const agent = new HttpAgent({ url: `${base}/ag-ui`, headers, threadId });
  const forwardedProps = { runloom: { systemPrompt: "You are helpful.", modelId: "platform:demo", ...props } };
  const run = async (more = {}, watch = {}) => {
    const events = [];
    const errors = [];
    const subscriber = {
      onEvent: ({ event }) => void events.push(event),
      onRunErrorEvent: ({ event }) => void errors.push(event),
      onRunFailed: ({ error }) => void errors.push(error),
      ...watch,
    };
    const ended = await agent.runAgent({ forwardedProps, tools: [PAINT], ...more }, subscriber).catch((error) => ({ error }));
    return { events, errors, ...ended, types: events.map((event) => event.type) };
  };
  const say = (content, more, watch) => {
    agent.addMessage({ id: randomUUID(), role: "user", content });
    return run(more, watch);
  };
  return { agent, run, say };
}

const texts = (agent) => agent.messages.map((message) => `${message.role}: ${message.content ?? ""}`);

async function historyOf({ events }) {
  const session = events[0].metadata?.runloom?.sessionId;
  return api(`/agent-sessions/${session}/history`);
}

const plain = (messages) =>
  JSON.parse(JSON.stringify(messages))
    .filter((message) => message.role !== "reasoning")
    .map(({ id, role, content, toolCallId, toolCalls }) => ({ id, role, content: content ?? "", toolCallId, toolCalls }));

const cases = {
  async a_conversation_is_told_and_equals_the_history() {
    const { agent, say } = visitor(undefined, { reasoningLevel: 50 });
    const first = await say("think hm\nsay Hello");
    assert.deepEqual(first.errors, []);
    assert.ok(first.types.includes("REASONING_MESSAGE_CONTENT"), first.types.join());
    assert.equal(first.types.at(-1), "RUN_FINISHED");
    const second = await say("say Again");
    assert.ok(!second.types.includes("MESSAGES_SNAPSHOT"), "the client has the whole thread");
    assert.deepEqual(plain(agent.messages), plain((await historyOf(second)).messages));
    assert.equal(texts(agent).at(-1), "assistant: Again");
  },

  async a_front_end_tool_is_called_and_answered() {
    const { agent, run, say } = visitor();
    const asked = await say('call paint-it {"colour": "blue"}\ncall paint-it {"colour": "red"}\nthen\nsay Painted');
    assert.deepEqual(asked.errors, []);
    const calls = agent.messages.at(-1).toolCalls;
    assert.deepEqual(calls.map((call) => JSON.parse(call.function.arguments).colour), ["blue", "red"]);
    const last = asked.events.at(-1);
    if (!isOld) assert.deepEqual(last.outcome.pendingToolCallIds, calls.map((call) => call.id));
    for (const call of calls) agent.addMessage({ id: randomUUID(), role: "tool", toolCallId: call.id, content: "done" });
    const done = await run();
    assert.deepEqual(done.errors, []);
    assert.equal(texts(agent).at(-1), "assistant: Painted");
    assert.deepEqual(plain(agent.messages), plain((await historyOf(done)).messages));
  },

  async a_user_who_goes_on_is_answered() {
    const { agent, say } = visitor();
    await say("call paint-it {}\nthen\nsay Painted");
    const on = await say("say Something else");
    assert.deepEqual(on.errors, []);
    assert.ok(texts(agent).includes("tool: The user went on without answering."), texts(agent).join("\n"));
    assert.equal(texts(agent).at(-1), "assistant: Something else");
  },

  async a_server_tool_is_shown_with_its_result() {
    const { agent, say } = visitor(undefined, { tools: [{ kind: "mantyx_plugin", name: "@time/now" }] });
    const ran = await say("call time_now {}\nthen\nsay Late");
    assert.deepEqual(ran.errors, []);
    assert.ok(ran.types.includes("TOOL_CALL_RESULT"), ran.types.join());
    assert.deepEqual(plain(agent.messages), plain((await historyOf(ran)).messages));
  },

  async a_thread_is_opened_again_by_another_client() {
    const { agent, say } = visitor();
    await say("say One");
    const other = visitor(agent.threadId);
    const opened = await other.run();
    assert.deepEqual(opened.types, ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]);
    assert.deepEqual(plain(other.agent.messages), plain(agent.messages));
    await other.say("say Two");
    assert.equal(texts(other.agent).length, 4);
  },

  async a_lost_stream_is_taken_up_again() {
    const { agent, say } = visitor();
    const part = new AbortController();
    const lost = say("slow 50ms\ntokens 40", { abortController: part }, { onTextMessageContentEvent: () => part.abort() });
    await lost;
    const again = visitor(agent.threadId);
    const followed = await again.run();
    assert.deepEqual(followed.errors, []);
    assert.equal(followed.types.at(-1), "RUN_FINISHED");
    assert.deepEqual(plain(again.agent.messages), plain((await historyOf(followed)).messages));
  },

  async a_cancelled_run_ends_the_stream() {
    const { say } = visitor();
    const stopped = await say("hang", {}, {
      onRunStartedEvent: ({ event }) => void api(`/agent-runs/${event.metadata.runloom.runId}/cancel`, {}),
    });
    const last = stopped.events.at(-1);
    if (isOld) assert.equal(last.code, "cancelled");
    else assert.deepEqual(last.outcome, { type: "cancelled" });
  },

  async a_failed_run_is_an_error_and_the_thread_goes_on() {
    const { agent, say } = visitor();
    const failed = await say("fail context");
    assert.equal(failed.events.at(-1).type, "RUN_ERROR");
    assert.equal(failed.events.at(-1).code, "context_window");
    const next = await say("say Better");
    assert.equal(next.types.at(-1), "RUN_FINISHED");
    assert.equal(texts(agent).at(-1), "assistant: Better");
  },

  async a_refused_request_is_an_error_of_the_client() {
    const { say } = visitor(undefined, { modelId: "nobody/none" });
    const refused = await say("say Hello");
    assert.deepEqual(refused.types.filter((type) => type === "RUN_STARTED"), []);
  },
};

console.log(`@ag-ui/client ${version}, Node ${process.version}`);
let [passed, failed] = [0, 0];
for (const [name, test] of Object.entries(cases)) {
  const begun = Date.now();
  let timer;
  const late = new Promise((_, reject) => (timer = setTimeout(() => reject(new Error("took more than 60 s")), 60_000)));
  try {
    await Promise.race([test(), late]);
    passed += 1;
    console.log(`ok      ${name} (${Date.now() - begun} ms)`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED  ${name}\n${error.stack ?? error}`);
  }
  clearTimeout(timer);
}
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
