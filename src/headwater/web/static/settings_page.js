// Offer the browser's list of time zones, once the field has the focus.
const field = document.getElementById("z");
field.addEventListener("focus", () => {
  const names = Intl.supportedValuesOf?.("timeZone") ?? [];
  document.getElementById("zones").append(...names.map((name) => new Option(name)));
}, { once: true });
