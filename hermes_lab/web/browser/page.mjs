// The browser of an episode: runs inside its sandbox with Playwright's node.
//
// argv     the driver's package, the Chromium, and a JSON object of options
// stdin    a JSON line for each call: {"call": N, "do": NAME, ...}, and for each answer to a question: {"asked": N, ...}
// stdout   {"ready": true} once it runs, or {"failed": WHY}; {"ask": N, "url", "method"} for each request of a page, which the harness
//          answers; {"call": N, ...} at the end of a call. Exits when stdin ends, and Chromium with it.
import { createInterface } from 'node:readline';

const [, , driver, executablePath, json] = process.argv;
const options = JSON.parse(json);
const { chromium } = await import(`${driver}/index.mjs`);

const MOST_NOTES = 5;
const MOST_TABS = 8;
const MOST_QUESTIONS = 64;
const LONGEST = 2000;

const say = (message) => process.stdout.write(JSON.stringify(message) + '\n');
const short = (text) => (text.length > LONGEST ? text.slice(0, LONGEST) + '…' : text);
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

class Hung extends Error {}

// Playwright's own timeouts do not cover a page whose script never ends.
async function within(ms, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Hung()), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

let notes = [];
const note = (text) => {
  if (notes.length < MOST_NOTES) notes.push(short(text));
};

// What pages ask for

const questions = new Map();
let asked = 0;

async function serve(route) {
  const request = route.request();
  const url = request.url();
  if (!/^https?:/i.test(url)) return route.continue();
  if (questions.size >= MOST_QUESTIONS) return route.abort();
  const number = ++asked;
  const answer = await new Promise((resolve) => {
    questions.set(number, resolve);
    say({ ask: number, url, method: request.method() });
  });
  if (answer.pass) return route.continue();
  return route.fulfill({ status: answer.status, contentType: answer.type, body: answer.body });
}

// Tabs

const browser = await chromium
  .launch({
    executablePath,
    headless: true,
    chromiumSandbox: options.sandbox,
    args: options.arguments,
    timeout: options.start_ms,
  })
  .catch((error) => {
    say({ failed: explained(error) });
    process.exit(1);
  });
browser.on('disconnected', () => process.exit(1));
const context = await browser.newContext({ serviceWorkers: 'block', acceptDownloads: false });
context.setDefaultTimeout(options.act_ms);
const tabs = [];
const loading = new Set();
let status = 0;
let crashed = false;

function enter(page) {
  if (tabs.length >= MOST_TABS) {
    note('a page in a new tab was closed: too many tabs are open');
    page.close().catch(() => {});
    return;
  }
  tabs.push(page);
  if (tabs.length > 1) note('a page opened in a new tab and is shown now; browser_back closes it');
  page.on('dialog', (dialog) => {
    note(`the page said (${dialog.type()}, accepted): ${dialog.message()}`);
    dialog.accept().catch(() => {});
  });
  page.on('download', (download) => {
    note(`a download was refused: ${download.suggestedFilename()}`);
    download.cancel().catch(() => {});
  });
  page.on('crash', () => {
    crashed = true;
  });
  page.on('close', () => {
    if (tabs.includes(page)) tabs.splice(tabs.indexOf(page), 1);
  });
}

await context.route('**/*', (route) => serve(route).catch(() => {}));
context.on('page', enter);
context.on('request', (request) => loading.add(request));
for (const end of ['requestfinished', 'requestfailed']) context.on(end, (request) => loading.delete(request));
context.on('response', (response) => {
  const request = response.request();
  try {
    if (request.isNavigationRequest() && request.frame() === current()?.mainFrame()) status = response.status();
  } catch {} // of a page that is gone
});
const current = () => tabs.at(-1);

// Waits until nothing loads any more: an action may have started a navigation.
async function settle() {
  const end = Date.now() + options.settle_ms;
  for (let quiet = 0; quiet < 3 && Date.now() < end; quiet = loading.size ? 0 : quiet + 1) await sleep(30);
}

function element(ref) {
  if (!current()) throw new Error('no page is open; open one with browser_navigate');
  return current().getByRef(ref);
}

