"use strict";
// Keeps a page up to date. Without this script every page works; a link or a form loads it again.
(function () {
  const main = document.getElementById("main");
  const notice = document.getElementById("notice");
  if (!main || !notice || !window.EventSource) return;

  function say(words) { notice.textContent = words; }

  function open(address, onData) {
    const source = new EventSource(address + "?after=" + encodeURIComponent(main.dataset.after));
    source.onopen = function () { say(""); };
    source.onerror = function () {
      say(source.readyState === EventSource.CLOSED ? "Not live any more: reload the page." : "Connection lost: trying again.");
    };
    source.onmessage = function (message) { onData(JSON.parse(message.data), source); };
    window.addEventListener("pagehide", function () { source.close(); });
  }

  // ---- pages that follow the watcher: the content is fetched again, as the server renders it
  let timer = 0;
  function isBusy() {
    const at = document.activeElement;
    return main.contains(at) && at !== main && (at.tagName === "INPUT" || at.tagName === "BUTTON");
  }
  function refresh() {
    timer = 0;
    if (isBusy()) { say("Something has changed: reload the page to see it."); return; }
    fetch(location.href, { credentials: "same-origin" }).then(function (answer) {
      if (!answer.ok || answer.redirected) throw new Error("not served");
      return answer.text();
    }).then(function (text) {
      const fresh = new DOMParser().parseFromString(text, "text/html").getElementById("main");
      if (fresh && !isBusy()) main.replaceChildren.apply(main, Array.from(fresh.childNodes));
    }).catch(function () { say("Not live any more: reload the page."); });
  }
  if (main.dataset.live) {
    open(main.dataset.live, function () { if (!timer) timer = setTimeout(refresh, 1000); });
  }

  // ---- the table of a run: single cells are replaced
  const table = document.getElementById("matrix");
  if (main.dataset.run && table) {
    const rows = new Map(), columns = new Map();
    for (const row of table.tBodies[0].rows) rows.set(row.cells[0].textContent, row);
    Array.from(table.tHead.rows[0].cells).forEach(function (cell, place) { if (place > 1) columns.set(cell.textContent, place); });
    columns.set("", 1);
    let isOld = false;
    open(main.dataset.run, function (data, source) {
      for (const [host, step, status] of data.cells) {
        const row = rows.get(host), place = columns.get(step.split("[")[0]);
        if (!row || place === undefined) { isOld = isOld || columns.size < 60; continue; }
        row.cells[place].textContent = status;
        row.cells[place].dataset.is = status;
      }
      if (data.ended) { source.close(); document.getElementById("state").textContent = "finished"; }
      if (isOld && !timer) timer = setTimeout(function () { location.reload(); }, 3000);
    });
  }
})();
