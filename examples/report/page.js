(function () {
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
