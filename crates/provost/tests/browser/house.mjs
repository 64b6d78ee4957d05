// A workspace with its server, and browsers that look at it. What is wrong is thrown, and fails the Rust test
// that started this.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { createRequire } from "node:module";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const { PROVOST, WORK, VARIABLES, MODULES, CHROMIUM, SHOTS } = process.env;
const modules = createRequire(join(MODULES, "package.json"));
const { chromium } = modules("playwright-core");
const axe = readFileSync(modules.resolve("axe-core/axe.min.js"), "utf8");

// As root there is no sandbox to be had, and nothing is asked of the network.
const FLAGS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync",
];
export const SIZES = { wide: [1440, 900], middle: [820, 1180], narrow: [390, 844] };

const options = () => ({ cwd: WORK, env: JSON.parse(VARIABLES) });

export const check = (holds, words) => {
  if (!holds) { throw new Error(words); }
};

/** Runs a command to its end, which may take a while and is waited for without standing in anybody's way. */
export function provost(wanted, ...words) {
  return new Promise((done, failed) => {
    const child = spawn(PROVOST, words, options());
    let out = "", err = "";
    child.stdout.on("data", (data) => { out += data; });
    child.stderr.on("data", (data) => { err += data; });
    child.on("close", (code) => code === wanted
      ? done(out)
      : failed(new Error(`provost ${words.join(" ")}: exit code ${code}, not ${wanted}\n${out}\n${err}`)));
  });
}

export const write = (name, text) => writeFileSync(join(WORK, name), text);
export const read = (name) => readFileSync(join(WORK, name), "utf8");

let server = null;

/** Starts the server, on the same port where it had one. */
export async function serve() {
  const child = spawn(PROVOST, ["serve", "--json", "--listen", server?.address ?? "127.0.0.1:0"], options());
  child.stderr.pipe(process.stderr);
  const line = await new Promise((done) => createInterface({ input: child.stdout }).once("line", done));
  server = { child, ...JSON.parse(line) };
  return server;
}

/** Without a chance to say goodbye. */
export function kill() {
  return new Promise((done) => {
    server.child.once("close", done);
    server.child.kill("SIGKILL");
  });
}

export const place = (path) => `http://${server.address}${path}`;

let browser = null;
const heard = [];

export async function open() {
  browser = await chromium.launch({ executablePath: CHROMIUM, args: FLAGS });
}

export async function close() {
  await browser?.close();
  server?.child.kill("SIGTERM");
}

/** Somebody with a browser of their own who has not signed in. */
export async function stranger(more = {}) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...more });
  // Long enough for a machine that is busy with something else.
  context.setDefaultTimeout(120_000);
  const page = await context.newPage();
  watch(page);
  return page;
}

/** Somebody with a browser of their own, in by a link. */
export async function person(name, more = {}) {
  const link = JSON.parse(await provost(0, "serve", "link", "--json", "--by", name)).link;
  const page = await stranger(more);
  await page.goto(link);
  await page.waitForURL(place("/"));
  return page;
}

/** Nothing a plan says may ever be run. */
function watch(page) {
  page.on("dialog", (dialog) => { heard.push(`a dialog: ${dialog.message()}`); dialog.dismiss(); });
  page.on("pageerror", (error) => heard.push(`an error of a script: ${error}`));
  page.on("console", (message) => {
    if (/Content.Security.Policy/i.test(message.text())) { heard.push(message.text()); }
  });
}

export async function isUnharmed(page) {
  const set = await page.evaluate(() => window.pwned);
  check(set === undefined, `${page.url()}: a text of the plan was run`);
  check(heard.length === 0, `${page.url()}: ${heard.join("; ")}`);
}

/** Everything of the live page that says `text`, without the page being loaded again. */
export async function sees(page, selector, text) {
  const there = page.locator(selector, { hasText: text }).first();
  await there.waitFor({ state: "attached", timeout: 60_000 }).catch(async () => {
    const found = await page.locator("main").innerText();
    throw new Error(`${page.url()}: no ${selector} with ${text}\n${found}`);
  });
}

/** No serious finding, in the light and in the dark. */
export async function isAccessible(page) {
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    await page.evaluate(axe);
    const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
    const serious = found.violations.filter((each) => ["serious", "critical"].includes(each.impact));
    const words = serious.map((each) => `${each.id}: ${each.help}\n  ${each.nodes.map((node) => node.html).slice(0, 3).join("\n  ")}`);
    check(serious.length === 0, `${page.url()} (${colorScheme}):\n${words.join("\n")}`);
  }
  await page.emulateMedia({ colorScheme: "light" });
}

mkdirSync(SHOTS, { recursive: true });

/** One picture for each size; nothing may be wider than the window. */
export async function shoot(page, name) {
  for (const [size, [width, height]] of Object.entries(SIZES)) {
    await page.setViewportSize({ width, height });
    const over = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
    check(over <= 0, `${page.url()} is ${over} px wider than a ${size} window`);
    await page.screenshot({ path: join(SHOTS, `${name}-${size}.png`), fullPage: true });
  }
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.emulateMedia({ colorScheme: "dark" });
  await page.screenshot({ path: join(SHOTS, `${name}-dark.png`) });
  await page.emulateMedia({ colorScheme: "light" });
}