async function found(ref) {
  const target = element(ref);
  if (!(await within(options.act_ms, target.count().catch(() => 0))))
    throw new Error(`no element ${ref} on the current page; take the ref from a new snapshot`);
  return target;
}

const actions = {
  async navigate({ url }) {
    const page = current() ?? (await context.newPage());
    try {
      await page.goto(url, { waitUntil: 'domcontentloaded', timeout: options.load_ms });
    } catch (failure) {
      // Chromium's own page about the error, which comes a moment later, would end the next navigation.
      if (/net::ERR_/.test(failure.message))
        await page.waitForURL(/^chrome-error:/, { timeout: 1000, waitUntil: 'commit' }).catch(() => {});
      throw failure;
    }
  },
  async snapshot() {
    element('e1');
  },
  async click({ ref }) {
    await (await found(ref)).click();
  },
  async type({ ref, text, submit }) {
    const target = await found(ref);
    const kind = await within(options.act_ms, target.evaluate((node) => node.tagName));
    if (kind === 'SELECT') await target.selectOption({ label: text });
    else await target.fill(text);
    if (submit) await target.press('Enter');
  },
  async back() {
    const page = current();
    if (!page) throw new Error('no page is open; open one with browser_navigate');
    const before = page.url();
    await page.goBack({ waitUntil: 'domcontentloaded', timeout: options.load_ms });
    if (page.url() !== before && page.url() !== 'about:blank') return;
    if (tabs.length > 1) return void (await page.close());
    if (page.url() === 'about:blank') await page.goForward({ timeout: options.load_ms });
    throw new Error('there is no page to go back to');
  },
};

// Whether the page runs no script any more. A timeout alone may be that of an element that cannot be clicked.
async function hangs() {
  try {
    await within(options.act_ms, Promise.resolve(current()?.evaluate('1')));
    return false;
  } catch (failure) {
    return failure instanceof Hung;
  }
}

async function look() {
  const page = current();
  const tree = await page.ariaSnapshot({ mode: 'ai', timeout: options.look_ms });
  return {
    url: short(page.url()),
    title: short(await page.title()),
    text: tree.slice(0, options.most),
    whole: tree.length <= options.most,
  };
}

function explained(error) {
  const text = String(error?.message ?? error);
  if (/net::ERR_ABORTED|Download is starting/.test(text)) return 'the address does not lead to a page (perhaps to a download)';
  if (/net::ERR_NAME_NOT_RESOLVED/.test(text)) return 'no such host';
  if (/net::ERR_CONNECTION_REFUSED/.test(text)) return 'nothing answers at this address';
  const lines = text.replace(/\x1b\[[0-9;]*m/g, '').split('\n');
  // What keeps an element from being clicked stands in the log behind the message.
  const why = lines.find((line) => /intercepts pointer events|element is not (visible|enabled|stable)/.test(line));
  return short(lines[0].replace(/^\w+(\.\w+)*: /, '') + (why ? ` (${why.replace(/^[\s-]+/, '')})` : ''));
}

async function call(order) {
  notes = [];
  status = 0;
  crashed = false;
  try {
    await within(options.load_ms + options.act_ms, actions[order.do](order));
    await settle();
    if (!current()) return { error: 'the page closed itself; open one with browser_navigate' };
    if (crashed) throw new Hung();
    const seen = await within(options.look_ms, look());
    return { ...seen, status };
  } catch (failure) {
    if (crashed || /crashed/i.test(String(failure))) return { dead: 'crashed' };
    if (failure instanceof Hung || (await hangs())) return { dead: 'hung' };
    return { error: explained(failure) };
  }
}

let turn = Promise.resolve();
createInterface({ input: process.stdin })
  .on('line', (line) => {
    const message = JSON.parse(line);
    if (message.asked) {
      questions.get(message.asked)?.(message);
      questions.delete(message.asked);
      return;
    }
    turn = turn.then(async () => {
      const result = await call(message);
      say({ call: message.call, ...result, notes });
    });
  })
  .on('close', () => process.exit(0));
say({ ready: true });
