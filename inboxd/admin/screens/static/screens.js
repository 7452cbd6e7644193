// Extras of the screens: refreshing an open page, loading, keyboard shortcuts, times, looks, copying.
// Every page and action works without this file.

const body = document.body, root = document.documentElement, page = () => document.getElementById("page");
const reduce = matchMedia("(prefers-reduced-motion: reduce)").matches;

// ------------------------------------------------------------------------------------------ times
// The database's clock; the browser's clock only measures the time since the page was loaded.
const databaseThen = Date.parse(body.dataset.now), loadedAt = performance.now();
const databaseNow = () => databaseThen + performance.now() - loadedAt;
let readAt = performance.now() - 1000 * (body.dataset.age ?? 0);

const units = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];
const short = (n) => (n >= 10 ? n.toFixed(0) : n.toFixed(1).replace(/\.0$/, ""));
function span(seconds) { // the same as inboxd.model.wording.span
  if (seconds < 1) return seconds > 0 ? `${short(seconds * 1000)}ms` : "0s";
  const whole = Math.round(seconds);
  if (whole < 60) return `${short(seconds)}s`;
  const at = units.findIndex(([, size]) => whole >= size), [unit, size] = units[at];
  const [next, nextSize] = units[at + 1], rest = whole % size;
  return Math.floor(whole / size) + unit + (rest >= nextSize ? Math.floor(rest / nextSize) + next : "");
}

