// Progress of long work: asks twice a second and shows the result when there is one.
const bar = document.getElementById("bar");
const said = document.getElementById("said");

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
  setTimeout(look, 500);
}
setTimeout(look, 400);
