"use strict";

// The page shows what the server sends, and computes nothing about apps. Texts from apps and logs are only ever set as
// textContent. The table and the log render only their visible rows; the log keeps its last lines.

const ROW = 26;
const LINE = 18;
const MOST_LINES = 20000;
const MOST_TOLD = 10;
const RETRY = 5000;

const $ = (id) => document.getElementById(id);

function element(name, kind, text) {
  const made = document.createElement(name);
  if (kind) made.className = kind;
  if (text !== undefined) made.textContent = text;
  return made;
}

function span(ms) {
  const seconds = Math.max(Math.floor(ms / 1000), 0);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${seconds % 60} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

function age(app) {
  if (app.over || app.since === null) return app.ran && `ran ${app.ran}`;
  const since = span(Date.now() - app.since);
  return app.started ? `running for ${since}` : `${since} old`;
}

// Sets a text only if it has changed, so that a selection and a tooltip stay.
function tell(node, text, hint = text) {
  if (node.textContent !== text) node.textContent = text;
  if (node.title !== hint) node.title = hint;
}

// Renders only the visible rows of a long list; all have the same height. A row that stays visible keeps its element, so
// that a click ends where it began, and selected text stays selected.
class Rows {
  constructor(box, height, { count, key, fill, follows = () => false, left = () => {} }) {
    Object.assign(this, { box, height, count, key, fill, follows });
    this.whole = box.firstElementChild;
    this.rows = new Map();
    this.wanted = false;
    this.end = 0; // where following the end has scrolled to
    box.addEventListener("scroll", () => {
      const below = box.scrollHeight - box.clientHeight - box.scrollTop;
      if (follows() && below > height && box.scrollTop < this.end) left();
      this.draw();
    });
    new ResizeObserver(() => this.draw()).observe(box);
  }

  draw() {
    if (this.wanted) return;
    this.wanted = true;
    requestAnimationFrame(() => {
      this.wanted = false;
      this.drawNow();
    });
  }

  drawNow() {
    const count = this.count();
    this.whole.style.height = `${count * this.height}px`;
    if (this.follows()) {
      this.box.scrollTop = count * this.height;
      this.end = this.box.scrollTop;
    }
    const first = Math.max(Math.floor(this.box.scrollTop / this.height) - 3, 0);
    const last = Math.min(Math.ceil((this.box.scrollTop + this.box.clientHeight) / this.height) + 3, count);
    const before = this.rows;
    this.rows = new Map();
    for (let index = first; index < last; index++) {
      const key = this.key(index);
      const row = before.get(key) || element("div");
      before.delete(key);
      this.fill(row, index);
      row.style.top = `${index * this.height}px`;
      this.rows.set(key, row);
    }
    for (const row of before.values()) row.remove();
    let next = this.whole.firstElementChild;
    for (const row of this.rows.values()) {
      if (row === next) next = next.nextElementSibling;
      else this.whole.insertBefore(row, next);
    }
  }

  show(index) {
    const top = index * this.height;
    if (top < this.box.scrollTop) this.box.scrollTop = top;
    const bottom = top + this.height - this.box.clientHeight;
    if (bottom > this.box.scrollTop) this.box.scrollTop = bottom;
    this.draw();
  }
}

// The table

const apps = new Map();
const chosen = new Set();
let most = 1000; // apps that may be selected, as the server says
let order = [];
let at = "";
let detail = null;

const ORDERS = {
  attention: (a, b) => a.order - b.order || b.created - a.created || (a.handle < b.handle ? -1 : 1),
  newest: (a, b) => b.created - a.created || (a.handle < b.handle ? -1 : 1),
  name: (a, b) => (a.app < b.app ? -1 : a.app > b.app ? 1 : 0),
};

function stateClass(state) {
  return /^[A-Z]+$/.test(state) ? state : "other";
}

function fillStrip(box, app) {
  const squares = app.strip.map(([state, count, name]) => {
    const part = element("span", `fill ${stateClass(state)}`);
    part.style.flex = String(count);
    part.title = `${name} ${state}`;
    return part;
  });
  box.replaceChildren(...squares);
  box.hidden = !squares.length;
}

function fillApp(row, index) {
  const app = order[index];
  if (!row.firstElementChild) {
    row.setAttribute("role", "option");
    row.dataset.handle = app.handle;
    const replicas = element("span");
    replicas.append(element("span", "strip"), element("span"));
    row.append(element("span"), element("span"), replicas, element("span"), element("span"));
  }
  row.className = app.handle === at ? "row at" : "row";
  row.setAttribute("aria-selected", String(chosen.has(app.handle)));
  const [name, state, replicas, how, reason] = row.children;
  tell(how, age(app));
  if (row.app === app) return;
  row.app = app;
  tell(name, app.app, app.name && app.session ? `${app.app}: ${app.name} of ${app.session}` : app.app);
  state.className = `dot ${stateClass(app.state)}`;
  tell(state, app.state);
  fillStrip(replicas.firstElementChild, app);
  tell(replicas.lastElementChild, app.replicas);
  tell(reason, app.reason);
}

const table = new Rows($("table"), ROW, { count: () => order.length, key: (index) => order[index].handle, fill: fillApp });

function arrange() {
  const wanted = $("filter").value.toLowerCase();
  const state = $("states").value;
  order = [...apps.values()].filter(
    (app) =>
      (!state || (state === "open" ? !app.over : app.state === state)) &&
      (!wanted || `${app.app} ${app.name} ${app.reason}`.toLowerCase().includes(wanted)),
  );
  order.sort(ORDERS[$("sort").value]);
  $("shown").textContent = order.length === apps.size ? "" : `showing ${order.length} of ${apps.size}`;
  table.draw();
}

function showChosen() {
  const open = [...chosen].filter((handle) => apps.has(handle) && !apps.get(handle).over);
  const full = chosen.size >= most ? ", which is the limit" : "";
  $("chosen").textContent = chosen.size ? `${chosen.size} selected${full}` : "";
  $("cancel").disabled = !open.length;
  table.draw();
}

function choose(handle, keep) {
  if (!keep) chosen.clear();
  if (keep && chosen.has(handle)) chosen.delete(handle);
  else add([handle]);
  at = handle;
  changeLog();
}

function add(handles) {
  for (const handle of handles) {
    if (chosen.size >= most) break;
    chosen.add(handle);
  }
}

// Selects the rows from the current one to this one.
function chooseTo(handle) {
  const from = order.findIndex((app) => app.handle === at);
  const to = order.findIndex((app) => app.handle === handle);
  add(order.slice(Math.max(Math.min(from, to), 0), Math.max(from, to) + 1).map((app) => app.handle));
  at = handle;
  changeLog();
}

function chooseAll() {
  chosen.clear();
  add(order.map((app) => app.handle));
  changeLog();
}

function changeLog() {
  showChosen();
  connect();
  showDetail();
}

$("table").addEventListener("click", (event) => {
  const row = event.target.closest(".row");
  if (row && event.shiftKey) chooseTo(row.dataset.handle);
  else if (row) choose(row.dataset.handle, event.ctrlKey || event.metaKey);
});

$("table").addEventListener("keydown", (event) => {
  const step = { ArrowUp: -1, ArrowDown: 1, PageUp: -20, PageDown: 20 }[event.key];
  const now = order.findIndex((app) => app.handle === at);
  if (step && order.length) {
    const index = Math.min(Math.max(now + step, 0), order.length - 1);
    at = order[index].handle;
    table.show(index);
  } else if ((event.key === "Enter" || event.key === " ") && now >= 0) {
    choose(at, event.key === " ");
  } else if (event.key === "a" && (event.ctrlKey || event.metaKey)) {
    chooseAll();
  } else if (event.key === "Escape" && chosen.size) {
    chosen.clear();
    changeLog();
  } else {
    return;
  }
  event.preventDefault();
});

for (const id of ["filter", "states", "sort"]) $(id).addEventListener("input", arrange);

// One app

async function showDetail() {
  const handle = chosen.size === 1 ? [...chosen][0] : "";
  detail = handle;
  if (!handle) {
    $("detail").hidden = true;
    return;
  }
  const answer = await fetch(`api/app?handle=${encodeURIComponent(handle)}`).catch(() => null);
  const told = answer && (await answer.json().catch(() => null));
  if (!told || detail !== handle) return;
  const facts = [told.error || [told.app, told.state, age(told), told.reason].filter(Boolean).join("  ")];
  for (const group of told.groups || []) facts.push(`${group.name}  ${group.state}  ${group.why}`);
  if (told.other_groups) facts.push(`and ${told.other_groups} more groups`);
  $("facts").textContent = facts.join("\n");
  const bars = [];
  for (const [name, state, start, length] of (told.time && told.time.bars) || []) {
    const bar = element("div", "bar");
    const fill = element("i", `fill ${stateClass(state)}`);
    fill.style.left = `${start * 100}%`;
    fill.style.width = `${Math.max(length * 100, 0.3)}%`;
    fill.title = `${name} ${state}`;
    bar.append(element("span", "", name), fill);
    bars.push(bar);
  }
  if (told.time && told.time.others) bars.push(element("div", "", `and ${told.time.others} more`));
  if (bars.length) bars.unshift(element("div", "", `replicas over ${told.time.took}`));
  $("time").replaceChildren(...bars);
  $("detail").hidden = false;
}

// The log

let lines = [];
let first = 0; // the number of the first kept line
let hits = [];
let hit = -1;
let missed = 0;
let ended = false;

function fillLine(row, index) {
  const line = lines[index];
  if (!row.firstElementChild) {
    const from = chosen.size > 1 ? `${line.app}/${line.from} ` : `${line.from} `;
    if (line.from) row.append(element("span", "from", from));
    row.append(element("span", line.stream === "stderr" ? "err" : "", line.text));
    if (line.at) row.title = new Date(line.at).toLocaleString();
  }
  const found = !hits.length || !isHit(line) ? "" : hits[hit] === first + index ? " now" : " hit";
  row.className = `line${line.kind ? ` ${line.kind}` : ""}${found}`;
}

const log = new Rows($("log"), LINE, {
  count: () => lines.length,
  key: (index) => lines[index],
  fill: fillLine,
  follows: () => $("follow").checked,
  left: () => ($("follow").checked = false),
});

function isHit(line) {
  const wanted = $("search").value.toLowerCase();
  return wanted !== "" && line.text.toLowerCase().includes(wanted);
}

function addLines(told) {
  missed += told.missed;
  if (told.missed) {
    lines.push({ text: `${told.missed} lines are missing: the server no longer had them`, kind: "gap" });
  }
  for (const line of told.lines) {
    if (isHit(line)) hits.push(first + lines.length);
    lines.push(line);
  }
  const surplus = lines.length - MOST_LINES;
  if (surplus > 0) {
    lines = lines.slice(surplus);
    first += surplus;
    const gone = hits.findIndex((number) => number >= first);
    const dropped = gone < 0 ? hits.length : gone;
    hits = hits.slice(dropped);
    hit = Math.max(hit - dropped, hits.length ? 0 : -1);
    if (!$("follow").checked) $("log").scrollTop -= surplus * LINE;
  }
  tellLog();
}

function clearLog() {
  lines = [];
  first = 0;
  hits = [];
  hit = -1;
  missed = 0;
  tellLog();
}

function tellLog() {
  $("count").textContent = lines.length ? first > 0 ? `the last ${lines.length} of ${first + lines.length} lines` : `${lines.length} lines` : "";
  $("hits").textContent = $("search").value ? `${hits.length ? hit + 1 : 0}/${hits.length}` : "";
  log.draw();
}

function search() {
  hits = [];
  lines.forEach((line, index) => isHit(line) && hits.push(first + index));
  hit = hits.length - 1;
  showHit();
}

function showHit() {
  if (hits.length) {
    $("follow").checked = false;
    log.show(hits[hit] - first);
  }
  tellLog();
}

function turn(step) {
  if (!hits.length) return;
  hit = (hit + step + hits.length) % hits.length;
  showHit();
}

$("search").addEventListener("input", search);
$("search").addEventListener("keydown", (event) => event.key === "Enter" && turn(event.shiftKey ? 1 : -1));
$("previous").addEventListener("click", () => turn(-1));
$("next").addEventListener("click", () => turn(1));
$("follow").addEventListener("change", tellLog);

// Cancel

$("cancel").addEventListener("click", () => {
  const open = [...chosen].filter((handle) => apps.has(handle) && !apps.get(handle).over);
  const names = open.slice(0, MOST_TOLD).map((handle) => apps.get(handle).app);
  if (open.length > MOST_TOLD) names.push(`and ${open.length - MOST_TOLD} more`);
  $("asked").textContent = `Cancel ${open.length === 1 ? "this app" : `these ${open.length} apps`}?\n\n${names.join("\n")}`;
  $("question").returnValue = "";
  $("yes").onclick = () => {
    $("question").close();
    cancel(open);
  };
  $("question").showModal();
});
$("no").addEventListener("click", () => $("question").close());

// Sends a request with a body, and returns the answer; null if there is none.
async function post(path, body) {
  const headers = { "Content-Type": "application/json" };
  const answer = await fetch(path, { method: "POST", headers, body: JSON.stringify(body) }).catch(() => null);
  return answer && (await answer.json().catch(() => null));
}

async function cancel(handles) {
  const told = await post("api/cancel", { handles });
  if (!told) $("notes").textContent = "cannot cancel: the server does not answer";
  else if (told.error) $("notes").textContent = told.error;
  else {
    const failed = Object.entries(told.failed).map(([handle, why]) => `${handle}: ${why}`);
    const others = failed.splice(MOST_TOLD).length;
    if (others) failed.push(`and ${others} more`);
    $("notes").textContent = failed.join("\n");
  }
}

// The stream

let source = null;
let last = "";
let again = 0;
let joining = 0; // counts the connections that were begun
let renewed = false; // whether the selection was sent again, and the stream was not accepted since

function tellLink(text, broken) {
  $("link").textContent = text;
  $("link").className = broken ? "broken" : "";
}

// Many handles do not fit into the address of a stream, so the server is told of them first.
async function connect() {
  if (source) source.close();
  source = null;
  clearTimeout(again);
  const mine = ++joining;
  const query = new URLSearchParams();
  if (chosen.size) {
    const told = await post("api/selections", { handles: [...chosen] });
    if (mine !== joining) return;
    if (!told || told.error) {
      refused(told && told.error);
      return;
    }
    query.set("selection", told.selection);
  }
  if (last) query.set("after", last);
  listen(new EventSource(`api/events?${query}`));
}

function listen(mine) {
  source = mine;
  const on = (kind, act) =>
    mine.addEventListener(kind, (event) => {
      if (mine !== source) return;
      last = event.lastEventId;
      act(JSON.parse(event.data));
    });
  on("log", (told) => {
    most = told.most;
    renewed = false;
    if (told.anew) clearLog();
    if (told.apps_anew) apps.clear();
    const [one] = chosen;
    const whose = chosen.size === 1 ? (apps.has(one) ? apps.get(one).app : "one app") : `${chosen.size} apps`;
    $("title").textContent = chosen.size ? `log of ${whose}` : "log: no app selected";
    tellLink("live");
  });
  on("apps", (told) => {
    if (told.anew) apps.clear();
    let isShown = false;
    for (const app of told.apps) {
      isShown = isShown || app.handle === detail;
      if (app.gone) apps.delete(app.handle);
      else apps.set(app.handle, app);
    }
    $("summary").textContent = told.all.summary;
    const parts = told.all.bar.map(([state, cells]) => {
      const part = element("span", `fill ${stateClass(state)}`);
      part.style.flex = String(cells);
      part.title = state;
      return part;
    });
    $("bar").replaceChildren(...parts);
    arrange();
    showChosen();
    if (isShown) showDetail();
  });
  on("notes", (told) => ($("notes").textContent = told.join("\n")));
  on("lines", addLines);
  on("end", () => {
    mine.close();
    ended = true;
    tellLink("all apps have ended");
  });
  mine.onerror = () => {
    if (mine !== source) return;
    const isRefused = mine.readyState === EventSource.CLOSED;
    const isForgotten = isRefused && chosen.size > 0 && !renewed; // perhaps: the server keeps the latest selections
    tellLink(`connection lost; ${isForgotten ? "selecting the apps again" : "reconnecting"}`, true);
    if (isForgotten) {
      renewed = true;
      connect();
    } else if (isRefused) refused();
  };
}

// A browser does not retry a refused stream: another request finds out why it was refused.
async function refused(why) {
  if (ended) {
    tellLink("all apps have ended");
    return;
  }
  const mine = joining;
  const answer = await fetch("./", { method: "HEAD" }).catch(() => null);
  if (mine !== joining) return;
  if (!answer) tellLink("the server does not answer; trying again", true);
  else if (answer.status === 401) tellLink("no access any more: start asyncsched web again and open its new address", true);
  else tellLink(why || "the server refused the stream: too many pages or logs are open; trying again", true);
  again = setTimeout(connect, RETRY);
}

setInterval(() => table.draw(), 1000);
connect();
