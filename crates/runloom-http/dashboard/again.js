// Starting runs, also again: what a snapshot does not say about the original request is shown to the user.

import { get, post } from "./api.js";
import { spoken } from "./format.js";

/** The server keeps so many characters of a prompt for those who ask later. */
const PREVIEW_CHARS = 200;

/** What stands in a spec where a secret stood. */
const SEALED = "***";

/** Bodies hold prompts and files, so the tab keeps those of its last runs and no more. */
const KEPT_BODIES = 10;

/** Bodies of the runs that this tab started, oldest first. */
const started = new Map();

/** Starts a run; its id. */
export async function start(body, options) {
  const { runId } = await post("/agent-runs", body, options);
  started.set(runId, body);
  if (started.size > KEPT_BODIES) started.delete(started.keys().next().value);
  return runId;
}

/** The body that this tab started a run with. */
export function ownBody(id) {
  return started.get(id);
}

/** What a run was asked: all of it where this tab asked, else its beginning. */
export function asked(run) {
  const own = started.get(run.id);
  if (own) return { text: own.prompt ?? lastOfUser(own.messages), cut: false };
  const text = run.inputPreview ?? "";
  return { text, cut: [...text].length >= PREVIEW_CHARS };
}

function lastOfUser(messages) {
  return spoken(messages?.findLast?.((message) => message?.role === "user")?.content);
}

/** A body that starts a run again, what of the first one is known to be `lost`, and whether more may be. */
export async function bodyOf(id, signal) {
  const own = started.get(id);
  if (own) return { body: own, lost: [], whole: true };
  const run = await get(`/agent-runs/${encodeURIComponent(id)}`, signal);
  const { activeModelId, agentVersion, ...spec } = run.agentSpec;
  const { text, cut } = asked(run);
  const lost = [];
  if (cut) lost.push("The server keeps only the beginning of a prompt: complete it.");
  if (run.sessionId) lost.push("It answered a message of a session: what was said there before is not part of this run.");
  else if (!spec.systemPrompt && !spec.agentId) lost.push("It had messages before its last one, its system prompt among them: write them anew.");
  const files = (run.attachments ?? []).map((file) => file.filename ?? file.url);
  if (files.length > 0) lost.push(`Its files are not given out again: attach ${files.join(", ")}.`);
  if (spec.agentId) withoutAgents(spec, lost);
  else spec.tools = spec.tools?.map((tool) => unsealed(tool, lost));
  return { body: { ...spec, prompt: text }, lost, whole: false };
}

/** What an agent brings, it brings again: its prompt wins anyway, and its tools are kept as they are today. */
function withoutAgents(spec, lost) {
  if (spec.tools?.length > 0) lost.push("Its agent brings its own tools. If the run had others besides, add them.");
  delete spec.systemPrompt;
  delete spec.tools;
}

/** A tool with empty places where the values of its headers were. */
function unsealed(tool, lost) {
  const sealed = Object.entries(tool.headers ?? {}).filter(([, value]) => value === SEALED);
  if (sealed.length === 0) return tool;
  const names = sealed.map(([name]) => name);
  lost.push(`Values of headers are secrets: fill in ${names.join(", ")} of the tool ${tool.name}.`);
  return { ...tool, headers: { ...tool.headers, ...Object.fromEntries(names.map((name) => [name, ""])) } };
}
