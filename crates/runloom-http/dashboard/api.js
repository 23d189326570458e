// The public API, asked with the user's own key. Nothing here that a client of the API could not do.

import { credentials } from "./credentials.js";

/** A refusal, or a server that does not answer. */
export class Refused extends Error {
  constructor(status, body, retryAfter) {
    super(body?.message ?? body?.error ?? (status ? `The server answered ${status}.` : "The server does not answer."));
    this.status = status;
    this.code = body?.code ?? (status ? "unknown" : "unreachable");
    this.hint = body?.hint;
    this.issues = body?.issues;
    this.candidates = body?.candidates;
    this.retryAfter = retryAfter;
  }
}

/** Where the server is; it may live below a path. */
export const BASE = new URL(".", document.baseURI).href.replace(/[?#].*$/, "");

/** The address of something in the workspace. */
export function address(path) {
  return `${BASE}api/v1/workspaces/${encodeURIComponent(credentials()?.workspace ?? "")}${path}`;
}

/** An answer that is not a refusal. */
export async function ask(url, { method = "GET", body, signal, headers } = {}) {
  const known = credentials();
  let response;
  try {
    response = await fetch(url, {
      method,
      signal,
      cache: "no-store",
      credentials: "omit",
      referrerPolicy: "no-referrer",
      headers: {
        ...(known && { Authorization: `Bearer ${known.key}` }),
        ...(body !== undefined && { "Content-Type": "application/json" }),
        Accept: "application/json",
        ...headers,
      },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Refused(0);
  }
  if (response.ok) return response;
  const refusal = await response.json().catch(() => null);
  throw new Refused(response.status, refusal, Number(response.headers.get("Retry-After")) || null);
}

/** The JSON of an answer from inside the workspace. */
export async function get(path, signal) {
  return (await ask(address(path), { signal })).json();
}

/** Sends JSON into the workspace. Repeating it after a broken connection is harmless: the server knows the key. */
export async function post(path, body, { signal, once } = {}) {
  const headers = once ? { "Idempotency-Key": once } : undefined;
  return (await ask(address(path), { method: "POST", body, signal, headers })).json();
}

/** Ends something in the workspace. */
export async function remove(path, signal) {
  return (await ask(address(path), { method: "DELETE", signal })).json();
}

/** Something of the server itself. */
export async function getOpen(path, signal) {
  return (await ask(`${BASE}${path}`, { signal })).json();
}

/** An address with those parameters that have a value; a list stands for several. */
export function query(path, parameters) {
  const pairs = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    for (const one of [value].flat()) {
      if (one !== "" && one !== null && one !== undefined) pairs.append(name, one);
    }
  }
  const text = pairs.toString();
  return text ? `${path}?${text}` : path;
}

/** A key for a request that must not be done twice. */
export function newOnce() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `dashboard-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
