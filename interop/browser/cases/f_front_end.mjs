import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { once } from "node:events";
import { createRequire } from "node:module";
import path from "node:path";

const EXAMPLE = path.resolve(import.meta.dirname ?? path.dirname(new URL(import.meta.url).pathname), "../../../docs/examples/chat.html");

/** The page of the documentation on an origin of its own, with the client bundled as its comment says. */
async function site(folder) {
  const require = createRequire(`${folder}/`);
  const client = path.join(folder, "ag-ui-client.js");
  await require("esbuild").build({
    absWorkingDir: folder,
    entryPoints: ["@ag-ui/client"],
    bundle: true,
    format: "esm",
    outfile: client,
    logLevel: "silent",
  });
  const files = { "/chat.html": [EXAMPLE, "text/html"], "/ag-ui-client.js": [client, "text/javascript"] };
  const served = createServer((request, response) => {
    const [file, type] = files[new URL(request.url, "http://x").pathname] ?? [];
    if (!file) return response.writeHead(204).end();
    response.writeHead(200, { "Content-Type": `${type}; charset=utf-8` }).end(readFileSync(file));
  });
  served.listen(0, "127.0.0.1");
  await once(served, "listening");
  return { served, origin: `http://127.0.0.1:${served.address().port}` };
}

export async function the_page_of_the_documentation_chats_and_executes_its_tool({ server, visit, folder }) {
  const { served, origin } = await site(folder);
  try {
    const query = new URLSearchParams({ url: server.url, workspace: server.workspace });
    const visitor = await visit({ address: `${origin}/chat.html?${query}#${server.key}`, origins: [origin] });
    const { page } = visitor;
    const say = async (text) => {
      await page.locator("textarea").fill(text);
      await page.getByRole("button", { name: "Send" }).click();
    };
    await say("say Hello from the loom.");
    await page.locator("p.assistant", { hasText: "Hello from the loom." }).waitFor();
    await say('call paint {"colour": "rgb(1, 2, 3)"}\nthen\nsay Painted.');
    await page.locator("p.assistant", { hasText: "Painted." }).waitFor();
    assert.equal(await page.evaluate(() => document.body.style.background), "rgb(1, 2, 3)");
    await page.reload();
    await page.locator("p.assistant", { hasText: "Painted." }).waitFor();
    assert.equal(await page.locator("p.user").count(), 2);
    assert.equal(await page.locator("p.assistant").count(), 2);
  } finally {
    served.close();
    served.closeAllConnections();
  }
}
