"use strict";
// The page follows a run: it hears which sections there are, and asks for those that it does not have. Elements stay
// where they are and only what is different in them is changed, so that what was opened, sorted or played stays so.

const USERS = ["open", "aria-sort"]; // attributes that are the reader's

function keyOf(node) {
  return node.nodeType === Node.ELEMENT_NODE ? node.dataset.key : undefined;
}

function matches(old, fresh) {
  return old.nodeName === fresh.nodeName && keyOf(old) === keyOf(fresh);
}

function morph(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    return;
  }
  if (fresh.dataset.keep && fresh.dataset.keep === old.dataset.keep) return;
  for (const { name } of [...old.attributes])
    if (!fresh.hasAttribute(name) && !USERS.includes(name)) old.removeAttribute(name);
  for (const { name, value } of [...fresh.attributes])
    if (old.getAttribute(name) !== value && !USERS.includes(name)) old.setAttribute(name, value);
  morphChildren(old, fresh);
}

function morphChildren(old, fresh) {
  const keyed = new Map([...old.childNodes].filter(keyOf).map((node) => [keyOf(node), node]));
  let here = old.firstChild;
  for (const child of [...fresh.childNodes]) {
    const known = keyed.get(keyOf(child));
    if (known && known !== here && known.nodeName === child.nodeName) {
      old.insertBefore(known, here);
      morph(known, child);
    } else if (here && matches(here, child)) {
      morph(here, child);
      here = here.nextSibling;
    } else {
      old.insertBefore(child, here);
    }
  }
  while (here) {
    const next = here.nextSibling;
    here.remove();
    here = next;
  }
}

// What is at the top of the window stays there, whatever happens above it. Where it was is remembered until the reader
// scrolls: windows scroll by whole pixels, and rounding would add up.
let place = null;
let scrolledTo = null;

function lookedAt() {
  const chain = [];
  if (scrollY > 0)
    for (let at = document.elementFromPoint(innerWidth / 2, 1); at && at !== document.body; at = at.parentElement)
      chain.push([at, at.getBoundingClientRect().top]);
  return chain;
}

function keepingPlace(change) {
  place ??= lookedAt();
  change();
  const anchor = place.find(([at]) => at.isConnected);
  if (!anchor) return;
  scrollBy({ top: anchor[0].getBoundingClientRect().top - anchor[1], behavior: "instant" });
  scrolledTo = scrollY;
}

function forgetPlace() {
  if (scrolledTo === null || Math.abs(scrollY - scrolledTo) >= 1) place = null;
}

document.addEventListener("scroll", forgetPlace);
addEventListener("resize", () => (place = null));
document.addEventListener("toggle", () => (place = null), true);

function fill(section, html) {
  const fresh = document.createElement("div");
  fresh.className = "body";
  fresh.innerHTML = html;
  keepingPlace(() => {
    morph(section.querySelector(".body"), fresh);
    section.querySelectorAll("table.sortable").forEach(sortAgain);
  });
}

function arrange(told) {
  const main = document.querySelector("main");
  const nav = document.querySelector("nav");
  const replay = nav.querySelector('[href="#replay"]');
  const links = told.sections.map(({ key, heading }) => {
    const link = document.createElement("a");
    link.href = "#" + key;
    link.textContent = heading;
    return link;
  });
  if (replay) links.push(replay);
  const there = new Map([...main.children].map((section) => [section.id, section]));
  keepingPlace(() => {
    if ([...nav.children].map((a) => a.href).join() !== links.map((a) => a.href).join()) nav.replaceChildren(...links);
    told.sections.forEach(({ key, heading }, place) => {
      let section = there.get(key);
      if (!section) {
        section = document.createElement("section");
        section.id = key;
        const title = document.createElement("h2");
        title.textContent = heading;
        const body = document.createElement("div");
        body.className = "body";
        section.append(title, body);
      }
      there.delete(key);
      if (main.children[place] !== section) main.insertBefore(section, main.children[place] ?? null);
    });
    for (const gone of there.values()) gone.remove();
  });
  document.title = told.title + ": live";
  document.querySelector("h1").textContent = told.title;
  document.querySelector(".lead").textContent = told.lead;
  document.querySelector("#problem").textContent = told.problem;
}

async function fetchSection(key) {
  const answer = await fetch("section?key=" + encodeURIComponent(key));
  const section = document.getElementById(key);
  if (!answer.ok || !section) return;
  fill(section, await answer.text());
  section.dataset.digest = answer.headers.get("ETag").replaceAll('"', "");
}

let latest = null;
let busy = false;

async function catchUp() {
  if (busy || document.hidden) return;
  busy = true;
  try {
    while (latest) {
      const told = latest;
      latest = null;
      arrange(told);
      for (const { key, digest } of told.sections)
        if (document.getElementById(key)?.dataset.digest !== digest) await fetchSection(key);
      say(told.running ? "running" : "ended", told.at);
      document.body.dataset.updates = Number(document.body.dataset.updates ?? 0) + 1;
    }
  } catch {
    say("lost");
  } finally {
    busy = false;
  }
}

function say(what, at) {
  const words = { running: "Running", ended: "Nothing is running", lost: "No connection: trying again" };
  const state = document.querySelector("#state");
  state.dataset.state = what;
  if (at) state.dataset.at = new Date(at * 1000).toLocaleTimeString();
  state.textContent = words[what] + (state.dataset.at ? `; as of ${state.dataset.at}` : "");
}

// Browsers open six connections to a server, for all of its pages together, and a page that nobody sees need not be
// drawn: a stream is open while its page is shown.
let events = null;

function listen() {
  if (events || document.hidden) return;
  events = new EventSource("events");
  events.addEventListener("message", (event) => {
    latest = JSON.parse(event.data);
    catchUp();
  });
  events.addEventListener("error", () => {
    say("lost");
    if (events?.readyState !== EventSource.CLOSED) return;
    events = null; // refused, for now
    setTimeout(listen, 5000);
  });
}

function stopListening() {
  events?.close();
  events = null;
}

listen();
document.addEventListener("visibilitychange", () => {
  if (document.hidden) return stopListening();
  listen();
  catchUp();
});
