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
    [...main().querySelectorAll("input:not([type=hidden]), textarea")].some((field) => field.value !== field.defaultValue) ||
    [...main().querySelectorAll("option")].some((option) => option.selected !== option.defaultSelected && option.value !== "");

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
        const answer = await fetch(location.href, { headers, redirect: "error" });
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
        if (focus) { again(focus)?.focus({ preventScroll: true }); }
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
  async function follow() {
    const place = document.querySelector("[data-output]");
    if (place && !document.hidden) {
      try {
        const answer = await fetch(place.dataset.output, { headers: { accept: "text/plain" }, redirect: "error" });
        const output = answer.ok ? await answer.text() : "";
        if (output && output !== place.textContent) {
          const isAtEnd = place.scrollTop + place.clientHeight >= place.scrollHeight - 8;
          place.textContent = output;
          if (isAtEnd) { place.scrollTop = place.scrollHeight; }
        }
      } catch { /* `refresh` tells that the server does not answer. */ }
    }
    setTimeout(follow, 1000);
  }

  if (document.body.dataset.after !== undefined) { listen(); follow(); }
})();
