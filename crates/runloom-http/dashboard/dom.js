// Elements from names, attributes and children. A string is always a text node, so no markup can be injected.

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element. `onclick` and its like are listeners, booleans are switches, `null` and `false` are left out. */
export function h(name, attributes, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** An SVG element. */
export function svg(name, attributes, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "value" || key === "checked") element[key] = value;
    else element.setAttribute(key, key === "href" ? inside(value) : value === true ? "" : value);
  }
  append(element, children);
  return element;
}

/** Links lead to pages of the dashboard and nowhere else: what a model or a tool wrote never becomes an address. */
function inside(address) {
  if (!address.startsWith("#/")) throw new Error("a link out of the dashboard");
  return address;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

/** Puts these children in the place of those that are there. */
export function show(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

/** Says something to those who do not see the page. */
export function say(text) {
  document.getElementById("said").textContent = text;
}

/** A button. */
export function button(label, onclick, attributes) {
  return h("button", { type: "button", onclick, ...attributes }, label);
}

/** A button that is asked twice before it does what cannot be undone. */
export function carefulButton(label, question, act, attributes) {
  let asked = false;
  const element = button(label, () => {
    if (!asked) {
      asked = true;
      element.textContent = question;
      return;
    }
    element.disabled = true;
    act();
  }, { class: "danger", ...attributes });
  element.addEventListener("blur", () => {
    asked = false;
    element.textContent = label;
  });
  return element;
}

/** A field with its label above it. */
export function field(label, control, hint) {
  return h("label", { class: "field" }, h("span", { class: "label" }, label), control, hint && h("span", { class: "hint" }, hint));
}

/** A choice out of `[value, label]` pairs. */
export function select(pairs, chosen, attributes) {
  const options = pairs.map(([value, label]) => h("option", { value }, label));
  const element = h("select", attributes, options);
  element.value = chosen ?? "";
  if (element.selectedIndex < 0) element.selectedIndex = 0;
  return element;
}

/** Those pairs, and one more for a choice that none of them is: it came from an address or from a run, and is not swapped for another. */
export function withChosen(pairs, chosen) {
  return !chosen || pairs.some(([value]) => value === chosen) ? pairs : [...pairs, [chosen, `${chosen} (not in the list)`]];
}

/** Copies a text, also where browsers keep the clipboard to secure pages. */
export async function copy(text, from) {
  const told = from.textContent;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = h("textarea", { class: "unseen", value: text });
    from.after(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  from.textContent = "Copied";
  say("Copied");
  setTimeout(() => (from.textContent = told), 1500);
}

/** A message that something went wrong: what, and what would be right. */
export function problem(error) {
  const issues = (error.issues ?? []).map((issue) => h("li", null, issue.path ? h("code", null, issue.path) : null, " ", issue.message));
  return h("div", { class: "problem", role: "alert" },
    h("p", null, error.message ?? String(error)),
    error.hint && h("p", { class: "hint" }, error.hint),
    issues.length > 0 && h("ul", null, issues),
    error.candidates?.length > 0 && h("p", { class: "hint" }, "Near it: ", error.candidates.join(", ")));
}

/** What stands where there is nothing yet. */
export function empty(title, ...rest) {
  return h("div", { class: "empty" }, h("h2", null, title), h("p", null, rest));
}

/** A page's heading with what can be done beside it. */
export function heading(title, lead, ...actions) {
  document.title = `${title} · Runloom`;
  return h("div", { class: "heading" },
    h("div", null, h("h1", null, title), lead && h("p", { class: "lead" }, lead)),
    actions.length > 0 && h("div", { class: "actions" }, actions));
}
