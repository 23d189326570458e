// Globals of the code: console, and fetch as a message to the parent. Evaluated before the code. Code that changes
// them harms only itself, because the parent trusts nothing from here.
(function (post, note, allowFetch) {
  "use strict";
  const { parse, stringify } = JSON;
  const waiting = new Map();
  let last = 0;

  const shown = (value) => {
    if (typeof value === "string") return value;
    if (value instanceof Error) return `${value.name}: ${value.message}`;
    try {
      return stringify(value) ?? String(value);
    } catch {
      return String(value);
    }
  };
  const write = (...values) => {
    note(values.map(shown).join(" ").toWellFormed());
  };
  globalThis.console = { log: write, info: write, warn: write, error: write, debug: write, trace: write };

  const headersOf = (given) => {
    const headers = {};
    const pairs = given && typeof given[Symbol.iterator] === "function" ? given : Object.entries(given ?? {});
    for (const [name, value] of pairs) headers[String(name)] = String(value).toWellFormed();
    return headers;
  };
  const response = ({ status, url, headers, body }) => ({
    status,
    ok: status >= 200 && status < 300,
    url,
    headers: {
      get: (name) => headers[String(name).toLowerCase()] ?? null,
      has: (name) => String(name).toLowerCase() in headers,
      entries: () => Object.entries(headers)[Symbol.iterator](),
      [Symbol.iterator]: () => Object.entries(headers)[Symbol.iterator](),
    },
    text: async () => body,
    json: async () => parse(body),
  });
  globalThis.fetch = async (url, { method, headers, body } = {}) => {
    if (!allowFetch) throw new TypeError("this tool may not make requests: its definition does not set allowFetch");
    if (body !== undefined && body !== null && typeof body !== "string") {
      throw new TypeError("the body of a request is a string; use JSON.stringify");
    }
    const id = ++last;
    const request = { id, url: String(url), method: method && String(method), headers: headersOf(headers), body };
    return new Promise((resolve, reject) => {
      waiting.set(id, { resolve, reject });
      post(stringify(request).toWellFormed());
    });
  };

  return {
    // Settles a request with the parent's response.
    settle(id, text) {
      const { resolve, reject } = waiting.get(id) ?? {};
      waiting.delete(id);
      const answer = parse(text);
      if (answer.error === undefined) resolve?.(response(answer));
      else reject?.(new TypeError(`fetch failed: ${answer.error}`));
    },
    // Runs the code and converts its result to text.
    async start(main, args, ctx) {
      const value = await main(args, ctx);
      if (typeof value === "string") return value.toWellFormed();
      if (value === undefined) return "";
      const text = stringify(value);
      if (text === undefined) throw new TypeError(`the result is a ${typeof value}, which is not data`);
      return text;
    },
    // The message and the stack of an exception.
    explain(error) {
      if (!(error instanceof Error)) return [`it threw ${shown(error)}`.toWellFormed(), ""];
      return [`${error.name}: ${error.message}`.toWellFormed(), String(error.stack ?? "").toWellFormed()];
    },
  };
});
