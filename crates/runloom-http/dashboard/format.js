// Numbers, times and JSON as people read them.

import { h } from "./dom.js";

const WHOLE = new Intl.NumberFormat();
const SHORT = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 });

/** 12,345; a dash for what is not known yet. */
export function count(number) {
  return number === null || number === undefined ? "–" : WHOLE.format(number);
}

/** 12.3K */
export function short(number) {
  return number === null || number === undefined ? "–" : SHORT.format(number);
}

/** US dollars; small sums keep their first figures. */
export function money(dollars) {
  if (dollars === null || dollars === undefined) return "–";
  if (dollars === 0) return "$0";
  return `$${dollars >= 0.01 ? dollars.toFixed(2) : dollars.toPrecision(2)}`;
}

/** 14 ms, 3.2 s, 4 min 10 s */
export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
}

/** A moment in the reader's zone; its title has the exact one. */
export function time(iso) {
  if (!iso) return "–";
  const moment = new Date(iso);
  if (Number.isNaN(moment.getTime())) return iso;
  const today = moment.toDateString() === new Date().toDateString();
  const clock = { hour: "2-digit", minute: "2-digit", second: "2-digit" };
  const year = moment.getFullYear() === new Date().getFullYear() ? undefined : "numeric";
  const text = today
    ? moment.toLocaleTimeString(undefined, clock)
    : moment.toLocaleString(undefined, { year, month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" });
  return h("time", { datetime: iso, title: iso }, text);
}

/** 12 bytes, 3.4 kB, 5 MB; nothing for what is not known. */
export function size(bytes) {
  if (bytes === null || bytes === undefined) return "";
  if (bytes < 1024) return `${bytes} bytes`;
  const [amount, unit] = bytes < 1024 * 1024 ? [bytes / 1024, "kB"] : [bytes / 1024 / 1024, "MB"];
  return `${Number(amount.toFixed(1))} ${unit}`;
}

/** JSON that fits stays on one line. */
const ONE_LINE_CHARS = 72;

/** JSON as people write it; what is no JSON stays as it is. Numbers that JavaScript would round stay as they are too. */
export function pretty(value) {
  if (typeof value !== "string") return written(value);
  const start = value.trimStart()[0];
  if ((start !== "{" && start !== "[") || /\d{16}/.test(value)) return value;
  try {
    return written(JSON.parse(value));
  } catch {
    return value;
  }
}

function written(value) {
  const text = JSON.stringify(value, null, 2) ?? "";
  // No text inside JSON holds a raw line break, so only those between its parts go.
  const short = text.length < 4 * ONE_LINE_CHARS ? text.replaceAll(/\n\s*/g, " ") : text;
  return short.length <= ONE_LINE_CHARS ? short : text;
}

/** A text's first line, cut. */
export function line(text, most = 120) {
  const first = (text ?? "").trim().replaceAll(/\s+/g, " ");
  return first.length > most ? `${first.slice(0, most - 1)}…` : first;
}

/** Where a run stands, as a word with a colour. */
export function status(word) {
  return h("span", { class: `status ${word}` }, word.replaceAll("_", " "));
}

/** Labels of a run or a session. */
export function labels(metadata) {
  return Object.entries(metadata ?? {}).map(([key, value]) => h("span", { class: "chip" }, h("b", null, key), " ", value));
}

/** What is said in a message: text, or the texts of its parts. */
export function spoken(content) {
  if (typeof content === "string") return content;
  const parts = (Array.isArray(content) ? content : []).map((part) => part.text ?? `[${part.filename ?? part.type ?? "part"}]`);
  return parts.join("\n");
}
