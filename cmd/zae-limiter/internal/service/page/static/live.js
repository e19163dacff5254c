// Reads the balances of a page again while somebody looks at it. Without this script, the page is read again
// by hand, and has everything.
"use strict";

const part = document.querySelector("[data-live]");
const seconds = 5;

async function refresh() {
  if (document.hidden || part.contains(document.activeElement)) return;
  const answer = await fetch(part.dataset.live, { credentials: "same-origin" });
  if (!answer.ok) throw new Error(answer.statusText);
  const read = new DOMParser().parseFromString(await answer.text(), "text/html");
  part.replaceChildren(...read.body.childNodes);
}

async function loop() {
  for (;;) {
    await new Promise((wake) => setTimeout(wake, seconds * 1000));
    try {
      await refresh();
      part.removeAttribute("aria-busy");
    } catch {
      part.setAttribute("aria-busy", "true"); // what it shows is old
    }
  }
}

if (part) loop();
