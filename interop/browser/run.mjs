// The dashboard and the example page in a real Chromium, against the real server with its demo model.
//
//   RUNLOOM_BINARY=target/debug/runloom CHROMIUM=/usr/bin/chromium node interop/browser/run.mjs FOLDER [CASE…]
//
// FOLDER has playwright-core in its node_modules, and is where data and logs are kept. Cases run one after the other,
// each in a browser context of its own; none waits by the clock. The last line is `N passed, N failed`.

import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { Server } from "./server.mjs";
import { Visitor } from "./visitor.mjs";

const CASE_AT_MOST_MS = 60_000;

const [folder, ...only] = process.argv.slice(2).map((argument, index) => (index === 0 ? path.resolve(argument) : argument));
const { chromium } = createRequire(`${folder}/`)("playwright-core");
const binary = path.resolve(process.env.RUNLOOM_BINARY);
const here = import.meta.dirname ?? path.dirname(new URL(import.meta.url).pathname);

async function cases() {
  const found = [];
  for (const file of readdirSync(`${here}/cases`).sort()) {
    const module = await import(`${here}/cases/${file}`);
    for (const [name, test] of Object.entries(module)) found.push({ name: `${file.replace(".mjs", "")}: ${name.replaceAll("_", " ")}`, test });
  }
  return found.filter(({ name }) => only.length === 0 || only.some((word) => name.includes(word)));
}

async function timely(promise) {
  let timer;
  const late = new Promise((_, reject) => (timer = setTimeout(() => reject(new Error(`took more than ${CASE_AT_MOST_MS} ms`)), CASE_AT_MOST_MS)));
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

const place = `${folder}/work`;
rmSync(place, { recursive: true, force: true });
mkdirSync(place, { recursive: true });
const server = await Server.start(binary, place);
// Chromium's own sandbox needs what root in a container does not have; the pages are ours.
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: process.getuid?.() === 0 ? ["--no-sandbox"] : [] });
let [passed, failed] = [0, 0];
try {
  for (const { name, test } of await cases()) {
    const visitors = [];
    const visit = async (options) => {
      const visitor = await Visitor.arrive(browser, server, options);
      visitors.push(visitor);
      return visitor;
    };
    const begun = Date.now();
    try {
      await timely(test({ server, visit, folder }));
      visitors.forEach((visitor) => visitor.assertClean());
      passed += 1;
      console.log(`ok      ${name} (${Date.now() - begun} ms)`);
    } catch (error) {
      failed += 1;
      console.log(`FAILED  ${name}\n${error.stack ?? error}`);
      for (const [index, visitor] of visitors.entries()) {
        const picture = `${place}/${name.replaceAll(/\W+/g, "-")}-${index}.png`;
        await visitor.page.screenshot({ path: picture, fullPage: true }).catch(() => {});
        console.log(`        ${picture}\n${visitor.seen()}`);
      }
    }
    await Promise.all(visitors.map((visitor) => visitor.leave()));
  }
} finally {
  await browser.close();
  await server.kill();
}
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;
