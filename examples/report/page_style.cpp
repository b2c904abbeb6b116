// SPDX-License-Identifier: MIT
// The report's style sheet and its script, which needs a CDATA section to be XML.
#include "examples/report/page.hpp"

namespace qkgeom::examples {

const char* page_style() {
  return R"css(
:root { color-scheme: light dark; --page: #ffffff; --ink: #1d2126; --faint: #57606a; --rule: #d5dae0; --soft: #f3f5f7;
  --link: #0a56a3; --mark: #0072b2; }
@media (prefers-color-scheme: dark) {
  :root { --page: #14171a; --ink: #e4e7ea; --faint: #a2abb4; --rule: #363c43; --soft: #1d2125; --link: #83bdf5;
    --mark: #56b4e9; }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; scroll-padding-top: 1rem; }
body { margin: 0 auto; max-width: 76rem; padding: 2rem 1.25rem 4rem; background: var(--page); color: var(--ink);
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 .5rem; overflow-wrap: anywhere; }
h2 { font-size: 1.35rem; line-height: 1.25; margin: 0 0 .75rem; }
h3 { font-size: 1.05rem; margin: 2rem 0 .5rem; overflow-wrap: anywhere; }
p { margin: .25rem 0; max-width: 46rem; }
a { color: var(--link); }
nav { margin-top: 1rem; display: flex; flex-wrap: wrap; gap: .35rem 1.25rem; }
section { border-top: 1px solid var(--rule); margin-top: 2.5rem; padding-top: 1.5rem; }
#target p:first-of-type { font-size: 1.15rem; border-left: 4px solid var(--mark); padding: .35rem 0 .35rem .9rem;
  margin-bottom: .75rem; }
.scroll { overflow-x: auto; margin: .75rem 0; max-width: 100%; }
.tall { max-height: 85vh; overflow-y: auto; border: 1px solid var(--rule); }
:focus-visible { outline: 2px solid var(--mark); outline-offset: 2px; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .28rem .6rem; text-align: right; white-space: nowrap; vertical-align: baseline; }
th.words, td.words { text-align: left; }
th { font-weight: 600; }
tbody th { font-weight: 400; }
thead th { border-bottom: 1px solid var(--faint); vertical-align: bottom; }
thead td { border-bottom: 1px solid var(--faint); }
tbody + tbody tr:first-child th, tbody + tbody tr:first-child td { border-top: 1px solid var(--rule); }
.error, .unit { color: var(--faint); }
.unit { display: block; font-weight: 400; }
figure { margin: 1.5rem 0; display: grid; grid-template-columns: minmax(0, 54rem) minmax(12rem, 1fr); gap: .5rem 1.5rem; }
figcaption { color: var(--faint); font-size: .9rem; max-width: 46rem; }
.card { background: #ffffff; border: 1px solid var(--rule); margin: 0; }
.card svg { display: block; width: 100%; height: auto; min-width: 32rem; }
#head-table { width: 100%; font-size: .82rem; }
#head-table th, #head-table td { padding: .25rem .45rem; }
#head-table thead th { position: sticky; top: 0; background: var(--soft); z-index: 2; }
#head-table tbody th { position: sticky; left: 0; background: var(--page); z-index: 1; }
#head-table thead th:first-child { left: 0; z-index: 3; }
#head-table tbody tr:nth-child(even) > * { background: var(--soft); }
#head-table tbody tr:hover > * { background: var(--rule); }
thead button { all: unset; cursor: pointer; display: block; width: 100%; }
thead button .name { text-decoration: underline dotted; text-underline-offset: .2em; }
thead button:focus-visible { outline: 2px solid var(--mark); outline-offset: 2px; }
th[aria-sort="ascending"] .name::after { content: "\00a0\2191"; content: "\00a0\2191" / ""; color: var(--ink); }
th[aria-sort="descending"] .name::after { content: "\00a0\2193"; content: "\00a0\2193" / ""; color: var(--ink); }
form { display: flex; flex-wrap: wrap; gap: .6rem 1rem; align-items: baseline; margin: .5rem 0; }
form[hidden] { display: none; }
input, select, form button { font: inherit; color: inherit; background: var(--page); border: 1px solid var(--faint);
  border-radius: 3px; padding: .2rem .45rem; }
input { width: 11rem; }
output { color: var(--faint); }
dl { margin: .5rem 0; }
dl > div { display: grid; grid-template-columns: minmax(9rem, 15rem) minmax(0, 1fr); gap: 0 1.25rem; padding: .25rem 0;
  border-bottom: 1px solid var(--rule); }
dt { color: var(--faint); }
dd { margin: 0; overflow-wrap: anywhere; max-width: 52rem; }
summary { cursor: pointer; margin-top: .75rem; }
@media (max-width: 60rem) {
  figure { grid-template-columns: minmax(0, 1fr); }
}
@media (max-width: 40rem) {
  body { padding: 1.25rem .9rem 3rem; }
  h1 { font-size: 1.35rem; }
  dl > div { grid-template-columns: 1fr; }
  th, td { padding: .28rem .45rem; }
}
@media print {
  :root { --page: #ffffff; --ink: #000000; --faint: #444444; --rule: #bbbbbb; --soft: #ffffff; --link: #000000; }
  body { max-width: none; padding: 0; font-size: 10pt; }
  nav, form { display: none; }
  .scroll { overflow: visible; }
  .tall { max-height: none; border: 0; }
  .card svg { min-width: 0; }
  figure { grid-template-columns: minmax(0, 34rem); }
  figure, tr, dl > div { break-inside: avoid; }
  h2, h3 { break-after: avoid; }
  table { font-size: 8pt; }
  #head-table { font-size: 6.2pt; }
  th, td, #head-table th, #head-table td { padding: 1pt 2.5pt; }
  #head-table thead th, #head-table tbody th { position: static; }
  thead button .name { text-decoration: none; }
}
)css";
}

const char* page_script() {
  return R"js((function () {
  "use strict";
  var table = document.getElementById("head-table");
  var form = document.getElementById("head-filter");
  if (!table || !form) return;
  var body = table.tBodies[0];
  var rows = Array.from(body.rows);
  var heads = Array.from(table.tHead.rows[0].cells);
  var count = document.getElementById("head-count");

  // A cell's full value: a number, words, or null where there is none.
  function value(row, column) {
    var text = row.cells[column].getAttribute("data-value");
    if (text === null) return null;
    return text !== "" && isFinite(text) ? Number(text) : text;
  }
  function compare(a, b) {
    if (typeof a === "number" && typeof b === "number") return a - b;
    return String(a).localeCompare(String(b));
  }
  // Cells without value stay last in both directions; equal ones keep the order they had.
  function sort(column, sign) {
    var order = Array.from(body.rows).map(function (row) { return { row: row, value: value(row, column) }; });
    order.sort(function (x, y) {
      if (x.value === null || y.value === null) return (x.value === null) - (y.value === null);
      return sign * compare(x.value, y.value);
    });
    order.forEach(function (entry) { body.appendChild(entry.row); });
    heads.forEach(function (head, i) {
      head.setAttribute("aria-sort", i !== column ? "none" : sign > 0 ? "ascending" : "descending");
    });
  }
  heads.forEach(function (head, column) {
    var button = document.createElement("button");
    button.type = "button";
    while (head.firstChild) button.appendChild(head.firstChild);
    head.appendChild(button);
    head.setAttribute("aria-sort", column === 0 ? "ascending" : "none");
    var words = head.classList.contains("words");
    button.addEventListener("click", function () {
      var now = head.getAttribute("aria-sort");
      var up = now === "none" ? words : now === "descending";
      sort(column, up ? 1 : -1);
    });
  });

  function chosen(name) {
    var field = form.elements[name];
    return field ? field.value : "";
  }
  function filter() {
    var words = chosen("text").toLowerCase().split(/\s+/).filter(Boolean);
    var shown = 0;
    rows.forEach(function (row) {
      var data = row.dataset;
      var text = data.text.toLowerCase();
      var fits = words.every(function (word) { return text.indexOf(word) >= 0; }) &&
        ["layer", "class", "kind"].every(function (name) {
          var want = chosen(name);
          return want === "" || data[name] === want;
        });
      row.hidden = !fits;
      shown += fits ? 1 : 0;
    });
    count.textContent = shown + " of " + rows.length + " heads";
  }
  form.addEventListener("input", filter);
  form.addEventListener("change", filter);
  form.addEventListener("submit", function (event) { event.preventDefault(); });
  form.addEventListener("reset", function () { setTimeout(filter, 0); });
  form.hidden = false;
  filter();

  // Print what is folded too.
  window.addEventListener("beforeprint", function () {
    document.querySelectorAll("details").forEach(function (d) { d.open = true; });
  });
}());
)js";
}

}  // namespace qkgeom::examples
