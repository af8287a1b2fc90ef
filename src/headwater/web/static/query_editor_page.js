// The query editor: highlights while you type, checks after a short pause, previews after a longer one.
const form = document.getElementById("editor");
const text = document.getElementById("text");
const colours = form.querySelector(".colours");
const numbers = form.querySelector(".numbers");
const bubble = form.querySelector(".bubble");
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
  bubble.hidden = !first || document.activeElement !== text;
  if (first) {
    bubble.textContent = `${first.text}${first.hint ? ` – ${first.hint}` : ""}`;
    bubble.style.top = `${first.line * 21 + 12 - text.scrollTop}px`;
    bubble.style.left = `${Math.min((first.column - 1) * 8.4 + 8, 200)}px`;
  }
}

async function ask(part, from = form) {
  const body = new URLSearchParams(new FormData(from));
  return fetch(form.action, { method: "POST", body, headers: { "X-Part": part, Accept: "application/json" } });
}

async function check() {
  const mine = ++asked;
  const answer = await ask("check");
  if (mine !== asked || !answer.ok || answer.redirected) return;
  wrong = text.value.trim() ? (await answer.json()).messages : [];
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
});
text.addEventListener("scroll", () => {
  follow();
  bubble.hidden = true;
});
text.addEventListener("blur", () => (bubble.hidden = true));
text.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.querySelector("[value=save]").click();
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
