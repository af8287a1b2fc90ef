// Reading without page loads: an article opens beside the list and is marked read, older items are appended, and new
// items wait for a click.
import { send, typing } from "./keys.js";

const columns = document.querySelector(".columns");
const list = columns.querySelector(".list");
const pane = columns.querySelector(".article");
const rows = () => [...list.querySelectorAll(".row-item")];
const opened = () => list.querySelector(".row-item.is-open");
const narrow = matchMedia("(max-width: 43.74rem)");
const stream = location.pathname;
const named = opened() ? `${list.getAttribute("aria-label")} – Headwater` : document.title;

// A redirect leads to the login page: the session has ended, so load the whole page.
async function part(address, name) {
  const answer = await fetch(address, { headers: { "X-Part": name } });
  if (answer.redirected) location.reload();
  return answer;
}

// Mark a row as open before its article has arrived, so that the next key already moves on from it.
function point(row) {
  for (const other of rows()) {
    other.classList.toggle("is-open", other === row);
    const title = other.querySelector(".open");
    if (other === row) title.setAttribute("aria-current", "true");
    else title.removeAttribute("aria-current");
  }
}

async function open(row, { push = true } = {}) {
  const link = row.querySelector(".open");
  const unread = row.classList.contains("is-unread"); // what is marked unread while the article comes stays so
  point(row);
  row.scrollIntoView({ block: "nearest" });
  pane.setAttribute("aria-busy", "true");
  const answer = await part(link.href, "article");
  const text = await answer.text();
  if (row !== opened()) return; // somebody has gone on meanwhile
  pane.removeAttribute("aria-busy");
  if (!answer.ok || answer.redirected) return (location.href = link.href);
  pane.innerHTML = text;
  columns.dataset.view = "article";
  pane.scrollTop = 0;
  pane.focus({ preventScroll: true }); // the space bar and the arrows scroll what is read
  if (narrow.matches) scrollTo(0, 0);
  if (push) history.pushState({ id: row.dataset.id }, "", link.href);
  document.title = `${pane.querySelector(".title").textContent} – Headwater`;
  if (unread && row.classList.contains("is-unread")) set(row, "read", true);
}

// Restore the list as it was left: the loaded rows, and the open one.
function close() {
  const row = opened();
  columns.dataset.view = "list";
  document.title = named;
  point(null);
  row?.scrollIntoView({ block: narrow.matches ? "center" : "nearest" });
  row?.querySelector(".open").focus({ preventScroll: true });
}

// Unread counts in the sidebar. The open stream's count changes at once; then the server sends the counts of all streams,
// folders and query feeds. Marks come in bursts, so it is asked a moment after the last one.
function show(place, number) {
  place.querySelector(".count")?.remove();
  if (place.matches('a:not([href="/read/starred"])')) place.classList.toggle("unread", number > 0);
  if (number <= 0) return;
  const count = document.createElement("b");
  count.className = "count";
  count.innerHTML = `${number.toLocaleString("en")}<span class="hidden"> unread</span>`;
  place.append(" ", count);
}

function count(by) {
  for (const place of columns.querySelectorAll('.side a[aria-current], .side [data-place="/read/all"]')) {
    const shown = place.querySelector(".count")?.firstChild.textContent ?? "0";
    show(place, Number(shown.replaceAll(",", "")) + by);
  }
  recount(400);
}

let counting;
function recount(wait = 0) {
  clearTimeout(counting);
  counting = setTimeout(async () => {
    const places = [...columns.querySelectorAll(".side [data-place]")].map((one) => one.dataset.place);
    const feeds = places.filter((one) => one.startsWith("/read/feed/")).map((one) => one.slice("/read/feed/".length));
    const answer = await fetch(`/read/counts?feeds=${feeds.join(",")}`);
    if (!answer.ok || answer.redirected) return;
    const unread = await answer.json();
    for (const place of columns.querySelectorAll(".side [data-place]")) show(place, unread[place.dataset.place] ?? 0);
  }, wait);
}

async function set(row, field, on) {
  const form = pane.querySelector(`form[data-field="${field}"]`);
  if (!form) return;
  const answer = await send(form, { ids: row.dataset.id, [field]: on ? "1" : "0" });
  if (!answer.ok || answer.redirected) return location.reload();
  if (field === "read") {
    if (row.classList.contains("is-unread") === on) count(on ? -1 : 1);
    row.classList.toggle("is-unread", !on);
  } else {
    row.dataset.starred = on ? "1" : "0";
    recount(400);
    row.querySelector(".star").textContent = on ? "★" : "";
  }
  const button = form.querySelector("button");
  if (row === opened()) {
    button.value = on ? "0" : "1";
    button.textContent = field === "read" ? (on ? "Mark unread" : "Mark read") : on ? "★ Starred" : "☆ Star";
  }
}

// Mark all rows above the open one as read.
async function above() {
  const form = pane.querySelector('form[data-field="read"]');
  const all = rows();
  const past = all.slice(0, all.indexOf(opened())).filter((one) => one.classList.contains("is-unread"));
  if (!form || !past.length) return;
  const undo = [];
  for (let start = 0; start < past.length; start += 500) {
    const some = past.slice(start, start + 500);
    const answer = await send(form, { ids: some.map((one) => one.dataset.id).join(","), read: "1", undo: "1" });
    if (!answer.ok || answer.redirected) return location.reload();
    undo.push((await answer.json()).undo);
    for (const one of some) one.classList.remove("is-unread");
  }
  offer(past, undo.filter(Boolean));
  recount();
}

