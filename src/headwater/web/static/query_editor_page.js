// The query editor: highlights while you type, checks after a short pause, previews after a longer one.
const form = document.getElementById("editor");
const text = document.getElementById("text");
const colours = form.querySelector(".colours");
const numbers = form.querySelector(".numbers");
const bubble = form.querySelector(".bubble");
const choices = form.querySelector(".choices");
const messages = document.getElementById("messages");
const preview = document.getElementById("preview");
const builder = document.getElementById("build");
const keywords = new Set(form.dataset.keywords.split(" "));
const connectives = new Set(["AND", "OR", "NOT"]);
const fields = new Set("ITEM TITLE CONTENT CATEGORY AUTHOR LINK LANGUAGE PUBLISHED UPDATED ARRIVAL SIZE ENCLOSURE SOURCE".split(" "));
const TOKEN = /\bSTORY\s+(?:SOURCES|ITEMS|GROWING)\b|\bFIRST\s+OF\s+STORY\b|\bEACH\s+STORY\b|\bCHANGED(?=\s*\()|--[^\n]*|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?|\/(?![\s/])(?:\\.|[^/\\\n])+\/i?|\$[\p{L}\w]+|[\p{L}_][\p{L}\p{N}_-]*|\d+(?:\.\d+)?/giu;
let wrong = [];
let asked = 0;

document.documentElement.classList.add("js");

function kind(token) {
  if (token.startsWith("--")) return "comment";
  if (token[0] === '"' || token[0] === "'") return "string";
  if (token[0] === "/") return "regex";
  if (token[0] === "$") return "variable";
  if (/^\d/.test(token)) return "number";
  if (/\s|^changed$/i.test(token)) return "keyword"; // a phrase; its words may be names elsewhere
  const upper = token.toUpperCase();
  if (!keywords.has(upper)) return "name";
  return connectives.has(upper) ? "connective" : fields.has(upper) ? "field" : "keyword";
}

function offset(line, column) {
  const lines = text.value.split("\n");
  let at = 0;
  for (let k = 0; k < line - 1 && k < lines.length; k++) at += lines[k].length + 1;
  return at + column - 1;
}

function paint() {
  const value = text.value;
  const places = wrong.map((one) => offset(one.line, one.column));
  const parts = document.createDocumentFragment();
  let at = 0;
  const put = (piece, start, name) => {
    const span = document.createElement("span");
    span.textContent = piece;
    const here = places.some((place) => place >= start && place < start + Math.max(piece.length, 1));
    span.className = `${name ? `t-${name}` : ""}${here ? " wrong" : ""}`;
    parts.append(span);
  };
  for (const found of value.matchAll(TOKEN)) {
    if (found.index > at) put(value.slice(at, found.index), at, "");
    put(found[0], found.index, kind(found[0]));
    at = found.index + found[0].length;
  }
  put(`${value.slice(at)} \n`, at, "");
  colours.replaceChildren(parts);
  const lines = value.split("\n").length;
  numbers.textContent = Array.from({ length: lines }, (_, k) => k + 1).join("\n");
  follow();
}

function follow() {
  colours.scrollTop = text.scrollTop;
  colours.scrollLeft = text.scrollLeft;
  numbers.scrollTop = text.scrollTop;
}

function tell() {
  messages.replaceChildren(
    ...wrong.map((one) => {
      const line = document.createElement("p");
      line.className = `said ${one.warning ? "warn" : "bad"}`;
      const where = document.createElement("b");
      where.textContent = `Line ${one.line}, column ${one.column}: `;
      line.append(where, one.text);
      if (one.hint) {
        const hint = document.createElement("i");
        hint.textContent = ` ${one.hint}`;
        line.append(hint);
      }
      return line;
    }),
  );
  const first = wrong.find((one) => !one.warning);
  if (first) text.setAttribute("aria-invalid", "true");
  else text.removeAttribute("aria-invalid");
  bubble.hidden = !first || !choices.hidden || document.activeElement !== text;
  if (first) {
    bubble.textContent = `${first.text}${first.hint ? ` – ${first.hint}` : ""}`;
    bubble.style.top = `${first.line * 21 + 12 - text.scrollTop}px`;
    bubble.style.left = `${Math.min((first.column - 1) * 8.4 + 8, 200)}px`;
  }
}

async function ask(part, from = form, more = {}) {
  const body = new URLSearchParams([...new FormData(from), ...Object.entries(more)]);
  return fetch(form.action, { method: "POST", body, headers: { "X-Part": part, Accept: "application/json" } });
}

async function check() {
  const mine = ++asked;
  const answer = await ask("check");
  if (!answer.ok || answer.redirected) return;
  const { messages: found } = await answer.json();
  if (mine !== asked) return;
  wrong = text.value.trim() ? found : [];
  paint();
  tell();
  if (text.value.trim() && !wrong.some((one) => !one.warning)) look(mine);
}

// The preview comes step by step, each as a line; a newer text makes the rest useless.
async function showLines(mine, lines) {
  const decoder = new TextDecoder();
  let rest = "";
  for (let { done, value } = await lines.read(); !done; { done, value } = await lines.read()) {
    if (mine !== asked) return lines.cancel();
    const complete = (rest + decoder.decode(value, { stream: true })).split("\n");
    rest = complete.pop();
    if (complete.length) preview.innerHTML = JSON.parse(complete.at(-1)).html;
  }
}

async function look(mine) {
  preview.parentElement.classList.add("busy");
  const answer = await ask("preview");
  if (answer.ok && !answer.redirected) await showLines(mine, answer.body.getReader());
  preview.parentElement.classList.remove("busy");
}

// Titles of feeds and tags that continue what stands before the cursor.
const OPENED = /\b(FEED|TAG)\s+"((?:\\.|[^"\\\n])+)$/i;
let completing = 0;

