// Opens the pages in Chromium, as people do. It reads {"url"} and writes a list of what is wrong.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import puppeteer from "puppeteer-core";

const { url } = JSON.parse(readFileSync(0, "utf8"));
const axe = readFileSync(createRequire(process.cwd() + "/").resolve("axe-core/axe.min.js"), "utf8");
const wrong = [];
const browser = await puppeteer.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox", "--disable-gpu"], timeout: 120_000, protocolTimeout: 300_000 });

// open opens a page, and notes what the browser complains of.
async function open(path, { scripts = true, dark = false, width = 1200 } = {}) {
  const page = await browser.newPage();
  page.setDefaultTimeout(120_000);
  page.on("console", (m) => m.type() === "error" && wrong.push(`${path}: ${m.text()}`));
  page.on("pageerror", (e) => wrong.push(`${path}: ${e}`));
  page.on("request", (r) => r.url().startsWith(url) || r.url().startsWith("data:") || wrong.push(`${path} asks ${r.url()}`));
  await page.setJavaScriptEnabled(scripts);
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: dark ? "dark" : "light" }]);
  await page.setViewport({ width, height: 800 });
  const answer = await page.goto(url + path);
  if (!answer.ok()) wrong.push(`${path}: ${answer.status()}`);
  return page;
}

const entity = "/ui/entity?id=key-1&resource=gpt-4";
for (const path of ["/ui/", entity, "/ui/limits?resource=gpt-4", "/ui/refusals"]) {
  for (const look of [{}, { dark: true }, { width: 360 }]) {
    const page = await open(path, look);
    await page.evaluate(axe); // by the protocol, which the policy does not concern
    const { violations } = await page.evaluate(() => axe.run());
    for (const v of violations) wrong.push(`${path} ${JSON.stringify(look)}: ${v.id}: ${v.nodes.map((n) => n.html + " " + n.failureSummary).slice(0, 2).join("; ")}`);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    if (wide > 0) wrong.push(`${path} ${JSON.stringify(look)}: ${wide} pixels do not fit`);
    await page.close();
  }
}

// edit sets limits by keyboard alone.
async function edit(limits, scripts) {
  const page = await open(entity, { scripts });
  const focused = () => page.evaluate(() => [document.activeElement.name, document.activeElement.value, document.activeElement.textContent].join("|"));
  const reach = async (wanted) => {
    for (let i = 0; i < 80; i++) {
      await page.keyboard.press("Tab");
      if ((await focused()).startsWith(wanted)) return;
    }
    throw new Error("the keyboard does not reach " + wanted + ", but " + (await focused()));
  };
  const press = () => Promise.all([page.waitForNavigation(), page.keyboard.press("Enter")]);
  await reach("limits|");
  await page.keyboard.down("Control");
  await page.keyboard.press("KeyA");
  await page.keyboard.up("Control");
  await page.keyboard.type(limits);
  await reach("do|set-limits");
  await press();
  if (!(await page.content()).includes("Nothing was changed yet")) wrong.push("no preview of " + limits);
  await reach("||Apply");
  await press();
  if (!(await page.content()).includes("Done: Set limits")) wrong.push(limits + " was not set");
  await page.close();
}
await edit("rpm:77/min", true);
await edit("rpm:78/min", false);

// The balances are read again while somebody looks.
const watching = await open(entity);
const before = await watching.$eval("#live", (e) => e.innerHTML);
await watching.waitForFunction((old) => document.querySelector("#live").innerHTML !== old, { polling: 500 }, before);
await browser.close();
process.stdout.write(JSON.stringify(wrong));
