// The real server as a newcomer starts it, and a client of its API to prepare and to compare.

import { spawn } from "node:child_process";
import { createWriteStream } from "node:fs";
import { once } from "node:events";

const READY_MS = 60_000;

/** A running `runloom dev`. */
export class Server {
  /** Starts it in a folder; `listen` is a free port unless the server has to come back where it was. */
  static async start(binary, folder, listen = "127.0.0.1:0") {
    const child = spawn(binary, ["dev", "--offline", "--json", "--listen", listen, "--data-dir", `${folder}/data`], {
      cwd: folder,
      env: { ...process.env, RUNLOOM_LIMITS__RUN_STARTS_PER_MINUTE: "100000", RUNLOOM_LIMITS__WRITES_PER_MINUTE: "100000", RUNLOOM_SERVER__CORS_ORIGINS: "*" },
      stdio: ["ignore", "pipe", "pipe"],
    });
    child.stderr.pipe(createWriteStream(`${folder}/server.log`, { flags: "a" }));
    const ready = JSON.parse(await announcement(child));
    const server = new Server();
    server.binary = binary;
    server.folder = folder;
    server.child = child;
    server.url = ready.url;
    server.key = ready.apiKey;
    server.adminToken = ready.adminToken;
    server.workspace = ready.workspace;
    server.link = server.linkFor({ workspace: ready.workspace, key: ready.apiKey });
    return server;
  }

  /** Ends it as a power cut would. */
  async kill() {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const ended = once(this.child, "exit");
    this.child.kill("SIGKILL");
    await ended;
  }

  /** Kills it and starts it again at the same address with the same data. */
  async comeBack() {
    const again = await Server.start(this.binary, this.folder, new URL(this.url).host);
    this.child = again.child;
  }

  /** The API with a key of a workspace. */
  api({ key = this.key, workspace = this.workspace } = {}) {
    const base = `${this.url}/api/v1/workspaces/${workspace}`;
    return (path, body) => json(`${base}${path}`, key, body);
  }

  /** Another workspace with a key. */
  async anotherWorkspace(slug) {
    const admin = `${this.url}/api/admin/v1/workspaces`;
    await json(`${admin}/${slug}`, this.adminToken, {}, "PUT");
    const { key } = await json(`${admin}/${slug}/keys`, this.adminToken, {});
    return { workspace: slug, key };
  }

  /** Puts an agent into a workspace; its id. */
  async agent(workspace, { slug, ...agent }) {
    const { id } = await json(`${this.url}/api/admin/v1/workspaces/${workspace}/agents/${slug}`, this.adminToken, agent, "PUT");
    return id;
  }

  linkFor({ workspace, key }) {
    return `${this.url}/#workspace=${workspace}&key=${key}`;
  }
}

async function json(url, key, body, method = body === undefined ? "GET" : "POST") {
  const headers = { Authorization: `Bearer ${key}`, ...(body !== undefined && { "Content-Type": "application/json" }) };
  const response = await fetch(url, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  const text = await response.text();
  if (!response.ok) fail(`${method} ${url}: ${response.status} ${text}`);
  return JSON.parse(text);
}

function announcement(child) {
  return new Promise((resolve, reject) => {
    let text = "";
    const late = setTimeout(() => reject(new Error(`the server is not ready; it printed:\n${text}`)), READY_MS);
    child.stdout.on("data", (bytes) => {
      text += bytes;
      if (!text.includes("\n")) return;
      clearTimeout(late);
      resolve(text);
    });
    child.once("exit", (code) => reject(new Error(`the server ended with ${code}:\n${text}`)));
  });
}

function fail(message) {
  throw new Error(message);
}