function close() {
  completing++;
  choices.hidden = true;
}

function choose(option) {
  const after = text.value.slice(text.selectionStart);
  const typed = text.value.slice(0, text.selectionStart).match(OPENED)[2];
  text.setRangeText(`${option.textContent.replace(/["\\]/g, "\\$&")}${after.startsWith('"') ? "" : '"'}`, text.selectionStart - typed.length, text.selectionStart, "end");
  text.focus();
  close();
  text.dispatchEvent(new Event("input"));
}

// Until the server has answered, the titles shown stay if they continue what is typed: Enter chooses what one sees.
function narrow(typed) {
  for (const option of [...choices.children]) {
    if (!option.textContent.toLowerCase().startsWith(typed.toLowerCase())) option.remove();
  }
  if (!choices.querySelector("[aria-selected=true]")) choices.firstElementChild?.setAttribute("aria-selected", "true");
  choices.hidden ||= !choices.firstElementChild;
}

async function complete() {
  const before = text.value.slice(0, text.selectionStart);
  const opened = before.match(OPENED);
  if (!opened) return close();
  const typed = opened[2].replace(/\\(.)/g, "$1");
  narrow(typed);
  const mine = ++completing;
  const answer = await ask("complete", form, { kind: opened[1].toUpperCase(), typed });
  if (!answer.ok || answer.redirected) return;
  const { found } = await answer.json();
  if (mine !== completing) return; // a title was chosen, or more was typed, while the answer arrived
  choices.replaceChildren(
    ...found.map((title, k) => {
      const option = document.createElement("li");
      option.setAttribute("role", "option");
      option.setAttribute("aria-selected", k === 0);
      option.textContent = title;
      return option;
    }),
  );
  choices.hidden = !found.length;
  bubble.hidden ||= !choices.hidden;
  const lines = before.split("\n");
  choices.style.top = `${lines.length * 21 + 12 - text.scrollTop}px`;
  choices.style.left = `${Math.min((lines.at(-1).length - opened[2].length) * 8.4 + 8, 200)}px`;
}

function move(event) {
  const chosen = choices.querySelector("[aria-selected=true]");
  if (event.key === "Escape") close();
  else if (event.key === "Enter" || event.key === "Tab") choose(chosen);
  else {
    const next = event.key === "ArrowDown" ? chosen.nextElementSibling : chosen.previousElementSibling;
    if (next) chosen.setAttribute("aria-selected", "false");
    next?.setAttribute("aria-selected", "true");
  }
  event.preventDefault();
}

choices.addEventListener("mousedown", (event) => {
  event.preventDefault(); // the text keeps the cursor
  if (event.target.role === "option") choose(event.target);
});

let rest;
function later(wait = 250) {
  clearTimeout(rest);
  rest = setTimeout(check, wait);
}

text.addEventListener("input", () => {
  wrong = [];
  bubble.hidden = true;
  paint();
  later();
  complete();
});
text.addEventListener("scroll", () => {
  follow();
  bubble.hidden = true;
});
text.addEventListener("blur", () => {
  bubble.hidden = true;
  close();
});
text.addEventListener("keydown", (event) => {
  const moves = ["ArrowDown", "ArrowUp", "Enter", "Tab", "Escape"].includes(event.key) && !event.ctrlKey && !event.metaKey;
  if (!choices.hidden && moves) move(event);
  else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.querySelector("[value=save]").click();
});

// Show an error of the form at its field, as the page without scripts does.
function say(problem, name) {
  builder.querySelector(".problem")?.remove();
  builder.querySelector("[aria-invalid]")?.removeAttribute("aria-invalid");
  const field = problem && builder.elements[name];
  if (!field) return;
  const line = document.createElement("p");
  line.className = "note problem";
  line.id = `${name}-wrong`;
  line.setAttribute("role", "alert");
  line.textContent = problem;
  field.setAttribute("aria-invalid", "true");
  field.setAttribute("aria-describedby", line.id);
  field.after(line);
}

let building;
builder.addEventListener("input", () => {
  clearTimeout(building);
  building = setTimeout(async () => {
    const answer = await ask("build", builder);
    if (!answer.ok) return;
    const built = await answer.json();
    say(built.problem, built.field);
    if (built.text === null) return;
    text.value = built.text;
    text.rows = Math.max(text.rows, built.text.split("\n").length + 1);
    paint();
    later(0);
  }, 250);
});

paint();
if (text.value.trim()) later(50);
