"use strict";
// Tables: click a heading to sort, a button to copy. Without this script the page is complete, only still.

function sortBy(table, column, order) {
  const sign = order === "descending" ? -1 : 1;
  const value = (row) => row.cells[column].dataset.value;
  const rows = [...table.tBodies[0].rows].sort((a, b) => {
    const [x, y] = [value(a), value(b)];
    if (x === "" || y === "") return (x === "") - (y === ""); // what is missing comes last either way
    const numbers = !isNaN(x) && !isNaN(y);
    return sign * (numbers ? x - y : x.localeCompare(y));
  });
  table.tBodies[0].append(...rows);
  for (const head of table.querySelectorAll(".sorters th")) head.removeAttribute("aria-sort");
  table.querySelectorAll(".sorters th")[column].setAttribute("aria-sort", order);
}

function copied(table, form) {
  const lines = [...table.tBodies[0].rows].map((row) => row.dataset[form]);
  return [table.dataset[form + "Before"], ...lines, table.dataset[form + "After"]].filter(Boolean).join("\n") + "\n";
}

async function copy(box, form) {
  const words = copied(box.querySelector("table"), form);
  const said = box.querySelector(".said");
  box.querySelector("textarea")?.remove();
  try {
    await navigator.clipboard.writeText(words);
    said.textContent = "Copied.";
  } catch {
    const area = document.createElement("textarea");
    area.readOnly = true;
    area.rows = words.split("\n").length;
    area.textContent = words;
    box.querySelector(".tools").after(area);
    area.select();
    said.textContent = "This browser does not let the page copy: press Ctrl+C.";
  }
}

// For a page that is drawn anew: in the order that the reader has chosen.
function sortAgain(table) {
  const heads = [...table.querySelectorAll(".sorters th")];
  const column = heads.findIndex((head) => head.hasAttribute("aria-sort"));
  if (column >= 0) sortBy(table, column, heads[column].getAttribute("aria-sort"));
}

document.addEventListener("click", ({ target }) => {
  const box = target.closest("div.table");
  const head = target.closest(".sorters th");
  if (box && head) {
    const column = [...head.parentElement.children].indexOf(head);
    const order = head.getAttribute("aria-sort") === "descending" ? "ascending" : "descending";
    sortBy(box.querySelector("table"), column, order);
  } else if (box && target.closest("[data-copy]")) {
    copy(box, target.closest("[data-copy]").dataset.copy);
  }
});
document.body.dataset.ready = "yes";
