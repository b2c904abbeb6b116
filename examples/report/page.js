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

  // A head, drawn from the page's data: opened from the map or the table, left for a neighbour by the arrow keys.
  var data = JSON.parse(document.getElementById("head-data").textContent);
  var colours = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9"];
  var view = document.createElement("section"), now = 0, from = null;
  view.id = "head-view";
  view.hidden = true;
  view.tabIndex = -1;
  document.getElementById("overview").after(view);
  function add(parent, tag, attributes, text) {
    var svg = parent.namespaceURI.endsWith("svg") || tag === "svg";
    var e = document.createElementNS(svg ? "http" + "://www.w3.org/2000/svg" : parent.namespaceURI, tag);
    Object.keys(attributes || {}).forEach(function (name) { e.setAttribute(name, attributes[name]); });
    if (text !== undefined) e.textContent = text;
    parent.appendChild(e);
    return e;
  }
  var width = 420, height = 270, left = 54, bottom = 232, right = 408, top = 12;
  // Axes over [x0, x1] and [y0, y1] with numbers at their ends and halves; returns where a point stands.
  function axes(parent, words, x0, x1, y0, y1, xname, yname) {
    var figure = add(parent, "figure");
    var svg = add(figure, "svg", { viewBox: "0 0 " + width + " " + height, role: "img", "aria-label": words });
    function x(v) { return left + (right - left) * (v - x0) / (x1 - x0); }
    function y(v) { return bottom - (bottom - top) * (v - y0) / (y1 - y0); }
    function words_of(v) { return String(Number(v.toPrecision(3))); }
    [0, 0.5, 1].forEach(function (part) {
      var a = x0 + part * (x1 - x0), b = y0 + part * (y1 - y0);
      add(svg, "path", { d: "M" + left + " " + y(b) + "H" + right, class: "grid" });
      add(svg, "text", { x: x(a), y: bottom + 16, "text-anchor": part === 1 ? "end" : "middle" }, words_of(a));
      add(svg, "text", { x: left - 6, y: y(b) + 4, "text-anchor": "end" }, words_of(b));
    });
    add(svg, "text", { x: (left + right) / 2, y: height - 6, "text-anchor": "middle" }, xname);
    add(svg, "text", { x: 12, y: (top + bottom) / 2, "text-anchor": "middle",
      transform: "rotate(-90 12 " + (top + bottom) / 2 + ")" }, yname);
    add(figure, "figcaption", {}, words);
    return { svg: svg, x: x, y: y };
  }
  function colour_of(v) {
    var last = data.colours.length - 1, at = last * Math.max(0, Math.min(1, v)), i = Math.min(last - 1, Math.floor(at));
    return "color-mix(in srgb, " + data.colours[i] + ", " + data.colours[i + 1] + " " + 100 * (at - i) + "%)";
  }
  function draw_profile(head) {
    var names = Object.keys(head.profiles);
    var a = axes(view.plots, "Plasticity along the context, by query model; bars: one standard error", 0, data.context,
      0, 1, "position of the query, tokens", "plasticity");
    names.forEach(function (name, i) {
      var line = head.profiles[name], colour = colours[i % colours.length];
      add(a.svg, "path", { fill: "none", stroke: colour, "stroke-width": 1.6, d: line.map(function (p, j) {
        return (j ? "L" : "M") + a.x(p[0]) + " " + a.y(p[1]);
      }).join("") + line.map(function (p) {
        return p[2] === null ? "" : "M" + a.x(p[0]) + " " + a.y(p[1] - p[2]) + "V" + a.y(p[1] + p[2]);
      }).join("") });
      add(a.svg, "text", { x: right - 4, y: top + 14 + 15 * i, "text-anchor": "end", style: "fill:" + colour }, name);
    });
  }
  function draw_plane(head) {
    var all = { x: [], y: [] };
    head.plane.forEach(function (side) { ["x", "y"].forEach(function (c) { all[c] = all[c].concat(side[c]); }); });
    function least(c) { return Math.min.apply(null, all[c]); }
    function most(c) { return Math.max(Math.max.apply(null, all[c]), least(c) + 1e-9); }
    var a = axes(view.plots, "Some queries (blue) and keys (orange) in the plane of drift and separation; later ones are fuller",
      least("x"), most("x"), least("y"), most("y"), "drift axis a", "separation axis b");
    head.plane.forEach(function (side, i) {
      side.x.forEach(function (x, j) {
        add(a.svg, "circle", { cx: a.x(x), cy: a.y(side.y[j]), r: 2.6, fill: colours[i],
          "fill-opacity": 0.15 + 0.75 * side.t[j] / data.context });
      });
    });
  }
  function draw_heatmap(head) {
    var map = head.heatmap, end = map.cell * map.rows.length;
    var a = axes(view.plots, "Plasticity by the distance of two keys and of the query, first query model; violet 0, yellow 1",
      0, end, 0, end, "distance of the query, tokens", "distance of the keys, tokens");
    map.rows.forEach(function (row, i) {
      row.forEach(function (v, j) {
        if (v !== null) add(a.svg, "rect", { x: a.x(j * map.cell), y: a.y((i + 1) * map.cell), fill: colour_of(v),
          width: a.x(map.cell) - a.x(0) + 0.3, height: a.y(0) - a.y(map.cell) + 0.3 });
      });
    });
  }
  function open_head(i) {
    var head = data.heads[now = i], row = document.getElementById("head-" + head.name);
    view.textContent = "";
    view.hidden = false;
    add(view, "h2", {}, "Head " + head.name);
    add(view, "p", { class: "hint" }, "Left and right: the next head; up and down: the next layer; Escape: back.");
    view.plots = add(view, "div", { class: "plots" });
    draw_profile(head);
    if (head.plane) draw_plane(head);
    if (head.heatmap) draw_heatmap(head);
    var list = add(view, "dl", { class: "numbers" });
    heads.forEach(function (name, column) {
      if (column === 0) return;
      var one = add(list, "div");
      add(one, "dd", {}, row.cells[column].textContent);
      add(one, "dt", {}, Array.from(name.querySelectorAll("span")).map(function (s) { return s.textContent; }).join(" "));
    });
    add(view, "p").innerHTML = "What holds for all heads stands in the <a href=\"#notes\">notes</a>.";
    document.querySelectorAll("#head-map a").forEach(function (a, k) { a.classList.toggle("shown", k === i); });
    history.replaceState(null, "", "#view-" + head.name);
    view.scrollIntoView({ block: "nearest" });
    view.focus({ preventScroll: true });
  }
  function number_of(begin, hash) { return data.heads.findIndex(function (h) { return begin + h.name === hash; }); }
  document.querySelectorAll("#head-map a, #head-table tbody th a").forEach(function (link) {
    link.addEventListener("click", function (event) {
      event.preventDefault();
      from = link;
      open_head(number_of("#head-", link.getAttribute("href")));
    });
  });
  // "#head-..." is the row of the table, to which the browser itself goes.
  if (number_of("#view-", location.hash) >= 0) open_head(number_of("#view-", location.hash));
  // The head of another layer that stands nearest.
  function beside(step) {
    var layers = data.heads.map(function (h) { return h.layer; });
    var wanted = layers.filter(function (l) { return step * (l - layers[now]) > 0; });
    if (wanted.length === 0) return now;
    var layer = step > 0 ? Math.min.apply(null, wanted) : Math.max.apply(null, wanted), best = now;
    data.heads.forEach(function (h, i) {
      function away(k) { return Math.abs(data.heads[k].head - data.heads[now].head); }
      if (h.layer === layer && (best === now || away(i) < away(best))) best = i;
    });
    return best;
  }
  view.addEventListener("keydown", function (event) {
    var last = data.heads.length - 1;
    if (event.key === "ArrowRight") open_head(Math.min(last, now + 1));
    else if (event.key === "ArrowLeft") open_head(Math.max(0, now - 1));
    else if (event.key === "ArrowDown") open_head(beside(1));
    else if (event.key === "ArrowUp") open_head(beside(-1));
    else if (event.key === "Escape") { view.hidden = true; if (from) from.focus(); }
    else return;
    event.preventDefault();
  });

  // Print what is folded too.
  window.addEventListener("beforeprint", function () {
    document.querySelectorAll("details").forEach(function (d) { d.open = true; });
  });
}());
