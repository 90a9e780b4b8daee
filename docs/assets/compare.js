// The page Compare: chooses servers, and draws a reader's results.json
// beside the reference. Everything happens here in the browser.
//
// Charts and tables follow the rules of tools/site/charts.py and tables.py,
// number by number: tests/site/test_overlay.py compares what this draws,
// node for node, with a site built with the same results.
(() => {
  const root = document.querySelector(".seven-compare");
  if (!root) return;
  const rules = JSON.parse(root.querySelector("script").textContent);

  // --- Numbers, written as Python writes them ---------------------------

  // format(value, ".2f"): to the nearest, a tie to the even digit.
  const fixed = (value, digits) => {
    const halves = value * 2 ** (digits + 1);
    if (!Number.isSafeInteger(halves) || halves % 2 === 0) {
      return value.toFixed(digits);
    }
    // A tie: twice the value with all its digits is an odd whole number.
    const below = (BigInt(halves) * 5n ** BigInt(digits) - 1n) / 2n;
    const text = String(below + (below % 2n)).padStart(digits + 1, "0");
    if (digits === 0) return text;
    return `${text.slice(0, -digits)}.${text.slice(-digits)}`;
  };

  // format(value, ",.2f")
  const grouped = (value, digits) => {
    const [whole, part] = fixed(value, digits).split(".");
    const commas = whole.replace(/\B(?=(\d{3})+$)/g, ",");
    return part === undefined ? commas : `${commas}.${part}`;
  };

  const trimmed = (text) =>
    text.includes(".") ? text.replace(/\.?0+$/, "") : text;

  // format(value, ".6g")
  const general = (value, digits = 6) => {
    if (value === 0) return "0";
    if (value < 0) return `-${general(-value, digits)}`;
    const [figures, power] = value.toExponential(digits - 1).split("e");
    if (power < -4 || power >= digits) {
      const [sign, tens] = [power[0], power.slice(1).padStart(2, "0")];
      return `${trimmed(figures)}e${sign}${tens}`;
    }
    return trimmed(fixed(value, digits - 1 - power));
  };

  // By their names in tools/site/figures.py.
  const writers = {
    rate: (v) =>
      v < 10 ? fixed(v, 2) : v < 1000 ? fixed(v, 1) : grouped(v, 0),
    count: (v) => grouped(v, Number.isInteger(v) ? 0 : 1),
    milliseconds: (v) => `${grouped(v, v < 0.1 ? 3 : v < 10 ? 2 : 0)} ms`,
    latency: (v) => (v < 1 ? "under 1 ms" : `${grouped(v, 0)} ms`),
    cores: (v) => fixed(v, 2),
    megabytes: (v) =>
      v / 1e6 >= 100 ? `${grouped(v / 1e6, 0)} MB` : `${fixed(v / 1e6, 1)} MB`,
    percent: (v) => `${fixed(Math.min(Math.trunc(v * 1000) / 10, 100), 1)} %`,
    times: (v) =>
      v < 2 ? fixed(v, 2) : v < 10 ? fixed(v, 1) : grouped(v, 0),
    microseconds: (v) => `${grouped(v * 1000, 1)} µs`,
    seconds: (v) => `${grouped(v, v < 100 ? 1 : 0)} s`,
    size: (v) => `${grouped(v, 0)} bytes`,
  };
  const writer = (figure) => writers[rules.writers[figure]];

  // --- Figures of a point, as tools/results.py has them -----------------

  const has = (object, key) => Object.prototype.hasOwnProperty.call(object, key);

  const possible = (point) =>
    point.delay ? point.clients / point.delay : null;

  const figureOf = (run, name) => {
    const cpu = (run.cpu_user ?? 0) + (run.cpu_system ?? 0);
    const measured = (run.cpu_user ?? null) !== null;
    if (rules.latencies.includes(name)) return run.latency_ms?.[name] ?? null;
    if (name === "cpu_ms") {
      return measured && run.requests ? (1000 * cpu) / run.requests : null;
    }
    if (name === "cores") {
      return measured && run.seconds ? cpu / run.seconds : null;
    }
    if (name === "calls_per_request") {
      const calls = Object.values(run.system_calls ?? {});
      if (!calls.length || !run.requests) return null;
      return calls.reduce((sum, each) => sum + each, 0) / run.requests;
    }
    if (has(run.extra ?? {}, name)) return run.extra[name];
    return rules.numbers.includes(name) ? run[name] ?? null : null;
  };

  const good = (point) => point.runs.filter((run) => (run.error ?? null) === null);

  const values = (point, name) =>
    good(point).map((run) => figureOf(run, name)).filter((v) => v !== null);

  const median = (found) => {
    if (!found.length) return null;
    const sorted = [...found].sort((a, b) => a - b);
    const middle = sorted.length >> 1;
    if (sorted.length % 2) return sorted[middle];
    return (sorted[middle - 1] + sorted[middle]) / 2;
  };

  const value = (point, name) => {
    if (name === "cpu_us") return value(point, "cpu_ms");
    if (name === "possible") return possible(point);
    if (name === "share") {
      const rate = value(point, "requests_per_second");
      const most = possible(point);
      return rate === null || most === null ? null : rate / most;
    }
    if (name === "failures") {
      const runs = good(point);
      if (!runs.length) return null;
      return runs.reduce(
        (sum, run) => sum + (run.failed ?? 0) + (run.non_2xx ?? 0), 0,
      );
    }
    return median(values(point, name));
  };

  // Lowest and highest run; null for fewer than two.
  const spread = (point, name) => {
    if (name === "cpu_us") return spread(point, "cpu_ms");
    if (name === "possible" || name === "failures") return null;
    if (name === "share") {
      const rates = spread(point, "requests_per_second");
      const most = possible(point);
      return rates && most !== null ? rates.map((rate) => rate / most) : null;
    }
    const found = values(point, name);
    return found.length > 1 ? [Math.min(...found), Math.max(...found)] : null;
  };

  const find = (run, server, suite, clients) =>
    run?.points.find(
      (point) =>
        point.server === server && point.suite === suite &&
        (clients === null || point.clients === clients),
    ) ?? null;

  // --- HTML and SVG, as tools/site/svg.py and tables.py write them ------

  const ESCAPES = {
    "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;",
  };
  const escape = (text) => String(text).replace(/[&<>"']/g, (c) => ESCAPES[c]);

  const element = (name, attributes, content = "") => {
    const text = Object.entries(attributes)
      .map(([key, each]) => ` ${key}="${escape(each)}"`).join("");
    return `<${name}${text}>${content}</${name}>`;
  };
  const words = (content, attributes) =>
    element("text", attributes, escape(content));
  const line = (attributes) => element("line", attributes);
  const percent = (part) => `${trimmed(fixed(100 * part, 3))}%`;
  const at = (x, y, content) => {
    const place = { x, y: general(y), width: 1, height: 1 };
    return element("svg", { ...place, overflow: "visible" }, content);
  };

  const chart = (id, title, description, height, content, kind) =>
    element(
      "svg",
      {
        class: `seven-svg seven-svg--${kind}`, width: "100%",
        height: general(height), role: "img",
        "aria-labelledby": `${id}-title ${id}-desc`,
      },
      element("title", { id: `${id}-title` }, escape(title)) +
        element("desc", { id: `${id}-desc` }, escape(description)) + content,
    );

  const ticks = (top) => {
    const raw = top / 4;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 2.5, 5, 10].map((s) => s * power).find((s) => s >= raw);
    const count = Math.trunc(top / step + 1e-9) + 1;
    return Array.from({ length: count }, (_, i) => i * step);
  };

  const powers = (low, high, base) => {
    const first = Math.ceil(Math.log(low) / Math.log(base) - 1e-9);
    const last = Math.floor(Math.log(high) / Math.log(base) + 1e-9);
    const count = Math.max(0, last - first + 1);
    return Array.from({ length: count }, (_, i) => base ** (first + i));
  };

  const legend = (keys) =>
    element("p", { class: "seven-legend" }, keys.map(([kind, text]) =>
      `<span><span class="seven-key seven-key--${kind}"></span>` +
      `${escape(text)}</span>`).join(""));

  // What is inside a <table>. The first cell of a row is its heading.
  const inTable = (head, body, servers = []) => {
    const top = head.map((cell) => `<th scope="col">${escape(cell)}</th>`);
    const rows = body.map(([heading, ...cells], number) =>
      element(
        "tr", servers[number] ? { "data-server": servers[number] } : {},
        `<th scope="row">${heading}</th>` +
          cells.map((cell) => `<td>${cell}</td>`).join(""),
      ));
    return `<thead><tr>${top.join("")}</tr></thead>` +
      `<tbody>${rows.join("")}</tbody>`;
  };

  // --- Bars -------------------------------------------------------------

  const ofPoint = (point, name) => ({
    value: value(point, name), spread: spread(point, name),
    reason: point.reason ?? "",
  });

  const rectangle = (found, told, top, y, height, kind) => {
    if (found.value === null) {
      const reason = found.reason || "not measured";
      return words(`${rules.dash} ${reason}`, {
        x: 0, y: general(y + height - 2), class: "seven-value",
      });
    }
    let end = found.value;
    let drawn = element("rect", {
      class: `seven-${kind}`, x: 0, y: general(y), height,
      width: percent(found.value / top),
    });
    if (found.spread) {
      end = Math.max(end, found.spread[1]);
      const [x1, x2] = found.spread.map((v) => percent(v / top));
      const middle = y + height / 2;
      const across = general(middle);
      drawn += line({ class: "seven-spread", x1, x2, y1: across, y2: across });
      for (const x of [x1, x2]) {
        drawn += line({
          class: "seven-spread", x1: x, x2: x,
          y1: general(middle - 3), y2: general(middle + 3),
        });
      }
    }
    const limit = told.possible;
    if (limit !== null && limit * 0.6 < end && end < limit) end = limit;
    const text = writer(told.figure)(found.value);
    const label = words(text + (kind === "own" ? " yours" : ""), {
      x: 7, y: general(height / 2 + 4), class: "seven-value",
    });
    return drawn + at(percent(end / top), y, label);
  };

  const bar = (row, told, top, y) => {
    const marked = row.server === told.mark;
    const name = `${row.server}  ${row.title}`;
    let drawn = words(marked ? `${rules.mark} ${name}` : name, {
      x: 0, y: general(y + 15),
      class: `seven-label${marked ? " seven-label--mark" : ""}`,
    });
    const kind = marked ? "mark" : "bar";
    drawn += rectangle(row, told, top, y + 21, 14, kind);
    if (row.own) drawn += rectangle(row.own, told, top, y + 38, 10, "own");
    return element("g", { "data-server": row.server }, drawn);
  };

  const tick = (name, each) => {
    if (name === "share") return `${fixed(100 * each, 0)} %`;
    const shown = name === "peak_memory" ? each / 1e6 : each;
    return shown < 1000 ? general(shown, 4) : grouped(shown, 0);
  };

  const barGrid = (name, top, plot) => ticks(top).map((each) => {
    const x = percent(each / top);
    return line({ class: "seven-grid", x1: x, x2: x, y1: 0, y2: plot }) +
      words(tick(name, each), {
        x, y: plot + 17, "text-anchor": each === 0 ? "start" : "middle",
        class: "seven-tick",
      });
  }).join("");

  const barTable = (rows, told, withOwn) => {
    const write = (each) =>
      each === null || each === undefined
        ? rules.dash : writer(told.figure)(each);
    const head = ["Server", told.axis, "Lowest run", "Highest run"];
    if (withOwn) head.push("Yours");
    const body = rows.map((row) => {
      const cells = [
        row.server, write(row.value), write(row.spread?.[0]),
        write(row.spread?.[1]),
      ];
      if (withOwn) cells.push(write(row.own?.value));
      return cells.map(escape);
    });
    return inTable(head, body, rows.map((row) => row.server));
  };

  const barsOf = (id, told, run, chosen) => {
    const rows = told.rows.map((row) => {
      const own = find(run, row.server, told.suite, told.clients);
      return { ...row, own: own && ofPoint(own, told.figure) };
    });
    const known = rows.flatMap((row) => [row, row.own])
      .filter((found) => found && found.value !== null)
      .flatMap((found) => [found.value, ...(found.spread ?? [])]);
    const top = Math.max(...known, told.possible ?? 0) || 1;
    const withOwn = rows.some((row) => row.own);
    const shown = rows.filter((row) => chosen.has(row.server));
    const step = rules.row + (withOwn ? rules.ownRow : 0);
    const plot = 4 + step * shown.length;
    let drawing = barGrid(told.figure, top, plot);
    if (told.possible !== null) {
      const x = percent(told.possible / top);
      drawing += line({ class: "seven-possible", x1: x, x2: x, y1: 0, y2: plot });
    }
    const said = [];
    const sentence = (row, who, found) => {
      const how = found.value === null
        ? found.reason || "not measured" : writer(told.figure)(found.value);
      said.push(`${row.server} ${who}${how};`);
    };
    shown.forEach((row, number) => {
      drawing += bar(row, told, top, 4 + number * step);
      sentence(row, "", row);
      if (row.own) sentence(row, "yours ", row.own);
    });
    const keys = [["bar", "reference"]];
    if (told.mark !== null) keys.unshift(["mark", `${rules.mark} this step`]);
    if (withOwn) keys.push(["own", "yours"]);
    if (rows.some((row) => row.spread)) {
      keys.push(["spread", "slowest to fastest run"]);
    }
    if (told.possible !== null) {
      keys.push(["possible", "possible: clients / delay"]);
    }
    return {
      legend: legend(keys), notes: "", some: shown.length > 0,
      drawing: chart(
        id, told.title, said.join(" "), plot + rules.axis, drawing, "bars",
      ),
      table: barTable(shown, told, withOwn),
    };
  };

  // --- The sweep --------------------------------------------------------

  const answered = (points) => points.filter((point) => point.rate > 0);

  class Axes {
    constructor(lines) {
      const points = lines.flatMap(
        (each) => answered([...each.points, ...each.own]),
      );
      const rates = points.map((point) => point.rate);
      const ideal = points.map(possible).filter((most) => most);
      const all = [...rates, ...ideal];
      this.clients = Math.max(2, ...points.map((point) => point.clients));
      this.low = (all.length ? Math.min(...all) : 1) / 1.3;
      this.high = (all.length ? Math.max(...all) : 10) * 1.15;
      this.delay = points.find((point) => point.delay)?.delay ?? null;
    }

    x(clients) {
      return percent(Math.log(clients) / Math.log(this.clients));
    }

    y(rate) {
      const part =
        Math.log(rate / this.low) / Math.log(this.high / this.low);
      const y = 8 + (rules.sweepHeight - 8) * (1 - part);
      return y < 0 ? -Number(fixed(-y, 1)) : Number(fixed(y, 1));
    }

    grid() {
      const height = rules.sweepHeight;
      const [small, axis] = ["seven-tick", "seven-tick seven-axis"];
      let drawn = words("requests/s", { x: -50, y: -6, class: axis }) +
        words("clients at once", {
          x: "100%", y: height + 38, "text-anchor": "end", class: axis,
        });
      for (const rate of powers(this.low, this.high, 10)) {
        const y = this.y(rate);
        const [y1, y2] = [general(y), general(y)];
        drawn += line({ class: "seven-grid", x1: 0, x2: "100%", y1, y2 }) +
          words(grouped(rate, 0), {
            x: -12, y: general(y + 4), "text-anchor": "end", class: small,
          });
      }
      for (const clients of powers(1, this.clients, 8)) {
        const x = this.x(clients);
        drawn += line({ class: "seven-grid", x1: x, x2: x, y1: 0, y2: height }) +
          words(grouped(clients, 0), {
            x, y: height + 18, "text-anchor": "middle", class: small,
          });
      }
      return drawn;
    }

    ideal() {
      if (this.delay === null) return "";
      return line({
        class: "seven-possible",
        x1: this.x(1), y1: general(this.y(1 / this.delay)),
        x2: this.x(this.clients),
        y2: general(this.y(this.clients / this.delay)),
      });
    }
  }

  const style = (each) =>
    `seven-step${each.step}${each.variant ? " seven-variant" : ""}`;

  const sweepLine = (axes, each, points, own) => {
    const drawable = answered(points);
    let drawn = "";
    drawable.slice(1).forEach((two, number) => {
      const one = drawable[number];
      drawn += line({
        x1: axes.x(one.clients), y1: general(axes.y(one.rate)),
        x2: axes.x(two.clients), y2: general(axes.y(two.rate)),
      });
    });
    for (const point of drawable) {
      const title = `${each.server}${own ? ", yours" : ""}: ` +
        `${grouped(point.clients, 0)} clients, ` +
        `${grouped(point.rate, 0)} requests/s`;
      const mark = element(
        "path", { d: rules.shapes[each.step] },
        element("title", {}, escape(title)),
      );
      drawn += at(axes.x(point.clients), axes.y(point.rate), mark);
    }
    const kind = own ? " seven-ownline" : "";
    const attributes = { class: `seven-line ${style(each)}${kind}` };
    return element("g", { ...attributes, "data-server": each.server }, drawn);
  };

  // Each line's name at the right, kept from covering each other.
  const sweepNames = (axes, ends) => {
    const placed = ends
      .map((end) => ({ ...end, y: axes.y(end.last.rate) }))
      .sort((a, b) => a.y - b.y);
    const heights = [];
    for (const { y } of placed) {
      const above = heights.at(-1);
      heights.push(
        above === undefined ? y : Math.max(y, above + rules.labelGap),
      );
    }
    if (heights.length && heights.at(-1) > rules.sweepHeight) {
      let limit = rules.sweepHeight;
      for (let number = heights.length - 1; number >= 0; number -= 1) {
        heights[number] = Math.min(heights[number], limit);
        limit = heights[number] - rules.labelGap;
      }
    }
    return placed.map(({ each, last, y }, number) => {
      const height = heights[number];
      const key = element(
        "g",
        {
          class: `seven-line ${style(each)}`,
          transform: "translate(20 0)",
        },
        element("path", { d: rules.shapes[each.step] }),
      );
      return line({
        class: "seven-leader", x1: axes.x(last.clients), y1: general(y),
        x2: "100%", y2: general(height),
      }) + at("100%", height, key + words(
        each.server, { x: 30, y: 4, class: "seven-value" },
      ));
    }).join("");
  };

  const sweepTable = (lines) => {
    const write = writer("requests_per_second");
    const rateAt = (points, clients) => {
      const found = points.find(
        (point) => point.clients === clients && point.rate !== null,
      );
      return found ? write(found.rate) : rules.dash;
    };
    const points = lines.flatMap((each) => each.points);
    const loads = [...new Set(points.map((point) => point.clients))];
    const head = ["Clients", "Possible"];
    for (const each of lines) {
      head.push(each.server);
      if (each.own.length) head.push(`${each.server} yours`);
    }
    const body = loads.sort((a, b) => a - b).map((clients) => {
      const most = possible(points.find((point) => point.clients === clients));
      const row = [
        grouped(clients, 0), most === null ? rules.dash : write(most),
      ];
      for (const each of lines) {
        row.push(rateAt(each.points, clients));
        if (each.own.length) row.push(rateAt(each.own, clients));
      }
      return row;
    });
    return inTable(head, body);
  };

  const sweepOf = (id, told, run, chosen) => {
    const all = told.lines.map((each) => ({
      ...each,
      own: (run?.points ?? [])
        .filter((p) => p.suite === told.suite && p.server === each.server)
        .sort((a, b) => a.clients - b.clients)
        .map((point) => ({
          clients: point.clients, delay: point.delay,
          rate: value(point, "requests_per_second"),
        })),
    }));
    const axes = new Axes(all);
    const lines = all.filter((each) => chosen.has(each.server));
    const ends = lines
      .map((each) => ({ each, last: answered(each.points).at(-1) }))
      .filter((end) => end.last);
    let drawing = axes.grid() + axes.ideal();
    for (const each of lines) {
      drawing += sweepLine(axes, each, each.own, true);
      drawing += sweepLine(axes, each, each.points, false);
    }
    drawing += sweepNames(axes, ends);
    const notes = [];
    for (const { each, last } of ends) {
      if (!each.end) continue;
      const cross = element("path", { class: "seven-end", d: rules.cross });
      drawing += at(axes.x(last.clients), axes.y(last.rate), cross);
      notes.push(
        `<li><strong>${escape(each.server)}</strong> ends at ` +
        `${grouped(last.clients, 0)} clients: ${escape(each.end)}</li>`,
      );
    }
    const keys = [["ideal", "possible: clients / delay"]];
    if (all.some((each) => each.own.length)) keys.push(["ownline", "yours"]);
    if (notes.length) {
      keys.push(["end", "the line ends here, the reason is below"]);
    }
    const write = writer("requests_per_second");
    const said = ends.map(({ each, last }) =>
      `${each.server} reaches ${write(last.rate)} requests per second at ` +
      `${last.clients} clients;`);
    return {
      legend: legend(keys), some: lines.length > 0,
      notes: notes.length
        ? element("ul", { class: "seven-notes" }, notes.join("")) : "",
      drawing: chart(
        id, told.title, said.join(" "), rules.sweepHeight + 46, drawing,
        "sweep",
      ),
      table: sweepTable(lines),
    };
  };

  // --- The page ---------------------------------------------------------

  const NONE =
    '<p class="seven-none">None of the chosen servers is here.</p>';
  const kinds = { bars: barsOf, sweep: sweepOf };
  const figures = [...document.querySelectorAll("figure[data-chart]")].map(
    (node) => ({ node, told: JSON.parse(node.dataset.chart) }),
  );
  const tables = [...document.querySelectorAll("figure[data-table]")].map(
    (node) => ({ node, told: JSON.parse(node.dataset.table) }),
  );
  // As in tools/site/figures.py, but of no experiment: those have names
  // with a colon in front.
  const NAME = /^([\w.-]+?)\.([a-z-]+)(?:@(\d+))?\.([a-z_0-9]+)$/;
  const numbers = [...document.querySelectorAll("data[data-num]")]
    .filter((node) => node.dataset.num.split("/").every(
      (part) => NAME.test(part.trim()),
    ));
  const everyone = [...root.querySelectorAll(".seven-choices input")];
  const state = {
    run: rules.own, chosen: new Set(everyone.map((box) => box.value)),
  };

  // Draws a chart anew, piece by piece: the folded table stays as it is.
  const drawChart = ({ node, told }, made) => {
    node.querySelectorAll(":scope > :is(.seven-notes, .seven-none)")
      .forEach((old) => old.remove());
    node.querySelector(":scope > .seven-legend").outerHTML = made.legend;
    const none = made.some ? "" : NONE;
    node.querySelector(":scope > svg").outerHTML =
      made.drawing + made.notes + none;
    node.querySelector(":scope > details table").innerHTML = made.table;
  };

  const ownRow = (told, point) => {
    let heading = "yours";
    if (point?.reason && point.status !== "ok") {
      heading += `<br><small>${escape(point.reason)}</small>`;
    }
    const cells = told.columns.map((name) => {
      const found = point && value(point, name);
      if (found === null) return rules.dash;
      const write = writer(name);
      const ends = name === "requests_per_second" && spread(point, name);
      if (!ends) return write(found);
      return `${write(found)}<br><small>${write(ends[0])} to ` +
        `${write(ends[1])}</small>`;
    });
    return [heading, ...cells];
  };

  // Rows "yours" below those of the reference, which begin in bold.
  const drawTable = ({ node, told }, run) => {
    for (const row of node.querySelectorAll("tr[data-server]")) {
      if (!row.querySelector("th > strong")) row.remove();
    }
    if (!run) return;
    for (const row of node.querySelectorAll("tr[data-server]")) {
      const name = row.dataset.server;
      const point = find(run, name, told.suite, told.clients);
      const [heading, ...cells] = ownRow(told, point);
      row.insertAdjacentHTML("afterend", element(
        "tr", { "data-server": name },
        `<th scope="row">${heading}</th>` +
          cells.map((cell) => `<td>${cell}</td>`).join(""),
      ));
    }
  };

  // Text ends in one space before an addition and in none without it.
  const drawCaption = ({ node }, run) => {
    const caption = node.querySelector("figcaption");
    caption.querySelector(":scope > .seven-own-run")?.remove();
    caption.normalize();
    const folded = caption.querySelector(":scope > details");
    const before = folded ? folded.previousSibling : caption.lastChild;
    before.data = before.data.trimEnd() + (run ? " " : "");
    if (!run) return;
    const { machine, started, command } = run;
    before.after(document.createRange().createContextualFragment(element(
      "span", { class: "seven-own-run" },
      `Yours: ${escape(machine.cpu)}, ${machine.cores} cores, ` +
        `${escape(started.slice(0, 10))}, ` +
        `<code>${escape(command)}</code>.`,
    )));
  };

  const named = (text) => {
    const [, server, suite, clients, figure] = text.trim().match(NAME);
    return { server, suite, clients: clients ? Number(clients) : null, figure };
  };

  const numberOf = (text, run) => {
    const parts = text.split("/").map(named);
    const found = parts.map((part) => {
      const point = find(run, part.server, part.suite, part.clients);
      return point && value(point, part.figure);
    });
    if (parts.length === 1) {
      return found[0] === null ? null : writer(parts[0].figure)(found[0]);
    }
    if (found[0] === null || !found[1]) return null;
    return writers.times(found[0] / found[1]);
  };

  // The reader's number in brackets behind one in a sentence.
  const drawNumber = (node, run) => {
    if (node.nextElementSibling?.matches(".seven-yours")) {
      const old = node.nextElementSibling;
      if (old.previousSibling !== node) old.previousSibling.remove();
      old.remove();
    }
    const mine = run && numberOf(node.dataset.num, run);
    if (mine === null) return;
    const span = document.createElement("span");
    span.className = "seven-yours";
    span.textContent = `(yours ${mine})`;
    node.after(" ", span);
  };

  const drawRun = () => {
    for (const each of tables) drawTable(each, state.run);
    for (const each of [...figures, ...tables]) drawCaption(each, state.run);
    for (const node of numbers) drawNumber(node, state.run);
  };

  // Everything is computed before anything is changed.
  const drawCharts = (run = state.run) => {
    const made = figures.map(({ node, told }) =>
      kinds[told.kind](node.id, told, run, state.chosen));
    return () => figures.forEach((each, at) => drawChart(each, made[at]));
  };

  // Tables of other things than servers keep their rows.
  const chooseRows = () => {
    const known = new Set(everyone.map((box) => box.value));
    for (const node of document.querySelectorAll("figure.seven-measured")) {
      node.querySelector(":scope > .seven-none")?.remove();
      const rows = [...node.querySelectorAll("tr[data-server]")];
      for (const row of rows) {
        const { server } = row.dataset;
        row.hidden = known.has(server) && !state.chosen.has(server);
      }
      if (rows.length && rows.every((row) => row.hidden)) {
        node.querySelector(":scope > .seven-table")
          .insertAdjacentHTML("afterend", NONE);
      }
    }
  };

  // --- Which servers ----------------------------------------------------

  const shown = root.querySelector(".seven-shown");
  const said = root.querySelector(".seven-said");
  const note = document.createElement("p");
  note.className = "seven-bar-note";
  root.closest("article").append(note);

  // What is shown now, at the lower edge of the window.
  const tellBelow = () => {
    const all = state.chosen.size === everyone.length;
    const wrong = said.classList.contains("seven-wrong");
    const text = [
      all ? "" : shown.textContent,
      wrong || state.run !== rules.own ? said.textContent : "",
    ].filter(Boolean);
    note.hidden = !text.length;
    note.classList.toggle("seven-wrong", wrong);
    note.textContent = `${text.join(" ")} `;
    const link = document.createElement("a");
    link.href = `#${root.id}`;
    link.textContent = "Change";
    note.append(link);
  };

  // The boxes and buttons follow what is chosen.
  const check = () => {
    for (const box of everyone) box.checked = state.chosen.has(box.value);
    for (const button of root.querySelectorAll(".seven-presets button")) {
      const mine = button.dataset.servers.split(" ");
      const same = mine.length === state.chosen.size &&
        mine.every((name) => state.chosen.has(name));
      button.setAttribute("aria-pressed", String(same));
    }
  };

  const choose = (names) => {
    state.chosen = new Set(names);
    check();
    drawCharts()();
    chooseRows();
    const count = state.chosen.size;
    shown.textContent = `${count} of ${everyone.length} servers ` +
      `${count === 1 ? "is" : "are"} shown.`;
    tellBelow();
  };

  const remember = () => {
    const all = state.chosen.size === everyone.length;
    const hash = all ? "" : `#show=${[...state.chosen].join(",")}`;
    const here = location.pathname + location.search;
    history.replaceState(history.state, "", here + hash);
  };

  const fromAddress = () => {
    const match = location.hash.match(/^#show=(.*)$/);
    if (!match) return null;
    const asked = decodeURIComponent(match[1]).split(",");
    return everyone.map((box) => box.value).filter((n) => asked.includes(n));
  };

  root.addEventListener("change", (event) => {
    if (!event.target.matches(".seven-choices input")) return;
    const boxes = everyone.filter((box) => box.checked);
    choose(boxes.map((box) => box.value));
    remember();
  });
  root.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-servers]");
    if (!button) return;
    choose(button.dataset.servers.split(" "));
    remember();
  });
  addEventListener("hashchange", () => {
    const names = fromAddress();
    if (names) choose(names);
  });

  // --- Your laptop against ours -----------------------------------------

  class Refused extends Error {}

  const number = (each) =>
    typeof each === "number" && each >= 0 && each < 1e15;
  const none = (each) => each === undefined || each === null;
  const plain = (each) =>
    typeof each === "object" && each !== null && !Array.isArray(each);
  const counts = (each) =>
    none(each) || (plain(each) && Object.values(each).every(number));

  const isRun = (run) =>
    plain(run) && (none(run.error) || typeof run.error === "string") &&
    rules.numbers.every((name) => none(run[name]) || number(run[name])) &&
    counts(run.latency_ms) && counts(run.system_calls) && counts(run.extra);

  const isPoint = (point) =>
    plain(point) && typeof point.server === "string" &&
    typeof point.suite === "string" && number(point.delay) &&
    Number.isInteger(point.clients) && point.clients > 0 &&
    (none(point.reason) || typeof point.reason === "string") &&
    Array.isArray(point.runs) && point.runs.every(isRun);

  const isResults = (told) =>
    plain(told.machine) && typeof told.machine.cpu === "string" &&
    Number.isInteger(told.machine.cores) &&
    typeof told.started === "string" && typeof told.command === "string" &&
    typeof told.mode === "string" &&
    Array.isArray(told.points) && told.points.every(isPoint);

  // The points of a run that something on this page shows.
  const common = (run) => {
    const asked = [
      ...figures.filter(({ told }) => told.kind === "bars").flatMap(
        ({ told }) => told.rows.map((row) => ({ ...told, ...row })),
      ),
      ...tables.flatMap(({ node, told }) =>
        [...node.querySelectorAll("tr[data-server]")]
          .map((row) => ({ ...told, server: row.dataset.server }))),
      ...figures.filter(({ told }) => told.kind === "sweep").flatMap(
        ({ told }) => told.lines.flatMap(({ server, points }) =>
          points.map(({ clients }) => ({ ...told, server, clients }))),
      ),
    ];
    return new Set(asked
      .map((each) => find(run, each.server, each.suite, each.clients))
      .filter((point) => point && good(point).length));
  };

  // A run from the text of a file. Throws Refused with one sentence.
  const read = (name, text) => {
    let told;
    try {
      told = JSON.parse(text);
    } catch {
      throw new Refused(`${name} is not JSON, so it is no results.json.`);
    }
    if (!plain(told) || !has(told, "schema")) {
      throw new Refused(`${name} is JSON, but no results of ./bench.sh.`);
    }
    if (has(told, "lanes")) {
      throw new Refused(
        `${name} is a recording of ./bench.sh record, which measures nothing ` +
        "that is on this page.",
      );
    }
    if (told.schema !== rules.schema) {
      throw new Refused(
        `${name} has schema ${JSON.stringify(told.schema)} and this page ` +
        `reads ${rules.schema}: measure again with the ./bench.sh that ` +
        "belongs to it.",
      );
    }
    if (!isResults(told)) {
      throw new Refused(`${name} is damaged: a part is missing or no number.`);
    }
    if (told.mode === "smoke") {
      throw new Refused(
        `${name} is a smoke run, too short to measure anything: run ` +
        "./bench.sh without --smoke.",
      );
    }
    if (!rules.modes.includes(told.mode)) {
      throw new Refused(
        `${name} is a run of the experiment ${told.mode}, which measures ` +
        "other things: run ./bench.sh alone.",
      );
    }
    if (!common(told).size) {
      throw new Refused(`${name} has nothing in common with this page.`);
    }
    return told;
  };

  const remove = root.querySelector(".seven-remove");
  const input = root.querySelector("input[type=file]");
  let latest = 0; // of two files, the one dropped last counts

  const show = (run) => {
    const draw = drawCharts(run);
    state.run = run;
    draw();
    drawRun();
    chooseRows();
  };

  const tell = (text, wrong) => {
    said.textContent = text;
    said.classList.toggle("seven-wrong", wrong);
    tellBelow();
  };

  const take = (name, text) => {
    let run;
    try {
      run = read(name, text);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      tell(`${error.message} Nothing was changed.`, true);
      return;
    }
    show(run);
    remove.hidden = false;
    const count = common(run).size;
    const cut = run.complete === false
      ? " The run was interrupted; this is what it has." : "";
    tell(
      `Your run of ${run.started.slice(0, 10)} on ${run.machine.cpu}, ` +
      `${run.machine.cores} cores, is drawn beside the reference: ` +
      `${count} measured points.${cut}`, false,
    );
  };

  const open = (files) => {
    latest += 1;
    const mine = latest;
    if (files.length !== 1) {
      tell("One file at a time, please. Nothing was changed.", true);
      return;
    }
    const [file] = files;
    if (file.size > rules.largest) {
      tell(`${file.name} is too large. Nothing was changed.`, true);
      return;
    }
    const reader = new FileReader();
    reader.onload = () => mine === latest && take(file.name, reader.result);
    reader.onerror = () =>
      tell(`${file.name} cannot be read. Nothing was changed.`, true);
    reader.readAsText(file);
  };

  input.addEventListener("change", () => {
    if (input.files.length) open(input.files);
  });
  input.addEventListener("click", () => {
    input.value = ""; // so that the same file can be chosen again
  });
  remove.addEventListener("click", () => {
    latest += 1;
    show(rules.own);
    tell("Your file is removed.", false);
    input.value = "";
    input.focus();
    remove.hidden = true;
  });

  const carriesFile = (event) =>
    [...(event.dataTransfer?.types ?? [])].includes("Files");
  const over = (is) => root.classList.toggle("seven-over", is);
  addEventListener("dragover", (event) => {
    if (!carriesFile(event)) return;
    event.preventDefault();
    over(true);
  });
  addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) over(false);
  });
  addEventListener("drop", (event) => {
    if (!carriesFile(event)) return;
    event.preventDefault();
    over(false);
    input.value = "";
    open(event.dataTransfer.files);
  });

  root.querySelector(".seven-compare-plain").hidden = true;
  root.querySelector(".seven-compare-live").hidden = false;
  note.hidden = true;
  check();
  const asked = fromAddress();
  if (asked) choose(asked);
})();
