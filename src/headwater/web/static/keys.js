// Keyboard shortcuts of all pages, the list of shortcuts, and forms with data-quiet, which are sent without leaving the
// page.
// The pages show times in the browser's time zone, unless the account names another.
document.cookie = `zone=${encodeURIComponent(Intl.DateTimeFormat().resolvedOptions().timeZone)}; path=/; max-age=31536000; samesite=lax`;

const PLACES = { a: "/read/all", s: "/read/starred", q: "/queries", f: "/feeds" };
let waiting = 0; // since when "g" waits for its second letter

export function typing(target) {
  return target.closest?.("input, textarea, select, [contenteditable]") && target.type !== "checkbox";
}

async function showKeys() {
  let dialog = document.querySelector("dialog.all-keys");
  if (!dialog) {
    const answer = await fetch("/keys", { headers: { Accept: "text/html", "X-Part": "keys" } });
    dialog = document.createElement("dialog");
    dialog.className = "all-keys";
    dialog.setAttribute("aria-label", "Keys");
    dialog.innerHTML = await answer.text();
    document.body.append(dialog);
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  }
  dialog.showModal();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (typing(event.target)) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (waiting && Date.now() - waiting < 1500) {
    waiting = 0;
    if (PLACES[event.key]) {
      event.preventDefault();
      location.href = PLACES[event.key];
    }
    return;
  }
  waiting = 0;
  if (event.key === "g") waiting = Date.now();
  else if (event.key === "/") {
    event.preventDefault();
    document.getElementById("search")?.select();
  } else if (event.key === "?") {
    event.preventDefault();
    showKeys();
  } else if (event.key === "e") {
    const why = document.querySelector("[data-explain]");
    if (why) {
      event.preventDefault();
      why.open = !why.open;
      if (why.open) why.scrollIntoView({ block: "nearest" });
    }
  }
});

export async function send(form, more = {}) {
  const fields = new URLSearchParams(new FormData(form));
  for (const [name, value] of Object.entries(more)) fields.set(name, value);
  const answer = await fetch(form.action, { method: "POST", body: fields, headers: { Accept: "application/json" } });
  return answer;
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(button.dataset.copy);
  const was = button.textContent;
  button.textContent = "Copied";
  setTimeout(() => (button.textContent = was), 1500);
});
