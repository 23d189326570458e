// The signed-in workspace and its key. They live in this tab, or in this browser if its user chose so, and never
// stand in an address.

const PLACE = "runloom";

let current = read();

function read() {
  try {
    const kept = JSON.parse(sessionStorage.getItem(PLACE) ?? localStorage.getItem(PLACE));
    return typeof kept?.key === "string" && typeof kept?.workspace === "string" ? kept : null;
  } catch {
    return null;
  }
}

/** The workspace and the key, or `null`. */
export function credentials() {
  return current;
}

/** Keeps them until the tab is closed, or with `stay` until somebody signs out in this browser. */
export function keep(workspace, key, { stay = false } = {}) {
  current = { workspace, key };
  sessionStorage.setItem(PLACE, JSON.stringify(current));
  if (stay) localStorage.setItem(PLACE, JSON.stringify(current));
}

/** Forgets them. */
export function forget() {
  current = null;
  sessionStorage.removeItem(PLACE);
  localStorage.removeItem(PLACE);
}

/**
 * Takes the credential out of a link like `/#workspace=demo&key=mantyx_…`, and out of the address bar and the history.
 * True when there was one.
 */
export function takeFromAddress() {
  const fragment = location.hash.slice(1);
  if (fragment.startsWith("/") || !fragment.includes("key=")) return false;
  const parts = new URLSearchParams(fragment);
  history.replaceState(null, "", `${location.pathname}${location.search}#/`);
  const [workspace, key] = [parts.get("workspace"), parts.get("key")];
  if (!workspace || !key) return false;
  keep(workspace, key);
  return true;
}
