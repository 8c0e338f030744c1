"use strict";
// Episodes that can be stepped through: buttons, a slider, arrow keys and the space bar.

const players = new WeakMap();

function playerOf(box) {
  let player = players.get(box);
  if (!player) {
    const episode = JSON.parse(box.dataset.episode);
    player = { episode, at: episode.steps.length - 1, timer: null };
    players.set(box, player);
  }
  return player;
}

function show(box, at) {
  const player = playerOf(box);
  const { episode } = player;
  const last = episode.steps.length - 1;
  player.at = Math.min(Math.max(at, 0), last);
  const ended = player.at === last;
  if (episode.points) {
    const seen = episode.points.slice(0, player.at + 1);
    const [x, y] = seen[seen.length - 1];
    box.querySelector(".way").setAttribute("points", seen.map((point) => point.join()).join(" "));
    box.querySelector(".student").setAttribute("cx", x);
    box.querySelector(".student").setAttribute("cy", y);
    for (const mark of box.querySelectorAll(".rescue"))
      mark.setAttribute("visibility", mark.dataset.at <= player.at ? "visible" : "hidden");
  }
  if (episode.pictures) box.querySelector("img").src = episode.pictures[player.at];
  const rescues = episode.rescued.filter((k) => k <= player.at).length;
  const total = episode.totals[player.at];
  let said = `step ${episode.steps[player.at]}`;
  if (total !== null) said += `, return ${total.toFixed(1).replace("-", "−")}`;
  if (rescues) said += `, ${rescues} rescue${rescues === 1 ? "" : "s"} so far`;
  if (episode.rescued.includes(player.at)) said += ": rescued";
  box.querySelector(".said").textContent = ended ? episode.end : said;
  box.querySelector(".said").classList.toggle("bad", ended && episode.failed);
  box.querySelector("input").value = player.at;
  if (ended) pause(box);
}

function pause(box) {
  const player = playerOf(box);
  clearInterval(player.timer);
  player.timer = null;
  box.querySelector("[data-do=play]").textContent = "Play";
}

function play(box) {
  const player = playerOf(box);
  if (player.timer !== null) return pause(box);
  const { length } = player.episode.steps;
  if (player.at === length - 1) show(box, 0);
  const pace = Math.min(Math.max(15000 / length, 40), 300); // about 15 seconds, whatever its length
  player.timer = setInterval(() => (box.isConnected ? show(box, player.at + 1) : clearInterval(player.timer)), pace);
  box.querySelector("[data-do=play]").textContent = "Pause";
}

function act(box, what) {
  if (what === "play") return play(box);
  const { at, episode } = playerOf(box);
  pause(box);
  const to = { first: 0, back: at - 1, on: at + 1, last: episode.steps.length - 1 };
  show(box, to[what]);
}

document.addEventListener("click", ({ target }) => {
  const button = target.closest(".replay [data-do]");
  if (button) act(button.closest(".replay"), button.dataset.do);
});
document.addEventListener("input", ({ target }) => {
  const box = target.closest(".replay");
  if (!box) return;
  pause(box);
  show(box, Number(target.value));
});
document.addEventListener("keydown", (event) => {
  const box = event.target.closest(".replay");
  const what = { ArrowLeft: "back", ArrowRight: "on", " ": "play", Home: "first", End: "last" }[event.key];
  if (!box || !what || event.target.closest("button")) return;
  event.preventDefault();
  act(box, what);
});

// On a live page any student can be asked for.
document.addEventListener("submit", async (event) => {
  if (event.target.id !== "ask-replay") return;
  event.preventDefault();
  const said = event.target.querySelector(".said");
  const button = event.target.querySelector("button");
  button.disabled = true;
  said.textContent = "Playing the episode …";
  try {
    const answer = await fetch("replay?" + new URLSearchParams(new FormData(event.target)));
    const text = await answer.text();
    if (answer.ok) document.querySelector("#replayed").innerHTML = text;
    said.textContent = answer.ok ? "" : text;
    const box = document.querySelector("#replayed .replay");
    if (answer.ok && box) show(box, 0);
  } catch {
    said.textContent = "No answer: is the server still there?";
  } finally {
    button.disabled = false;
  }
});
