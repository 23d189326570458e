// Keyboard: `/` goes to the filters, `j` and `k` move through the rows of a list, `g` and a letter open a page.

/** The second key after `g`, and the page that it opens. */
const PAGES = { p: "playground", r: "runs", a: "approvals", s: "sessions", m: "models", u: "usage" };

/** The second key must follow in this time. */
const SECOND_KEY_MS = 1200;

/** Listens on the whole page. Keys that are typed into a field, or with a modifier, are left alone. */
export function listen(main) {
  let leader = 0;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    const second = performance.now() - leader < SECOND_KEY_MS;
    leader = 0;
    if (second && Object.hasOwn(PAGES, event.key)) location.hash = `#/${PAGES[event.key]}`;
    else if (event.key === "g") leader = performance.now();
    else if (event.key === "/") search(main);
    else if (event.key === "j") move(main, 1);
    else if (event.key === "k") move(main, -1);
    else return;
    event.preventDefault();
  });
}

function isTyping(target) {
  return target instanceof Element && target.closest("input, textarea, select, [contenteditable]") !== null;
}

function search(main) {
  const field = main.querySelector("[role=search] input:not([type=date])");
  if (field) field.focus();
  else location.hash = "#/runs";
}

/** Moves the focus to the link of the next or previous row; Enter then opens it. */
function move(main, by) {
  const links = [...main.querySelectorAll("tbody tr")].map((row) => row.querySelector("a")).filter(Boolean);
  if (links.length === 0) return;
  const at = links.findIndex((link) => link.closest("tr").contains(document.activeElement));
  const next = at < 0 ? 0 : Math.min(links.length - 1, Math.max(0, at + by));
  links[next].focus();
  links[next].scrollIntoView({ block: "nearest" });
}
