"use strict";
// Keeps a page up to date. Without this script every page works; a link or a form loads it again.
(function () {
  const main = document.getElementById("main");
  const notice = document.getElementById("notice");
  if (!main || !notice || !window.EventSource) return;

  function say(words) { notice.textContent = words; }

  // Calls onData with each event once, over any number of lost connections; onData returns false to end this.
  function follow(address, onData) {
    let last = main.dataset.after, source = null, isOver = false;
    function connect() {
      source = new EventSource(address + "?after=" + encodeURIComponent(last));
      source.onopen = function () { say(""); };
      source.onerror = function () {
        if (source.readyState !== EventSource.CLOSED) { say("Connection lost: trying again."); return; }
        say("Not live now: trying again. If this stays, reload the page.");  // refused: no browser asks again by itself
        setTimeout(connect, 10000);
      };
      source.onmessage = function (message) {
        last = message.lastEventId || last;
        if (onData(JSON.parse(message.data)) === false) end();
      };
    }
    function end() { isOver = true; source.close(); }
    window.addEventListener("pagehide", end);
    connect();
  }

  // ---- pages that follow the watcher: the content is fetched again, as the server renders it
  let timer = 0;
  function isBusy() {
    const at = document.activeElement;
    return main.contains(at) && at !== main && (at.tagName === "INPUT" || at.tagName === "BUTTON");
  }
  function replace(fresh) {
    const at = main.contains(document.activeElement) ? document.activeElement.cloneNode(false) : null;
    main.replaceChildren.apply(main, Array.from(fresh.childNodes));
    if (!at || at.id === "main") return;
    for (const each of main.querySelectorAll(at.tagName)) {  // who reads by keyboard stays at the same link
      if (each.cloneNode(false).isEqualNode(at)) { each.focus({ preventScroll: true }); return; }
    }
  }
  function refresh() {
    timer = 0;
    if (isBusy()) { say("Something has changed: reload the page to see it."); return; }
    fetch(location.href, { credentials: "same-origin" }).then(function (answer) {
      if (!answer.ok || answer.redirected) throw new Error("not served");
      return answer.text();
    }).then(function (text) {
      const fresh = new DOMParser().parseFromString(text, "text/html").getElementById("main");
      if (fresh && !isBusy()) replace(fresh);
    }).catch(function () { say("Not live any more: reload the page."); });
  }
  if (main.dataset.live) {
    follow(main.dataset.live, function () { if (!timer) timer = setTimeout(refresh, 1000); });
  }

  // ---- the table of a run: single cells are replaced, rows and columns are added
  const table = document.getElementById("matrix");
  if (!main.dataset.run || !table) return;
  const body = table.tBodies[0], head = table.tHead.rows[0], most = Number(table.dataset.most) + 2;
  const rows = new Map(), columns = new Map([["", 1]]);
  for (const row of body.rows) rows.set(row.cells[0].textContent, row);
  Array.from(head.cells).forEach(function (cell, place) { if (place > 1) columns.set(cell.textContent, place); });

  function heading(words, scope) {
    const made = document.createElement("th");
    made.scope = scope;
    made.textContent = words;
    return made;
  }
  function rowOf(host) {
    let row = rows.get(host);
    if (!row) {
      row = body.insertRow();
      row.append(heading(host, "row"));
      while (row.cells.length < head.cells.length) row.insertCell();
      rows.set(host, row);
    }
    return row;
  }
  function placeOf(step) {
    let place = columns.get(step);
    if (place === undefined && head.cells.length < most) {
      place = head.cells.length;
      head.append(heading(step, "col"));
      for (const row of body.rows) row.insertCell();
      columns.set(step, place);
    }
    return place;
  }
  function count() {
    timer = 0;
    const found = new Map();
    for (const row of body.rows) {
      const verdict = row.cells[1].textContent || "waiting";
      found.set(verdict, (found.get(verdict) || 0) + 1);
    }
    document.getElementById("totals").textContent = Array.from(found, function (each) { return each[1] + " " + each[0]; }).join(", ");
  }
  follow(main.dataset.run, function (data) {
    for (const [host, step, status] of data.cells) {
      const row = rowOf(host), place = placeOf(step);
      if (place === undefined || row.cells[place].textContent === status) continue;
      row.cells[place].textContent = status;
      row.cells[place].dataset.is = status;
    }
    if (!timer) timer = setTimeout(count, 300);
    if (!data.state) return true;
    document.getElementById("state").textContent = data.state;
    return false;
  });
})();
