// Markdown as elements. Only the elements below are made, all texts are text nodes, and a link is shown as its text
// and its address: nothing that a model writes becomes markup or something to click on.

import { button, copy, h } from "./dom.js";

/** Longer texts are shown as they are. */
const MOST_CHARS = 200_000;

/** Quotes and lists inside each other, at most. */
const DEEPEST = 8;

const FENCE = /^ {0,3}(```+|~~~+)\s*([\w+#.-]*)/;
const HEAD = /^ {0,3}(#{1,6})\s+(.*?)\s*#*$/;
const RULE = /^ {0,3}([-*_])(\s*\1){2,}\s*$/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])\s+(.*)$/;
const QUOTE = /^ {0,3}> ?/;
const DIVIDER = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;

/** Elements for a text. */
export function markdown(text) {
  if (text.length > MOST_CHARS) return h("div", { class: "markdown plain" }, text);
  return h("div", { class: "markdown" }, blocks(text.split("\n"), 0));
}

function blocks(lines, depth) {
  const made = [];
  let at = 0;
  while (at < lines.length) {
    const block = lines[at].trim() === "" ? { next: at + 1 } : oneBlock(lines, at, depth);
    if (block.element) made.push(block.element);
    at = block.next;
  }
  return made;
}

function oneBlock(lines, at, depth) {
  const line = lines[at];
  const fence = line.match(FENCE);
  if (fence) return code(lines, at, fence);
  const head = line.match(HEAD);
  if (head) return { element: h(`h${Math.min(6, head[1].length + 2)}`, null, inline(head[2])), next: at + 1 };
  if (RULE.test(line)) return { element: h("hr"), next: at + 1 };
  if (isTable(lines, at)) return table(lines, at);
  if (depth < DEEPEST && QUOTE.test(line)) return quote(lines, at, depth);
  if (depth < DEEPEST && ITEM.test(line)) return list(lines, at, depth);
  return paragraph(lines, at);
}

function code(lines, at, [, mark, language]) {
  let end = at + 1;
  while (end < lines.length && !(lines[end].trim().startsWith(mark) && lines[end].trim().replaceAll(mark[0], "") === "")) end += 1;
  const text = lines.slice(at + 1, end).join("\n");
  const copies = button("Copy", () => copy(text, copies), { class: "plain copy" });
  return { element: h("figure", { class: "code-block" }, h("figcaption", null, h("span", null, language || "text"), copies), h("pre", { tabindex: 0 }, h("code", null, text))), next: end + 1 };
}

function quote(lines, at, depth) {
  let end = at;
  while (end < lines.length && QUOTE.test(lines[end])) end += 1;
  return { element: h("blockquote", null, blocks(lines.slice(at, end).map((line) => line.replace(QUOTE, "")), depth + 1)), next: end };
}

function list(lines, at, depth) {
  const ordered = /\d/.test(lines[at].match(ITEM)[2]);
  const indent = lines[at].match(ITEM)[1].length;
  const items = [];
  let end = at;
  for (; end < lines.length; end += 1) {
    const item = lines[end].match(ITEM);
    if (item && item[1].length < indent + 2 && /\d/.test(item[2]) === ordered) items.push([item[3]]);
    else if (/^\s{2,}\S/.test(lines[end])) items.at(-1).push(lines[end].replace(/^ {2,4}/, ""));
    else if (lines[end].trim() !== "" || !/^(\s{2,}\S| {0,3}([-*+]|\d{1,9}[.)])\s)/.test(lines[end + 1] ?? "")) break;
  }
  const first = Number.parseInt(lines[at].match(ITEM)[2], 10);
  const made = items.map((item) => h("li", null, item.length === 1 ? inline(item[0]) : blocks(item, depth + 1)));
  return { element: h(ordered ? "ol" : "ul", { start: ordered && first > 1 ? first : null }, made), next: end };
}

function isTable(lines, at) {
  return lines[at].includes("|") && at + 1 < lines.length && lines[at + 1].includes("-") && DIVIDER.test(lines[at + 1]);
}

function cells(line) {
  return line.trim().replace(/^\|/, "").replace(/\|$/, "").split("|").map((cell) => cell.trim());
}

function table(lines, at) {
  let end = at + 2;
  while (end < lines.length && lines[end].includes("|")) end += 1;
  const row = (name) => (line) => h("tr", null, cells(line).map((cell) => h(name, name === "th" ? { scope: "col" } : null, inline(cell))));
  return {
    element: h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Table" },
      h("table", null, h("thead", null, row("th")(lines[at])), h("tbody", null, lines.slice(at + 2, end).map(row("td"))))),
    next: end,
  };
}

function paragraph(lines, at) {
  let end = at + 1;
  const starts = (line) => line.trim() === "" || FENCE.test(line) || HEAD.test(line) || QUOTE.test(line) || ITEM.test(line) || RULE.test(line);
  while (end < lines.length && !starts(lines[end]) && !isTable(lines, end)) end += 1;
  return { element: h("p", null, inline(lines.slice(at, end).join("\n"))), next: end };
}

/** Code, links and emphasis; each alternative is bounded, so that no text makes the search slow. */
const INLINE = /(`+)([^`]{1,2000}?)\1(?!`)|!?\[([^[\]\n]{0,500})\]\(([^()\s]{1,1000})\)|\*\*([^*\n]{1,1000}?)\*\*|\*([^*\s][^*\n]{0,1000}?)\*|~~([^~\n]{1,1000}?)~~/g;

function inline(text) {
  const made = [];
  let last = 0;
  for (const found of text.matchAll(INLINE)) {
    made.push(text.slice(last, found.index), span(found));
    last = found.index + found[0].length;
  }
  made.push(text.slice(last));
  return made;
}

function span([, , code, label, address, strong, weak, struck]) {
  if (code !== undefined) return h("code", null, code);
  if (address !== undefined) return h("span", { class: "address" }, label, " ", h("code", null, address));
  if (strong !== undefined) return h("strong", null, strong);
  if (weak !== undefined) return h("em", null, weak);
  return h("s", null, struck);
}
