// The browser knows the names of time zones: they are offered when somebody looks for one, and weigh nothing before.
const field = document.getElementById("z");
field.addEventListener("focus", () => {
  const names = Intl.supportedValuesOf?.("timeZone") ?? [];
  document.getElementById("zones").append(...names.map((name) => new Option(name)));
}, { once: true });