const two = (n) => String(n).padStart(2, "0");
const zone = (at) => new Intl.DateTimeFormat("en", { timeZoneName: "short" }).formatToParts(at).find((p) => p.type === "timeZoneName").value;
const ago = new Intl.RelativeTimeFormat(root.lang, { numeric: "auto" });
const long = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
function told(time, how) {
  const at = new Date(time.dateTime), clock = `${two(at.getHours())}:${two(at.getMinutes())}`;
  if (time.classList.contains("dated")) return `${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock} ${zone(at)}`;
  if (time.classList.contains("clock")) return `${clock} ${zone(at)}`;
  if (how === "local") return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock}:${two(at.getSeconds())} ${zone(at)}`;
  const seconds = (at - databaseNow()) / 1000;
  const [unit, size] = long.find(([, each]) => Math.abs(seconds) >= each) ?? long[3];
  return ago.format(Math.trunc(seconds / size), unit);
}
function showTimes(within) {
  const how = body.dataset.times;
  if (how === "utc" || (how === "relative" && Number.isNaN(databaseThen))) return;
  for (const time of within.querySelectorAll("time[datetime]")) {
    time.title ||= time.textContent;
    set(time, told(time, how));
  }
}
function showAges(within) {
  const since = (performance.now() - readAt) / 1000;
  for (const age of within.querySelectorAll("data.age")) if (since >= 1) set(age, span(+age.value + since));
}
const set = (element, text) => { if (element.textContent !== text) element.textContent = text; };

// Additions to a page before it is shown; every new version of the page gets the same.
function prepare(within) {
  for (const table of within.querySelectorAll("table:has(thead)")) {
    const heads = [...table.tHead.rows[0].cells].map((cell) => cell.textContent.trim());
    table.classList.add("labelled");
    for (const row of table.querySelectorAll("tbody tr"))
      [...row.cells].forEach((cell, at) => cell.setAttribute("data-label", heads[at] ?? ""));
    if (table.closest(".scroll")) continue;
    const around = document.createElement("div");
    around.className = "scroll";
    table.before(around);
    around.append(table);
  }
  for (const block of within.querySelectorAll("section.json:has(pre), .copied")) {
    const button = document.createElement("button");
    button.className = "plain copy";
    button.type = "button";
    button.textContent = body.dataset.copy;
    block.append(button);
  }
  showTimes(within);
  showAges(within);
}

// Make boxes with overflow focusable, so that the keyboard can scroll them.
function reach() {
  for (const box of page().querySelectorAll("pre, .scroll, .tabs, .numbers table, .happened ul"))
    if (box.scrollWidth > box.clientWidth || box.scrollHeight > box.clientHeight) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
}

// ----------------------------------------------------------------------------------------- morph
// Turn `old` into `fresh` with as few changes as possible, so that focus, typed text, open parts and
// selections stay.
const name = (node) => node.id || (/^(TR|LI)$/.test(node.nodeName) && node.querySelector("a[href]")?.getAttribute("href")) || null;
const owned = (node, attribute) => attribute === "tabindex" || (attribute === "open" && node.nodeName === "DETAILS");
export function morph(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  if (old.nodeType !== Node.ELEMENT_NODE) { old.nodeValue = fresh.nodeValue; return; }
  for (const { name: key, value } of [...fresh.attributes])
    if (!owned(old, key) && old.getAttribute(key) !== value) old.setAttribute(key, value);
  for (const { name: key } of [...old.attributes])
    if (!owned(old, key) && !fresh.hasAttribute(key)) old.removeAttribute(key);
  const wanted = new Set([...fresh.children].map(name)), named = new Map();
  for (const child of [...old.children]) {
    const own = name(child);
    if (own && (!wanted.has(own) || named.has(own))) child.remove();
    else if (own) named.set(own, child);
  }
  let at = old.firstChild;
  for (const want of [...fresh.childNodes]) {
    const own = want.nodeType === Node.ELEMENT_NODE ? name(want) : null;
    const unnamed = at && at.nodeName === want.nodeName && !(at.nodeType === Node.ELEMENT_NODE && name(at));
    const have = own ? named.get(own) : unnamed ? at : null;
    named.delete(own);
    if (!have || have.nodeName !== want.nodeName) { old.insertBefore(document.importNode(want, true), at); continue; }
    if (have === at) at = at.nextSibling;
    else (old.moveBefore ?? old.insertBefore).call(old, have, at);
    morph(have, want);
  }
  while (at) { const next = at.nextSibling; at.remove(); at = next; }
}

// ------------------------------------------------------------------------------------------- live
const live = document.getElementById("live"), every = 2000, longest = 30000, slow = 1000;
let revision = body.dataset.revision, isLive = Boolean(revision), failures = 0, isSlow = false, timer, heardAt = performance.now() - 1000 * (body.dataset.age ?? 0);

function schedule() {
  clearTimeout(timer);
  if (isLive && !document.hidden) timer = setTimeout(poll, Math.min(every * 2 ** failures, longest));
}
async function poll() {
  const asked = location.href, waiting = setTimeout(() => { isSlow = true; tell(); }, slow);
  try {
    const answer = await fetch(asked, { headers: { "x-revision": revision, accept: "text/html" }, signal: AbortSignal.timeout(8000) });
    if (!isLive || asked !== location.href) return;
    // The answer is not a page of the screens, but a login, for example: only a reload can show it.
    if (answer.redirected || answer.status === 401 || answer.status === 403) { location.reload(); return; }
    if (!answer.ok) throw new Error(`answered ${answer.status}`);
    failures = 0;
    heardAt = performance.now() - 1000 * (answer.headers.get("x-read-age") ?? 0);
    if (answer.status === 200) swap(await answer.text(), answer.headers);
  } catch (error) {
    failures += 1;
  } finally {
    clearTimeout(waiting);
    isSlow = false;
  }
  tell();
  schedule();
}
function swap(html, headers) {
  const fresh = new DOMParser().parseFromString(html, "text/html"), main = fresh.getElementById("page");
  revision = headers.get("x-revision");
  readAt = performance.now() - 1000 * (headers.get("x-read-age") ?? 0);
  prepare(main);
  const focused = document.activeElement;
  morph(page(), main);
  reach();
  if (focused !== document.activeElement && !focused.isConnected) page().focus({ preventScroll: true });
  if (document.title !== fresh.title) document.title = fresh.title;
  document.dispatchEvent(new CustomEvent("screens:swapped"));
}
function tell() {
  if (!live || live.hidden) return;
  const away = document.getElementById("trouble");
  live.classList.toggle("offline", failures > 0 || Boolean(away));
  live.setAttribute("aria-pressed", String(isLive));
  set(live.querySelector(".word"), failures ? live.dataset.offline : away ? live.dataset.away : isSlow ? live.dataset.loading : isLive ? live.dataset.live : live.dataset.still);
  set(live.querySelector(".age"), live.dataset.ago.replace("{age}", span(Math.round((performance.now() - heardAt) / 1000))));
}
function toggleLive() {
  if (!revision) return;
  isLive = !isLive;
  failures = 0;
  if (isLive) poll(); else clearTimeout(timer);
  tell();
}
if (live && revision) {
  live.hidden = false;
  live.addEventListener("click", toggleLive);
  document.addEventListener("visibilitychange", () => { clearTimeout(timer); if (!document.hidden && isLive) poll(); });
  schedule();
}
setInterval(() => {
  if (document.hidden) return;
  tell();
  showAges(page());
  if (body.dataset.times === "relative") showTimes(page());
}, 1000);

// ---------------------------------------------------------------------------------------- loading
// A page that does not come at once shows a bar; a download, after which the page stays, ends it.
let arrives = [];
function arrived() {
  arrives.forEach(clearTimeout);
  body.removeAttribute("data-loading");
  page().removeAttribute("aria-busy");
}
function leave() {
  arrived();
  const show = () => { body.dataset.loading = ""; page().setAttribute("aria-busy", "true"); };
  arrives = [setTimeout(show, 400), setTimeout(arrived, 15000)];
}
addEventListener("click", (event) => {
  const link = event.target.closest("a[href]");
  if (!link || event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey || link.getAttribute("target")) return;
  const to = new URL(link.getAttribute("href"), location);
  if (!to.hash || to.pathname + to.search !== location.pathname + location.search) leave();
});
addEventListener("submit", (event) => { if (!event.defaultPrevented && event.target.method !== "dialog") leave(); });
addEventListener("pageshow", arrived);

// ------------------------------------------------------------------------------------ preferences
const display = document.getElementById("display");
const keep = (choice) => fetch(`${display.action}?${new URLSearchParams(choice)}`, { redirect: "manual" });
display.querySelector("[type=submit]").hidden = true;
display.addEventListener("change", ({ target }) => {
  if (!(target.name in root.dataset)) return display.requestSubmit();
  root.dataset[target.name] = target.value;
  return keep({ [target.name]: target.value });
});
function toggleTheme() {
  const dark = root.dataset.theme === "dark" || (root.dataset.theme === "system" && matchMedia("(prefers-color-scheme: dark)").matches);
  const theme = dark ? "light" : "dark";
  root.dataset.theme = theme;
  display.elements.theme.value = theme;
  keep({ theme });
}

// ----------------------------------------------------------------------------------------- copying
document.addEventListener("click", async ({ target }) => {
  const button = target.closest(".copy");
  if (!button) return;
  const source = button.parentElement.querySelector("code, pre, output") ?? button.parentElement;
  try {
    await navigator.clipboard.writeText(source.textContent);
  } catch { // there is no clipboard without HTTPS: copy the selection instead
    getSelection().selectAllChildren(source);
    document.execCommand("copy");
  }
  set(button, body.dataset.copied);
  setTimeout(() => set(button, body.dataset.copy), 1500);
});

// -------------------------------------------------------------------------------------------- keys
const find = document.getElementById("find"), help = document.getElementById("help");
let afterG = 0;
function step(by) {
  const rows = [...page().querySelectorAll("tbody tr, .rows li, .tree li")].map((row) => row.querySelector("a[href]")).filter((link) => link?.checkVisibility());
  const now = document.activeElement.closest?.("tr, li");
  const at = rows.findIndex((link) => link.closest("tr, li") === now);
  const link = rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(Math.max(at + by, 0), rows.length - 1)];
  link?.focus({ preventScroll: true });
  link?.scrollIntoView({ block: "nearest", behavior: reduce ? "auto" : "smooth" });
}
function choose() {
  const box = document.activeElement.closest?.("tr, li")?.querySelector("input[type=checkbox]");
  box?.click();
}
const keys = {
  "/": () => find?.focus(), j: () => step(1), k: () => step(-1), x: choose, r: toggleLive, t: toggleTheme, "?": () => help.showModal(),
  g: () => { afterG = performance.now(); },
};
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || body.dataset.keys === "off" || help.open) return;
  if (event.target.closest("input, textarea, select, [contenteditable]")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const goes = performance.now() - afterG < 1500 && document.querySelector(`.pages a[data-key="${CSS.escape(event.key)}"]`);
  afterG = 0;
  const does = goes ? () => goes.click() : keys[event.key];
  if (!does) return;
  event.preventDefault();
  does();
});

prepare(page());
reach();
addEventListener("resize", reach);
addEventListener("toggle", reach, true);
tell();
