// browser_client.mjs HTTP-BASE HTTPS-BASE DRIVER [ignore]: a real Chromium, driven by Playwright,
// Puppeteer, Selenium or Crawlee, opens a page of HTTPS-BASE and downloads a file of it. It prints what
// the page has found, and the SHA-256 of the file. With "ignore" the browser ignores certificates.
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, readdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const [, base, driver, ignore] = process.argv.slice(2);
// Chromium runs no service worker of a site of which Playwright's ignoreHTTPSErrors ignores the certificate.
const url = base + (driver === "playwright" && ignore ? "/page?alone" : "/page");
const executablePath = "/usr/bin/chromium";
const server = process.env.HTTPS_PROXY;
const patience = 150_000; // ms, less than the test's
const args = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]; // for a test that is root
const downloads = mkdtempSync(join(tmpdir(), "downloads-"));
process.env.TMPDIR = "/tmp"; // the paths of sockets below that of a test are too long for Chromium

const report = (found, file) => {
  console.log(found);
  console.log(createHash("sha256").update(readFileSync(file)).digest("hex"));
};

// finished waits for a file that a browser has downloaded.
async function finished() {
  for (;;) {
    const [name] = readdirSync(downloads).filter((one) => !one.startsWith(".") && !one.endsWith(".crdownload"));
    if (name) return join(downloads, name);
    await sleep(50);
  }
}

const complete = () => document.title.startsWith("complete") || document.title.startsWith("failed");

// visit uses a page of Playwright's that has opened the site.
async function visit(page) {
  await page.waitForFunction(complete, null, { timeout: patience });
  const [download] = await Promise.all([page.waitForEvent("download", { timeout: patience }), page.click("#download")]);
  report(await page.title(), await download.path());
}

const drivers = {
  async playwright() {
    const { chromium } = await import("playwright");
    const browser = await chromium.launch({ executablePath, args, proxy: { server } });
    const page = await browser.newPage({ ignoreHTTPSErrors: !!ignore });
    await page.goto(url, { timeout: patience });
    await visit(page);
    await browser.close();
  },

  async crawlee() {
    const { Configuration, PlaywrightCrawler, log } = await import("@crawlee/playwright");
    log.setLevel(log.LEVELS.OFF);
    const crawler = new PlaywrightCrawler({
      launchContext: { launchOptions: { executablePath, args: [...args, ...(ignore ? ["--ignore-certificate-errors"] : [])], proxy: { server } } },
      maxRequestRetries: 0,
      navigationTimeoutSecs: patience / 1000,
      requestHandlerTimeoutSecs: patience / 1000,
      requestHandler: ({ page }) => visit(page),
    }, new Configuration({ persistStorage: false }));
    const { requestsFailed } = await crawler.run([url]);
    if (requestsFailed) throw new Error("the crawl failed");
  },

  async puppeteer() {
    const { default: puppeteer } = await import("puppeteer-core");
    const browser = await puppeteer.launch({ executablePath, args: [...args, `--proxy-server=${server}`], acceptInsecureCerts: !!ignore });
    const page = await browser.newPage();
    const session = await browser.target().createCDPSession();
    await session.send("Browser.setDownloadBehavior", { behavior: "allow", downloadPath: downloads });
    await page.goto(url, { timeout: patience });
    await page.waitForFunction(complete, { timeout: patience });
    await page.click("#download");
    report(await page.title(), await finished());
    await browser.close();
  },

  async selenium() {
    const { Builder, By } = await import("selenium-webdriver");
    const { Options, ServiceBuilder } = await import("selenium-webdriver/chrome.js");
    const options = new Options().setChromeBinaryPath(executablePath);
    options.addArguments("--headless", ...args, `--proxy-server=${server}`);
    options.setUserPreferences({ "download.default_directory": downloads });
    options.setAcceptInsecureCerts(!!ignore);
    const browser = await new Builder().forBrowser("chrome").setChromeOptions(options).setChromeService(new ServiceBuilder("/usr/bin/chromedriver")).build();
    try {
      await browser.get(url);
      await browser.wait(() => browser.executeScript(`return (${complete})()`), patience);
      await browser.findElement(By.id("download")).click();
      report(await browser.getTitle(), await finished());
    } finally {
      await browser.quit();
    }
  },
};

try {
  await drivers[driver]();
  process.exit(0);
} catch (error) {
  console.error(error);
  process.exit(1);
}