// Undo: the rows stay in the list and are unread again.
const box = list.querySelector(".undo");
const note = box.querySelector("form");
let taken = null; // rows that the note would make unread
function offer(past, undo) {
  taken = past;
  note.elements.undo.value = undo.join(",");
  note.querySelector("span").textContent = `${past.length} item${past.length === 1 ? "" : "s"} marked as read.`;
  note.querySelector("button").hidden = false;
  box.hidden = false;
  list.append(box); // at the lower edge, wherever one has scrolled to; nothing moves for it
}
note.addEventListener("submit", async (event) => {
  if (!taken) return; // all of the stream: the page is loaded anew
  event.preventDefault();
  const answer = await send(note);
  if (!answer.ok || answer.redirected) return location.reload();
  for (const one of taken) one.classList.add("is-unread");
  taken = null;
  box.hidden = true;
  recount();
});

function move(by) {
  const all = rows();
  const at = all.indexOf(opened());
  const next = all[at < 0 ? 0 : at + by];
  if (next) open(next);
  else if (by > 0) older().then((more) => more && move(1));
}

let asking = false;
async function older() {
  const link = list.querySelector("a.older");
  if (!link || asking) return false;
  asking = true;
  link.textContent = "— loading —";
  const answer = await part(link.href, "rows");
  asking = false;
  if (!answer.ok || answer.redirected) return false;
  const more = document.createElement("div");
  more.innerHTML = await answer.text();
  link.closest(".turn").remove();
  list.querySelector(".rows").append(...more.querySelectorAll(".row-item"));
  const turn = more.querySelector("a.older")?.closest(".turn");
  if (turn) list.append(turn);
  else if (!rows().length) list.append(...more.querySelectorAll(".empty"));
  addCovered(more.querySelector(".covered"), !turn);
  goOn();
  return true;
}

// Let the sentence of a search count the items that this page covers, too.
function addCovered(covered, last) {
  if (!covered) return;
  const [kept, looked] = covered.value.split(" ").map(Number);
  for (const [name, number] of [[".kept", kept], [".looked-at", looked]]) {
    const shown = list.querySelector(name);
    shown.textContent = (Number(shown.textContent.replaceAll(",", "")) + number).toLocaleString("en");
  }
  list.querySelector(".so-far").hidden = last;
}

// A search by a condition that the index cannot narrow comes in parts: ask for the next one without a click.
function goOn() {
  if (list.querySelector("a.older[data-unfinished]")) older();
}
goOn();

list.addEventListener("click", (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  const link = event.target.closest("a.open, a.older");
  if (!link) return;
  event.preventDefault();
  if (link.classList.contains("older")) older();
  else open(link.closest(".row-item"));
});
pane.addEventListener("click", (event) => {
  const back = event.target.closest(".back a");
  if (!back || !list.querySelector(".rows")) return;
  event.preventDefault();
  history.pushState({}, "", back.href);
  close();
});
// Add or remove a label; the server writes the labels of the article and those at the left.
async function label(form, action) {
  const answer = await send(form, { do: action });
  if (!answer.ok || answer.redirected) return action === "add" ? form.submit() : location.reload(); // it says what is wrong
  const whole = await fetch(location.href);
  if (whole.redirected) return location.reload();
  const page = new DOMParser().parseFromString(await whole.text(), "text/html");
  for (const place of [".labels", ".label-list"]) columns.querySelector(place)?.replaceWith(page.querySelector(place));
  if (action === "add") pane.querySelector("#new-label").focus();
  else pane.focus({ preventScroll: true });
}

pane.addEventListener("submit", (event) => {
  if (event.target.matches(".label")) {
    event.preventDefault();
    return label(event.target, event.submitter?.value ?? "add");
  }
  const row = opened();
  if (!row || !event.target.matches(".mark")) return;
  event.preventDefault();
  set(row, event.target.dataset.field, event.submitter.value === "1");
});
addEventListener("popstate", () => {
  const id = new URL(location.href).searchParams.get("item");
  const row = id && rows().find((one) => one.dataset.id === id);
  if (row) open(row, { push: false });
  else if (!id && location.pathname === stream && rows().length) close();
  else location.reload();
});

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || typing(event.target)) return;
  if (document.querySelector("dialog[open]")) return;
  const row = opened();
  const act = {
    j: () => move(1),
    k: () => move(-1),
    o: () => row ?? move(1),
    v: () => pane.querySelector("a.original")?.click(),
    m: () => row && set(row, "read", row.classList.contains("is-unread")),
    s: () => row && set(row, "starred", row.dataset.starred !== "1"),
    l: () => pane.querySelector("#new-label")?.focus(),
    u: () => row && above(),
    A: () => document.getElementById("all-read")?.requestSubmit(),
  }[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});

const first = opened();
if (first?.classList.contains("is-unread")) set(first, "read", true);

// New items wait for a click: nothing moves while you read.
async function look() {
  if (document.hidden) return;
  recount();
  if (columns.dataset.search || columns.dataset.kind === "starred") return;
  const { kind, key, since } = columns.dataset;
  const answer = await fetch(`/read/waiting?${new URLSearchParams({ kind, key, since })}`);
  if (!answer.ok || answer.redirected) return;
  const { new: number, more } = await answer.json();
  const waiting = list.querySelector(".waiting");
  waiting.hidden = !number;
  waiting.firstElementChild.textContent = `${number}${more ? "+" : ""} new item${number === 1 ? "" : "s"}`;
}
setInterval(look, Number(document.body.dataset.look ?? 30_000));
addEventListener("focus", look);
