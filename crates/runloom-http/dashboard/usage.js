// What was used: tokens and money, by day, model or key, as bars and as numbers.

import { get, query } from "./api.js";
import { table } from "./catalog.js";
import { empty, field, h, heading, select, show, svg } from "./dom.js";
import { count, money, short } from "./format.js";

const WIDTH = 720;
const HEIGHT = 200;
const FLOOR = 24;

/** The parts of a bar, from below: class, label, and how many tokens of a row they are. */
const PARTS = [
  ["fresh", "fresh input", (row) => row.inputTokens - row.cachedTokens],
  ["cached", "cached input", (row) => row.cachedTokens],
  ["output", "output", (row) => row.outputTokens],
];

export async function page(root, { parameters, signal }) {
  const today = new Date().toISOString().slice(0, 10);
  const chosen = {
    from: parameters.get("from") ?? daysAgo(29),
    to: parameters.get("to") ?? today,
    groupBy: parameters.get("groupBy") ?? "day",
  };
  const report = await get(query("/usage", chosen), signal);
  const from = h("input", { type: "date", value: chosen.from, max: today });
  const to = h("input", { type: "date", value: chosen.to, max: today });
  const by = select([["day", "day"], ["model", "model"], ["key", "key"]], chosen.groupBy);
  const apply = () => (location.hash = query("#/usage", { from: from.value, to: to.value, groupBy: by.value }));
  for (const input of [from, to, by]) input.addEventListener("change", apply);
  const { total } = report;
  show(root,
    heading("Usage", "Tokens and money of runs in this workspace. Days are UTC's."),
    h("div", { class: "filters" }, field("From", from), field("To", to), field("By", by)),
    h("div", { class: "figures" },
      figure("Runs", count(total.runs)), figure("Turns", count(total.turns)), figure("Input tokens", short(total.inputTokens), `${count(total.cachedTokens)} from a cache`),
      figure("Output tokens", short(total.outputTokens), `${count(total.reasoningTokens)} thinking`), figure("Cost", money(total.costUsd), "models with a price")),
    report.rows.length === 0
      ? empty("Nothing was used", "No run ended in these days.")
      : [bars(filled(report, chosen)), numbers(report)]);
}

function daysAgo(days) {
  return new Date(Date.now() - days * 86_400_000).toISOString().slice(0, 10);
}

function name(row) {
  return row.day ?? row.modelId ?? row.keyId ?? "–";
}

function figure(label, value, below) {
  return h("div", { class: "figure" }, h("span", { class: "label" }, label), h("b", null, value), below && h("span", { class: "hint" }, below));
}

/** Days on which nothing ran are bars of nothing: time has no gaps. Beyond a year only the days that were used are shown. */
function filled(report, { groupBy }) {
  if (groupBy !== "day") return report.rows;
  const known = new Map(report.rows.map((row) => [row.day, row]));
  const days = [];
  for (let day = new Date(`${report.from}T00:00:00Z`); ; day = new Date(day.getTime() + 86_400_000)) {
    const text = day.toISOString().slice(0, 10);
    if (text > report.to) return days;
    if (days.length > 366) return report.rows;
    days.push(known.get(text) ?? { day: text, runs: 0, inputTokens: 0, cachedTokens: 0, outputTokens: 0, costUsd: 0 });
  }
}

function bars(rows) {
  const sum = (row) => row.inputTokens + row.outputTokens;
  const most = Math.max(1, ...rows.map(sum));
  const step = WIDTH / rows.length;
  const scale = (HEIGHT - FLOOR - 16) / most;
  const every = Math.ceil(rows.length / 8);
  const drawn = rows.map((row, index) => {
    let y = HEIGHT - FLOOR;
    const parts = PARTS.map(([kind, , tokens]) => {
      const height = Math.max(0, tokens(row)) * scale;
      y -= height;
      return svg("rect", { class: kind, x: index * step + step * 0.12, y, width: Math.max(1, Math.min(step * 0.76, 64)), height });
    });
    const said = `${name(row)}: ${count(row.runs)} runs, ${count(row.inputTokens)} tokens in, ${count(row.outputTokens)} out, ${money(row.costUsd)}`;
    const label = index % every === 0 && svg("text", { x: index * step + step * 0.12, y: HEIGHT - 8 }, row.day ? row.day.slice(5) : name(row).slice(0, 18));
    return svg("g", null, svg("title", null, said), svg("rect", { class: "touch", x: index * step, y: 0, width: step, height: HEIGHT - FLOOR }), parts, label);
  });
  const line = svg("line", { x1: 0, x2: WIDTH, y1: HEIGHT - FLOOR, y2: HEIGHT - FLOOR });
  const top = svg("text", { x: 0, y: 12 }, `${short(most)} tokens`);
  return h("figure", { class: "chart" },
    svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": "Tokens; the table below has the numbers" }, line, top, drawn),
    h("figcaption", null, PARTS.map(([kind, label]) => h("span", { class: `key ${kind}` }, label))));
}

function numbers(report) {
  const rows = report.rows.map((row) => h("tr", null,
    h("td", null, name(row)),
    [row.runs, row.turns, row.inputTokens, row.cachedTokens, row.reasoningTokens, row.outputTokens].map((number) => h("td", { class: "number" }, count(number))),
    h("td", { class: "number" }, money(row.costUsd))));
  const head = { day: "Day", model: "Model", key: "Key" }[report.groupBy] ?? "Group";
  return table("Usage in numbers", [head, "#Runs", "#Turns", "#Input", "#Cached", "#Thinking", "#Output", "#Cost"], rows);
}
