// The events of a run as they arrive, resumed after every break. EventSource cannot send a key, so fetch reads the
// stream.

import { address, ask } from "./api.js";

/** The events after which nothing comes. */
export const TERMINAL = new Set(["result", "error", "cancelled"]);

/** The server shows that it lives every 15 seconds; after this silence the connection is dead. */
const SILENCE_MS = 45_000;

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 10_000;

/** Characters of one event; the longest tool result, twice and escaped, is far below. */
const MOST_CHARS = 64 * 1024 * 1024;

/** Refusals that no waiting mends. */
const FINAL = new Set([400, 401, 403, 404]);

/**
 * Follows a run to its terminal event. `onEvent` gets each event once, in order; `onState` hears `live`, `waiting` and `ended`.
 * Throws what no repetition mends.
 */
export async function follow(run, { after = 0, onEvent, onState, signal }) {
  let last = after;
  let pause = FIRST_PAUSE_MS;
  while (!signal.aborted) {
    try {
      const ended = await connection(run, last, signal, {
        opened: () => onState("live"),
        event: (event) => {
          if (event.seq <= last) return;
          last = event.seq;
          pause = FIRST_PAUSE_MS;
          onEvent(event);
        },
      });
      if (ended) {
        onState("ended");
        return;
      }
    } catch (error) {
      if (signal.aborted) return;
      if (FINAL.has(error.status)) throw error;
      if (error.retryAfter) pause = Math.max(pause, error.retryAfter * 1000);
    }
    if (signal.aborted) return;
    onState("waiting");
    await rest(pause * (0.8 + 0.4 * Math.random()), signal);
    pause = Math.min(pause * 2, LONGEST_PAUSE_MS);
  }
}

/** One connection; true when the terminal event came. */
async function connection(run, last, signal, { opened, event }) {
  const own = new AbortController();
  const stop = () => own.abort();
  signal.addEventListener("abort", stop, { once: true });
  let watch = setTimeout(stop, SILENCE_MS);
  try {
    const url = address(`/agent-runs/${encodeURIComponent(run)}/stream?lastSeq=${last}`);
    const response = await ask(url, { signal: own.signal, headers: { Accept: "text/event-stream" } });
    opened();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    let ended = false;
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return ended;
      clearTimeout(watch);
      watch = setTimeout(stop, SILENCE_MS);
      const frames = (rest + value).split("\n\n");
      rest = frames.pop();
      if (rest.length > MOST_CHARS) throw new Error("an event has no end");
      for (const frame of frames) {
        const read = parse(frame);
        if (!read) continue;
        event(read);
        ended ||= TERMINAL.has(read.type);
      }
    }
  } finally {
    clearTimeout(watch);
    signal.removeEventListener("abort", stop);
  }
}

/** The event of a frame; comments and `retry:` have none. */
export function parse(frame) {
  const data = frame.split("\n").filter((text) => text.startsWith("data:")).map((text) => text.slice(5).trimStart());
  if (data.length === 0) return null;
  const event = JSON.parse(data.join("\n"));
  return { seq: event.seq, type: event.type, at: event.at, data: event.data ?? event, raw: data.join("\n") };
}

/** A pause that ends early when the page is left. */
export function rest(ms, signal) {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", done);
  });
}
