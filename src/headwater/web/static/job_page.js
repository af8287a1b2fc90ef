// Shows the progress of a job: polls twice a second, and shows the result as far as it is known.
const bar = document.getElementById("bar");
const said = document.getElementById("said");
const part = document.getElementById("part");
let shown = bar.value;

async function look() {
  const answer = await fetch(location.href, { headers: { Accept: "application/json" } });
  if (!answer.ok) return location.reload();
  const job = await answer.json();
  if (!job.running) return location.reload();
  if (job.total) {
    bar.max = job.total;
    bar.value = job.done;
    const numbers = `${job.done.toLocaleString("en")} of ${job.total.toLocaleString("en")} ${bar.dataset.unit}`;
    said.textContent = `${numbers}${job.doing ? `: ${job.doing}` : ""} …`;
  } else if (job.doing) said.textContent = `${job.doing} …`;
  if (job.part && job.done > shown) {
    const more = await fetch(location.href, { headers: { "X-Part": "result" } });
    if (more.ok && !more.redirected) part.innerHTML = await more.text();
    shown = job.done;
  }
  setTimeout(look, 500);
}
setTimeout(look, 400);
