// Keeps a page as the log is: asks for it again when something happened, and puts what came in its place.
"use strict";
(() => {
  const main = () => document.querySelector("main");
  const names = (document.body.dataset.events || "").split(" ").filter(Boolean);
  const state = document.querySelector("#live");
  let last = Number(document.body.dataset.after || 0);
  let source = null, asked = false, busy = false, whole = false;

  // What somebody is about to write is never taken away.
  const isWritten = () =>
    [...main().querySelectorAll("input:not([type=hidden]), textarea")].some((field) => !field.closest("[data-search]") && field.value !== field.defaultValue) ||
    [...main().querySelectorAll("option")].some((option) => !option.closest("[data-search]") && option.selected !== option.defaultSelected && option.value !== "");

  // What can be scrolled in itself, in the order of the page.
  const scrolled = () => [...main().querySelectorAll(".scroll, pre.tall")];

  // The same thing on the new page: by its id, or by where it leads.
  const again = (thing) => thing.id
    ? document.getElementById(thing.id)
    : [...main().querySelectorAll("a")].find((link) => thing.hasAttribute("href") && link.getAttribute("href") === thing.getAttribute("href"));

  const parts = (where) => [...where.querySelectorAll("[data-part], [data-same]")];

  // Puts what is new in its place. False where a part is missing that should be here.
  const put = (next) => {
    const now = main(), here = parts(now), there = parts(next);
    const known = new Map(here.map((part) => [part.dataset.part, part]));
    if (there.some((part) => part.dataset.same && !known.has(part.dataset.same))) { return false; }
    const meant = (part) => part.dataset.same ? known.get(part.dataset.same).cloneNode(true) : document.adoptNode(part);
    if (next.dataset.frame && next.dataset.frame === now.dataset.frame && here.length === there.length) {
      const moved = there.map((part, at) => (part.dataset.same || part.dataset.part) === here[at].dataset.part ? null : meant(part));
      moved.forEach((part, at) => { if (part) { here[at].replaceWith(part); } });
      now.dataset.version = next.dataset.version;
    } else {
      // What is the same goes along as it is; a second of its kind is made after it.
      const page = document.adoptNode(next), gone = new Set();
      for (const part of there.filter((part) => part.dataset.same)) {
        const old = known.get(part.dataset.same);
        part.replaceWith(gone.has(old) ? old.cloneNode(true) : old);
        gone.add(old);
      }
      now.replaceWith(page);
    }
    return true;
  };

  // A page that shows one of several things says which one, so that no other takes its place.
  const place = () => main().querySelector("[data-place]")?.dataset.place || location.href;

  const say = (text) => {
    if (!state || state.textContent === text) { return; }
    state.textContent = text;
    state.classList.toggle("live", text === "live");
  };

  async function refresh() {
    if (busy) { asked = true; return; }
    busy = true;
    do {
      asked = false;
      try {
        const headers = { accept: "text/html" };
        if (main().dataset.version && !whole) { headers["x-provost-page"] = main().dataset.version; }
        whole = false;
        const answer = await fetch(place(), { headers, redirect: "error" });
        const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
        const next = fresh.querySelector("main");
        if (!next || !answer.ok) { continue; }
        if (isWritten()) { say("changed: open the page again"); continue; }
        const open = new Set([...main().querySelectorAll("details[open][id]")].map((part) => part.id));
        const scroll = window.scrollY;
        for (const part of next.querySelectorAll("details[id]")) {
          if (open.has(part.id)) { part.open = true; }
        }
        const places = scrolled().map((part) => [part.scrollLeft, part.scrollTop]);
        const focus = document.activeElement && main().contains(document.activeElement) ? document.activeElement : null;
        if (!put(next)) { whole = asked = true; continue; }
        scrolled().forEach((part, at) => { if (places[at]) { [part.scrollLeft, part.scrollTop] = places[at]; } });
        const count = fresh.querySelector("#waiting");
        const shown = document.querySelector("#waiting");
        if (count && shown) { shown.replaceWith(count); }
        const caret = focus?.selectionStart;
        if (focus && focus !== document.activeElement) {
          const field = again(focus);
          if (field && field !== focus && "value" in field) { field.value = focus.value; }
          field?.focus({ preventScroll: true });
          if (typeof caret === "number" && field?.setSelectionRange) { field.setSelectionRange(caret, caret); }
        }
        window.scrollTo({ top: scroll });
        say("live");
      } catch { say("the server does not answer"); }
    } while (asked);
    busy = false;
  }

  function listen() {
    const wanted = new URLSearchParams(document.body.dataset.filter || "");
    wanted.set("after", String(last));
    source = new EventSource("/api/events?" + wanted);
    source.onopen = () => say("live");
    const heard = (event) => {
      last = Math.max(last, Number(event.lastEventId) || 0);
      refresh();
    };
    for (const name of names) { source.addEventListener(name, heard); }
    const anew = () => {
      source.close();
      say("connecting");
      setTimeout(listen, 1000);
    };
    source.addEventListener("behind", anew);
    source.onerror = () => { if (source.readyState === EventSource.CLOSED) { anew(); } else { say("connecting"); } };
  }

  // What an agent says is no event, so it is asked for while it is shown.
  let shown = "";
  async function follow() {
    const output = document.querySelector("[data-output]");
    if (output && !document.hidden) {
      try {
        const answer = await fetch(output.dataset.output, { headers: { accept: "text/html" }, redirect: "error" });
        const text = answer.ok ? await answer.text() : "";
        if (text && text !== shown) {
          output.replaceChildren(...new DOMParser().parseFromString(text, "text/html").body.childNodes);
          shown = text;
        }
        search(output);
      } catch { /* `refresh` tells that the server does not answer. */ }
    }
    await showBusy();
    setTimeout(follow, 1000);
  }

  // What provost is busy with is no event either.
  async function showBusy() {
    const line = document.querySelector("[data-busy]");
    if (!line || document.hidden) { return; }
    try {
      const answer = await fetch(line.dataset.busy, { headers: { accept: "text/html" }, redirect: "error" });
      const text = new DOMParser().parseFromString(answer.ok ? await answer.text() : "", "text/html").body.textContent;
      if (text !== line.textContent) { line.textContent = text; }
    } catch { /* `refresh` tells that the server does not answer. */ }
  }

  // Hides the lines without the searched words, and keeps the end in sight.
  function search(output) {
    const [find, end] = [document.querySelector("#find"), document.querySelector("#follow")];
    const words = find.value.toLowerCase();
    for (const line of output.children) { line.hidden = words !== "" && !line.textContent.toLowerCase().includes(words); }
    if (end.checked) { output.scrollTop = output.scrollHeight; }
  }
  document.addEventListener("input", (event) => {
    const output = document.querySelector("[data-output]");
    if (output && event.target.id === "find") { search(output); }
  });

  if (document.body.dataset.after !== undefined) { listen(); follow(); }
})();
