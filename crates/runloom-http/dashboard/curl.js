// What the page does, as commands. The key is not in them: the shell fills it in.

import { address } from "./api.js";

/** A word that a shell takes as it is. */
function quoted(text) {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** Starts a run with this body. */
export function createCommand(body) {
  return [
    `curl -s ${quoted(address("/agent-runs"))}`,
    `-H "Authorization: Bearer $MANTYX_API_KEY" -H 'Content-Type: application/json'`,
    `-d ${quoted(JSON.stringify(body))}`,
  ].join(" \\\n  ");
}

/** Follows a run. */
export function followCommand(run) {
  return `curl -sN ${quoted(address(`/agent-runs/${run}/stream`))} -H "Authorization: Bearer $MANTYX_API_KEY"`;
}
