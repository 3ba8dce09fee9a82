
"use strict";
// Everything that a host has said gets into the page as the text of a node, never as markup.
(function () {
  const record = JSON.parse(document.getElementById("record").textContent);
  const run = record.run, texts = record.texts;
  const hosts = record.hosts.slice().sort((a, b) => (a.r || 0) - (b.r || 0));
  const text = (number) => texts[number || 0];
  const CHUNK = 150;

  const STATUS = {
    ok: ["\u2713", "good", "ok"], changed: ["C", "change", "changed"], would_change: ["W", "change", "would change"],
    failed: ["F", "bad", "failed"], timeout: ["T", "bad", "timeout"], skipped: ["\u2013", "quiet", "skipped"], blocked: ["B", "doubt", "blocked"],
    drifted: ["D", "bad", "drifted"], unknown: ["?", "doubt", "unknown"], unreachable: ["U", "bad", "unreachable"],
    cancelled: ["X", "doubt", "cancelled"], owed: ["O", "bad", "clean-up owed"],
  };
  const WORST = ["failed", "timeout", "unknown", "unreachable", "drifted", "owed", "blocked", "cancelled", "would_change", "changed", "ok", "skipped"];
  const VERDICT = {
    unreachable: "bad", cancelled: "doubt", not_started: "doubt", drifted: "bad", failed: "bad", unknown: "doubt",
    planned: "change", unresolved: "bad", resolved: "good", healthy: "good",
  };
  const SEVERITY = { critical: "bad", error: "bad", warning: "doubt", info: "quiet" };
  const words = (name) => name.replace(/_/g, " ");

  function make(tag, name, content) {
    const node = document.createElement(tag);
    if (name) node.className = name;
    if (content !== undefined) node.textContent = content;
    return node;
  }
  function add(parent, ...children) {
    for (const child of children) if (child) parent.append(child);
    return parent;
  }
  function press(label, name, action) {
    const button = make("button", name, label);
    button.type = "button";
    button.addEventListener("click", action);
    return button;
  }
  function plural(number, noun) { return number + " " + noun + (number === 1 ? "" : noun.endsWith("s") ? "es" : "s"); }
  function took(seconds) {
    if (!seconds) return "";
    if (seconds < 10) return String(Math.round(seconds * 10) / 10) + " s";
    if (seconds < 120) return Math.round(seconds) + " s";
    return Math.floor(seconds / 60) + " min " + Math.round(seconds % 60) + " s";
  }
  const badge = (word, colour) => make("span", "badge " + (colour || "quiet"), words(word));
  const list = (lines, tag) => add(make(tag || "ul"), ...lines.map((line) => make("li", "", line)));

  // hosts by their names; many names are folded away behind their number
  function named(it) {
    if (it.h.length <= 100) return [make("span", "hosts", it.h), it.n > 1 ? make("span", "soft", plural(it.n, "host")) : null];
    const box = add(make("details", "names"), make("summary", "", plural(it.n, "host")), make("span", "", it.h));
    return [box];
  }
  function advice(lines, now) {
    if (!lines.length) return [];
    if (now) return [make("h3", "", "what to do"), list(lines, "ol")];
    return [add(make("details"), make("summary", "", "what to do if this stays"), list(lines, "ol"))];
  }

  // what is shown: kept behind the # of the address, so that a filtered page can be sent to somebody
  const chosen = { q: "", verdict: "", finding: "", cause: "" };
  const opened = new Set();
  function readAddress() {
    const given = new URLSearchParams(location.hash.slice(1));
    for (const key of Object.keys(chosen)) chosen[key] = given.get(key) || "";
    opened.clear();
    given.getAll("open").forEach((name) => opened.add(name));
    if (given.get("theme")) document.documentElement.dataset.theme = given.get("theme");
  }
  function writeAddress() {
    const now = new URLSearchParams();
    for (const key of Object.keys(chosen)) if (chosen[key]) now.set(key, chosen[key]);
    opened.forEach((name) => now.append("open", name));
    const theme = document.documentElement.dataset.theme;
    if (theme) now.set("theme", theme);
    try { history.replaceState(null, "", "#" + now); } catch (error) { /* a frame that allows no history */ }
  }

  // the head
  function head() {
    const top = make("div", "title");
    add(top, make("h1", "", run.playbook), press("light / dark", "", () => {
      const dark = getComputedStyle(document.documentElement).colorScheme === "dark";
      document.documentElement.dataset.theme = dark ? "light" : "dark";
      writeAddress();
    }));
    const facts = make("dl", "facts");
    const fact = (name, value) => add(facts, make("dt", "", name), typeof value === "string" ? make("dd", "", value) : add(make("dd"), value));
    fact("mode", run.mode === "plan" ? "plan: nothing was changed" : run.mode);
    fact("run", run.run);
    fact("started", run.started + ", took " + run.took);
    fact("result", run.exit);
    const inputs = list(run.inputs.map((it) => it[0] + " = " + it[1]));
    if (run.inputs.length > 5) fact("inputs", add(make("details"), make("summary", "", plural(run.inputs.length, "input")), inputs));
    else if (run.inputs.length) fact("inputs", inputs);
    if (run.limits.length) fact("limits", list(run.limits.map((it) => it.replace(/^limits: /, "").trim())));
    if (run.leftOut.length) fact("left out", list(run.leftOut.map((it) => it[0] + ": " + it[1])));
    const chips = make("div", "chips");
    run.totals.forEach(([verdict, count]) => {
      const chip = press(count + " " + words(verdict), "badge " + VERDICT[verdict], () => choose("verdict", chosen.verdict === verdict ? "" : verdict));
      chip.dataset.verdict = verdict;
      chips.append(chip);
    });
    if (!run.totals.length) chips.append(make("span", "soft", "no host"));
    add(document.getElementById("head"), top, facts, chips);
  }

  function section(name, title) {
    const it = document.getElementById(name);
    it.hidden = false;
    return add(it, make("h2", "", title));
  }
  function causes() {
    const wrong = run.causes.filter((it) => it.v !== "resolved");  // those come last
    if (!wrong.length) return;
    const place = section("causes", "What is wrong, the worst first");
    const cards = wrong.map((cause, number) => {
      const card = make("div", "card");
      const first = cause.l[0].startsWith(cause.v + ": ") ? cause.l[0].slice(cause.v.length + 2) : cause.l[0];
      add(card, add(make("div", "line"), badge(cause.v, VERDICT[cause.v]), ...named(cause)));
      add(card, make("p", "", first), ...cause.l.slice(1).map((line) => make("p", "next", line)));
      return add(card, press("show " + (cause.n > 1 ? "these hosts" : "this host"), "plainlink", () => { choose("cause", String(number + 1)); toHosts(); }));
    });
    few(place, cards, 12, "more causes");
  }
  function owed() {
    if (!run.owed.length) return;
    const place = section("owed", "Clean-ups that are owed");
    few(place, run.owed.map((it) => add(make("div", "card"), add(make("div", "line"), ...named(it)),
      ...it.l.map((line) => make("p", "", line)))), 12, "more");
  }
  function findings() {
    if (!run.findings.length) return;
    const place = section("findings", "Findings");
    const order = ["critical", "error", "warning", "info"], state = ["present", "unknown", "gone"];
    const weight = (it) => 10 * state.indexOf(it.st) + order.indexOf(it.sev);
    const kinds = new Map();
    run.findings.forEach((it) => { const key = [it.st, it.sev, it.id].join("\n"); kinds.set(key, (kinds.get(key) || []).concat(it)); });
    const cards = [...kinds.values()].sort((a, b) => weight(a[0]) - weight(b[0])).map((group) => {
      const it = group[0], card = make("div", "card"), many = group.reduce((sum, one) => sum + one.n, 0);
      add(card, add(make("div", "line"), badge(it.sev, it.st === "present" ? SEVERITY[it.sev] : "quiet"), make("b", "", it.id),
        it.st === "present" ? null : badge(it.st, it.st === "unknown" ? "doubt" : "good"), make("span", "soft", plural(many, "host"))));
      few(card, group.map((one) => add(make("div", "line"), ...named({ h: one.h, n: 1 + (one.h.length > 100) * (one.n - 1) }), make("span", "", one.say))), 5, "more");
      if (it.st === "present") add(card, ...advice(it.adv, group.some((one) => one.now)));
      if (it.ev.length) add(card, add(make("details"), make("summary", "", "evidence on " + it.on), list(it.ev)));
      return add(card, press("show hosts with " + it.id, "plainlink", () => { choose("finding", it.id); toHosts(); }));
    });
    few(place, cards, 20, "more findings");
  }
  function few(place, nodes, most, words) {
    add(place, ...nodes.slice(0, most));
    if (nodes.length <= most) return;
    const rest = press((nodes.length - most) + " " + words, "", () => rest.replaceWith(...nodes.slice(most)));
    add(place, rest);
    addEventListener("beforeprint", () => { if (rest.isConnected) rest.click(); });
  }

  // hosts by steps
  let frame, body, count, search, selects = {}, shown = [], drawn = 0, watcher;
  function toHosts() { document.getElementById("hosts").scrollIntoView(); }
  function hostsTable() {
    const place = section("hosts", "Hosts and steps");
    search = make("input");
    search.type = "search";
    search.placeholder = "search hosts, steps, findings and reasons";
    search.setAttribute("aria-label", search.placeholder);
    search.addEventListener("input", () => choose("q", search.value));
    const names = [...new Set(run.findings.map((it) => it.id))].sort();
    const tools = add(make("div", "tools"), search,
      select("verdict", "every verdict", run.totals.map((it) => [it[0], words(it[0])])),
      select("finding", "every finding", names.map((it) => [it, it])),
      select("cause", "every cause", run.causes.map((it, number) => [String(number + 1), it.l[0].slice(0, 60)])),
      count = make("span", "soft"));
    count.setAttribute("aria-live", "polite");
    const used = new Set(hosts.flatMap((host) => (host.p || []).map((step) => step.s)));
    const legend = make("div", "legend");
    WORST.filter((it) => used.has(it)).forEach((it) => add(legend, add(make("span"), cell(it), STATUS[it][2])));
    const row = add(make("tr"), make("th", "host", "host"), make("th", "", "verdict"));
    run.columns.forEach(([phase, name], number) => {
      const title = make("span", "", name), th = add(make("th", "step" + firstOfPhase(number)), title);
      th.title = phase + ": " + name;
      th.scope = "col";
      row.append(th);
    });
    add(row, make("th", "took", "time"), make("th", "why", "why"));
    body = make("tbody");
    frame = add(make("div", "frame"), add(make("table"), add(make("thead"), row), body));
    frame.tabIndex = 0;
    add(place, tools, legend, frame);
    const fit = () => frame.style.setProperty("--frame", frame.clientWidth + "px");
    new ResizeObserver(fit).observe(frame);
    fit();
    watcher = new IntersectionObserver((seen) => { if (seen.some((it) => it.isIntersecting)) draw(CHUNK); }, { root: frame, rootMargin: "600px" });
    addEventListener("beforeprint", () => draw(shown.length));
  }
  function firstOfPhase(number) {
    return number && run.columns[number][0] !== run.columns[number - 1][0] ? " first-of-phase" : "";
  }
  function select(key, all, options) {
    const box = make("select");
    box.setAttribute("aria-label", key);
    [["", all], ...options].forEach(([value, label]) => { const it = make("option", "", label); it.value = value; box.append(it); });
    box.addEventListener("change", () => choose(key, box.value));
    selects[key] = box;
    box.hidden = !options.length;
    return box;
  }
  function cell(status) {
    const [sign, colour, word] = STATUS[status], it = make("span", "cell " + colour, sign);
    it.setAttribute("aria-hidden", "true");
    it.title = word;
    return it;
  }
  // what the command of `runbook exec` printed, which is what was asked for
  function printed(host) {
    const sent = run.playbook === "exec" ? (host.p || []).flatMap((it) => it.c || []) : [];
    return sent.map((it) => (text(it.o) + "\n" + text(it.e)).trim()).join("\n");
  }
  function haystack(host) {
    if (host.hay === undefined) {
      const said = [host.h, words(host.v), text(host.e)];
      (host.f || []).forEach((it) => said.push(run.findings[it.g - 1].id, text(it.say)));
      (host.p || []).forEach((it) => said.push(text(it.i), text(it.w), STATUS[it.s][2]));
      (host.o || []).forEach((it) => said.push(text(it)));
      said.push(printed(host));
      host.hay = said.join("\n").toLowerCase();
    }
    return host.hay;
  }
  function fits(host, wanted) {
    return (!chosen.verdict || host.v === chosen.verdict) && (!chosen.cause || String(host.c) === chosen.cause)
      && (!chosen.finding || (host.f || []).some((it) => run.findings[it.g - 1].id === chosen.finding))
      && wanted.every((word) => haystack(host).includes(word));
  }
  function choose(key, value) {
    chosen[key] = value;
    writeAddress();
    show();
  }
  function show() {
    const wanted = chosen.q.toLowerCase().split(/\s+/).filter(Boolean);
    shown = hosts.filter((host) => fits(host, wanted));
    if (search.value !== chosen.q) search.value = chosen.q;
    for (const key of Object.keys(selects)) selects[key].value = chosen[key];
    document.querySelectorAll(".chips button").forEach((it) => it.setAttribute("aria-pressed", String(it.dataset.verdict === chosen.verdict)));
    count.textContent = shown.length === hosts.length ? plural(hosts.length, "host") : shown.length + " of " + plural(hosts.length, "host");
    body.replaceChildren();
    drawn = 0;
    const last = shown.reduce((most, host, number) => opened.has(host.h) ? number + 1 : most, 0);
    draw(Math.max(CHUNK, last));
    if (!shown.length) body.append(add(make("tr"), add(make("td"), make("div", "none", hosts.length ? "no host fits" : "no host"))));
  }
  function draw(more) {
    watcher.disconnect();
    const rows = document.createDocumentFragment();
    shown.slice(drawn, drawn + more).forEach((host) => hostRow(host).forEach((row) => rows.append(row)));
    drawn = Math.min(shown.length, drawn + more);
    body.append(rows);
    if (drawn < shown.length) watcher.observe(body.lastElementChild);
  }
  function hostRow(host) {
    const row = make("tr", "host-row"), by = new Map();
    (host.p || []).forEach((step) => by.set(step.k - 1, (by.get(step.k - 1) || []).concat(step)));
    const name = press(host.h, "plainlink", () => {
      const open = !opened.has(host.h);
      if (open) { opened.add(host.h); row.after(details(host)); } else { opened.delete(host.h); row.nextSibling.remove(); }
      name.setAttribute("aria-expanded", String(open));
      writeAddress();
    });
    name.setAttribute("aria-expanded", String(opened.has(host.h)));
    name.title = host.h;
    add(row, add(make("td", "host"), name), add(make("td", "word"), badge(host.v, VERDICT[host.v])));
    run.columns.forEach(([, id], number) => {
      const td = make("td", "step" + firstOfPhase(number)), steps = by.get(number);
      if (steps) {
        const worst = steps.map((it) => it.s).sort((a, b) => WORST.indexOf(a) - WORST.indexOf(b))[0];
        const sign = cell(worst);
        sign.setAttribute("aria-hidden", "false");
        sign.setAttribute("role", "img");
        sign.setAttribute("aria-label", id + ": " + STATUS[worst][2]);
        sign.title = id + ": " + STATUS[worst][2];
        td.append(sign);
      }
      row.append(td);
    });
    const why = host.c ? run.causes[host.c - 1].l[0] : "";
    const found = (host.f || []).filter((it) => run.findings[it.g - 1].st !== "gone").map((it) => run.findings[it.g - 1].id + ": " + text(it.say));
    const brief = text(host.e) || why.slice(why.startsWith(host.v + ": ") ? host.v.length + 2 : 0) || found.join("; ") || printed(host).slice(0, 300);
    add(row, make("td", "took", took(host.t)), add(make("td", "why"), make("span", "", brief)));
    return opened.has(host.h) ? [row, details(host)] : [row];
  }

  // one host
  function details(host) {
    const inner = make("div", "inner");
    if (host.e) add(inner, make("p", "", text(host.e)));
    (host.o || []).forEach((it) => add(inner, make("p", "card", text(it))));
    const found = (host.f || []).map((it) => [it, run.findings[it.g - 1]]);
    found.forEach(([own, it]) => {
      const line = add(make("p"), badge(it.sev, it.st === "present" ? SEVERITY[it.sev] : "quiet"), " ", make("b", "", it.id),
        it.st === "present" ? "" : " (" + it.st + ")", ": " + text(own.say));
      add(inner, line);
      if (own.ev) add(inner, list(own.ev.map(text)));
      if (it.st === "present") add(inner, ...advice(it.adv, it.now));
    });
    if (host.a) add(inner, make("p", "soft", plural(host.a, "finding") + " absent"));
    const steps = host.p || [];
    if (steps.length) {
      const ends = host.q ? steps.map((it) => (it.b || 0) + (it.t || 0)) : [steps.reduce((sum, it) => sum + (it.t || 0), 0)];
      const all = Math.max(host.t || 0, ...ends) || 1;
      add(inner, make("h3", "", host.q ? "Timeline over " + took(all) + ": each step when it ran" : "Timeline: steps in their order, each as long as it took"));
      if (host.q && steps.some((it) => it.u && it.t)) add(inner, make("p", "soft", "Pale bars: only how long it took is known, not when it began; probes run at the same time."));
      let at = 0;
      steps.forEach((step) => { inner.append(stepLine(step, (host.q ? step.b || 0 : at) / all, (step.t || 0) / all, host.q && !step.u ? step.b || 0 : null)); at += step.t || 0; });
    }
    if (steps.length === 1) inner.querySelector("details.step").open = true;
    const row = make("tr", "more"), td = add(make("td"), inner);
    td.colSpan = run.columns.length + 4;
    return add(row, td);
  }
  function stepLine(step, at, length, began) {
    const [, colour, word] = STATUS[step.s];
    const bar = make("div", "bar " + colour);
    if (step.t) {
      const part = make("i", step.u ? "unsure" : "");
      if (began !== null) bar.title = "began after " + (took(began) || "0 s");
      part.style.left = Math.min(98, 100 * at) + "%";
      part.style.width = 100 * length + "%";
      bar.append(part);
    }
    const summary = add(make("summary"), cell(step.s), make("span", "", text(step.i)), bar, make("span", "took", took(step.t)),
      make("span", "said", word + (text(step.w) ? ": " + text(step.w) : "")));
    const box = add(make("details", "step"), summary);
    box.addEventListener("toggle", () => { if (box.open && box.childElementCount === 1) box.append(stepBody(step)); });
    return box;
  }
  function stepBody(step) {
    const place = make("div", "step-body");
    add(place, make("p", "soft", (text(step.n) ? text(step.n) + "; " : "") + run.columns[step.k - 1][0] + "; " + text(step.x)));
    if (step.v) add(place, make("h3", "", plural(step.v.length, "process")), make("pre", "", step.v.map(text).join("\n")));
    if (step.d) add(place, make("h3", "", "difference"), make("pre", "", text(step.d)));
    (step.c || []).forEach((it) => {
      add(place, make("h3", "", text(it.x) + (it.t ? ", " + took(it.t) : "")), make("pre", "", text(it.l)));
      if (it.o) add(place, make("p", "soft", "stdout"), make("pre", "", text(it.o)));
      if (it.e) add(place, make("p", "soft", "stderr"), make("pre", "", text(it.e)));
      if (it.k && run.scripts[it.k] !== undefined) {
        const more = add(make("details"), make("summary", "", "the script that was sent"));
        more.addEventListener("toggle", () => { if (more.childElementCount === 1) more.append(make("pre", "", text(run.scripts[it.k]))); });
        place.append(more);
      }
    });
    return place;
  }

  readAddress();
  head();
  causes();
  owed();
  hostsTable();
  findings();
  show();
  if (opened.size) body.querySelector("tr.more")?.previousSibling.scrollIntoView();
  addEventListener("hashchange", () => { readAddress(); show(); });
  document.documentElement.dataset.ready = "yes";
})();
