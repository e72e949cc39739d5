// Opens the page at argv[2] in Chromium, streams the sequence number argv[3], prints its outputs as JSON, and takes a
// screenshot if argv[4] names a file. playwright-core is that of examples/browser.
import { createRequire } from "node:module";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const [, , address, which, picture] = process.argv;
const { chromium } = createRequire(process.env.PAGE_FOLDER + "/")("playwright-core");
const profile = mkdtempSync(join(tmpdir(), "longwave-chromium-"));
const quiet = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"];
const context = await chromium.launchPersistentContext(profile, {
  executablePath: process.env.CHROMIUM, headless: true, args: quiet, viewport: { width: 920, height: 470 },
});
try {
  const page = await context.newPage();
  page.on("console", message => console.error(message.text()));
  page.on("pageerror", error => console.error(String(error)));
  await page.goto(address);
  const reach = state => page.waitForFunction(
    wanted => [wanted, "failed"].includes(document.body.dataset.state), state, { timeout: 60_000 });
  await reach("ready");
  if (await page.evaluate("document.body.dataset.state") === "ready") {
    await page.selectOption("#which", which);
    await page.click("#run");
    await reach("done");
  }
  const said = await page.textContent("#status");
  if (picture) await page.screenshot({ path: picture });
  console.log(JSON.stringify({ said, state: await page.evaluate("document.body.dataset.state"), outputs: await page.evaluate("window.outputs ?? null") }));
} finally {
  await context.close();
  rmSync(profile, { recursive: true, force: true });
}
