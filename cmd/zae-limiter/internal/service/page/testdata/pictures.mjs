// Takes pictures of the pages in Chromium. It reads {"url", "pages": {name: path}} and writes {name: PNG in base64}.
import { readFileSync } from "node:fs";
import puppeteer from "puppeteer-core";

const { url, pages } = JSON.parse(readFileSync(0, "utf8"));
const browser = await puppeteer.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox", "--disable-gpu", "--disable-lcd-text"], timeout: 120_000, protocolTimeout: 300_000 });
const taken = {};
for (const [name, path] of Object.entries(pages)) {
  const page = await browser.newPage();
  await page.setViewport({ width: 960, height: 640 });
  await page.goto(url + path);
  taken[name] = await page.screenshot({ encoding: "base64", type: "png", optimizeForSpeed: false });
}
await browser.close();
console.log(JSON.stringify(taken));
