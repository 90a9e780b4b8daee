// The page What if: choose servers, a load and a machine; the model answers.
// Without this file the page shows the curves of the default setting.
(() => {
  const root = document.querySelector(".seven-what-if");
  if (!root) return;
  const facts = JSON.parse(root.querySelector("script").textContent);
  const figure = root.querySelector("figure");
  const old = figure.querySelector("svg");
  const MOST_KINDS = 3; // curves at a time
  const ROWS = 20; // clients of a race
  const RACE = 1; // seconds of it
  const BUSY = 0.7; // of a core, in a plan: above that its queue gets long
  const MISS = 0.1; // from here on a point is marked
  const SVG = "http://www.w3.org/2000/svg";

  const fill = (made, attributes, content) => {
    for (const [key, value] of Object.entries(attributes)) {
      made.setAttribute(key, value);
    }
    made.append(...content);
    return made;
  };
  const make = (name, attributes = {}, ...content) => (
    fill(document.createElement(name), attributes, content));
  const draw = (name, attributes = {}, ...content) => (
    fill(document.createElementNS(SVG, name), attributes, content));
  const write = (value) => value.toLocaleString("en", {
    maximumSignificantDigits: 3,
  });
  const time = (seconds) => (seconds < 1
    ? `${write(1000 * seconds)} ms` : `${write(seconds)} s`);

  // --- The form ----------------------------------------------------------

  const number = (text, value, min, max, step = "any") => {
    const box = make("input", { type: "number", value, min, max, step, required: "" });
    return [box, make("label", {}, `${text} `, box)];
  };
  const kinds = facts.servers.map((server) => {
    const box = make("input", { type: "checkbox", value: server.name });
    box.checked = facts.shown.includes(server.name);
    return [box, server, make("label", {}, box, ` ${server.name} ${server.kind}`)];
  });
  const [wait, waitLabel] = number("A request waits (ms)", 1000 * facts.wait, 0, 60000);
  const [compute, computeLabel] = number("and computes (ms)", 0, 0, 10000);
  const [cores, coresLabel] = number("Cores", 2, 1, 256, 1);
  const [size, sizeLabel] = number("Threads of the pool", 10, 1, 10000, 1);
  const open = make(
    "select", {}, make("option", { value: "" }, "clients, each waits for its response"),
    make("option", { value: "open" }, "requests per second, whatever becomes of them"),
  );
  const many = make("input", { type: "range", min: 0, max: 4, step: 0.01, value: 2 });
  const shownMany = make("output");
  const guess = make("input", { type: "range", min: 0, max: 5, step: 0.01, value: 2 });
  const shownGuess = make("output");
  const first = make("input", { type: "checkbox" });
  const reveal = make("button", { type: "submit", class: "md-button" }, "Show");
  const guessing = make(
    "p", {}, make("label", {}, "I expect, of the first server: ", guess), " ", shownGuess,
    " ", reveal,
  );
  const wrong = make("p", { class: "seven-wrong" });
  const form = make(
    "form", { class: "what-if-form" },
    make("fieldset", {}, make("legend", {}, "Servers (three at most)"),
      ...kinds.map(([, , label]) => label)),
    make("fieldset", {}, make("legend", {}, "Requests and machine"),
      waitLabel, computeLabel, coresLabel, sizeLabel),
    make("fieldset", {}, make("legend", {}, "Load"),
      make("label", {}, "Kind of load ", open), make("label", {}, "How many: ", many), shownMany,
      make("label", {}, first, " I want to guess first"), guessing),
    wrong,
  );
  const says = make("div", { role: "status" });
  const slow = make("div", { class: "what-if-slow" });
  const race = make("div", { class: "what-if-race" });
  const legend = make("p", { class: "seven-legend" }, ...[
    ["waits", "waits for a thread"], ["works", "in progress"],
  ].map(([kind, words]) => make(
    "span", {}, make("i", { class: `what-if-key what-if-key--${kind}` }), words,
  )));

  // --- What is asked -----------------------------------------------------

  const setting = () => {
    const amount = Math.max(1, Number((10 ** many.valueAsNumber).toPrecision(2)));
    const isOpen = open.value === "open";
    return {
      amount, isOpen,
      wait: wait.valueAsNumber / 1000,
      load: isOpen ? { rate: amount } : { clients: amount },
      // Only this was measured.
      measured: !isOpen && wait.valueAsNumber === 1000 * facts.wait
        && compute.valueAsNumber === 0,
      servers: kinds.filter(([box]) => box.checked).map(([, server]) => ({
        ...server,
        compute: server.compute + compute.valueAsNumber / 1000,
        how: {
          threads: server.threads > 1 ? size.valueAsNumber : server.threads,
          cores: server.cores > 1 ? cores.valueAsNumber : 1,
        },
        asMeasured: !(server.threads > 1 && size.valueAsNumber !== server.threads)
          && !(server.cores > 1 && cores.valueAsNumber !== server.cores),
      })),
    };
  };
  // Requests per second for 1, 2, ... clients, or so many requests/s.
  const curve = (server, now) => {
    if (!now.isOpen) {
      return sevenModel.closed(
        server.how, now.wait, server.compute, facts.most,
        now.measured ? facts.load : 0,
      );
    }
    const most = sevenModel.mostRate(server.how, now.wait, server.compute);
    return Array.from({ length: facts.most }, (_, at) => Math.min(at + 1, most));
  };

  // --- The chart ---------------------------------------------------------

  const x = (amount) => `${100 * Math.log(amount) / Math.log(facts.most)}%`;
  const y = (rate) => 8 + (facts.height - 8) * (1 - Math.log(
    Math.max(rate, facts.low) / facts.low,
  ) / Math.log(facts.top / facts.low));
  const point = (amount, rate, ...content) => draw(
    "svg", { x: x(amount), y: y(rate), width: 1, height: 1, overflow: "visible" },
    ...content,
  );
  const grid = [...old.children].filter((each) => (
    each.tagName !== "g" && !(each.tagName === "svg" && each.getAttribute("x") === "100%")));

  const axis = grid.find((each) => each.classList.contains("seven-axis")
    || each.querySelector(".seven-axis"));
  const closedAxis = axis.textContent;

  const chart = (now, curves) => {
    old.replaceChildren(...grid);
    axis.textContent = now.isOpen ? "requests that arrive per second" : closedAxis;
    old.append(draw("line", {
      class: "seven-possible", x1: x(now.amount), x2: x(now.amount), y1: 8, y2: facts.height,
    }));
    let above = Infinity; // of the names at the right
    const ends = curves.map(([server, rates]) => [server, y(rates[facts.most - 1])]);
    ends.sort((one, other) => other[1] - one[1]);
    for (const end of ends) {
      end[1] = Math.min(end[1], above - 17);
      above = end[1];
    }
    for (const [server, rates] of curves) {
      const group = draw("g", { class: `seven-line seven-step${server.step}` });
      const at = Array.from({ length: 81 }, (_, step) => Math.round(10 ** (step / 20)));
      at.slice(1).forEach((b, before) => group.append(draw("line", {
        x1: x(at[before]), x2: x(b), y1: y(rates[at[before] - 1]), y2: y(rates[b - 1]),
      })));
      group.append(point(now.amount, rates[now.amount - 1], draw("circle", { r: 7 })));
      const all = [...server.points, ...server.own];
      for (const [clients, rate, miss] of now.measured && server.asMeasured ? all : []) {
        const off = Math.abs(miss) > MISS;
        group.append(point(clients, rate, draw(
          "path", { d: server.mark, class: off ? "what-if-miss" : "" },
          draw("title", {}, `${server.name}: ${write(clients)} clients, measured ${
            write(rate)} requests/s`),
        )));
      }
      const [, height] = ends.find(([each]) => each === server);
      const name = draw("text", { x: 6, y: 4, class: "seven-value" });
      name.append(server.name);
      old.append(group, draw(
        "svg", { x: "100%", y: height, width: 1, height: 1, overflow: "visible" }, name,
      ));
    }
    if (first.checked) {
      old.append(point(now.amount, 10 ** guess.valueAsNumber, draw("path", {
        class: "seven-end", d: "M-7 -7L7 7M-7 7L7 -7",
      })));
    }
  };

  // How long a request takes: Little's law, clients / requests per second.
  const SLOW = [0.001, 1000]; // seconds, of the axis
  const latency = (now, curves) => {
    const height = 200;
    const down = (seconds) => 8 + (height - 8) * (1 - Math.log(
      Math.min(Math.max(seconds, SLOW[0]), SLOW[1]) / SLOW[0],
    ) / Math.log(SLOW[1] / SLOW[0]));
    const text = "How long a request takes, over clients";
    const svg = draw("svg", {
      class: "seven-svg seven-svg--sweep", width: "100%", height: height + 46,
      role: "img", "aria-label": text,
    });
    for (const seconds of [0.001, 0.1, 10, 1000]) {
      const label = draw("text", {
        x: -12, y: down(seconds) + 4, "text-anchor": "end", class: "seven-tick",
      });
      label.append(time(seconds));
      svg.append(label, draw("line", {
        class: "seven-grid", x1: "0", x2: "100%", y1: down(seconds), y2: down(seconds),
      }));
    }
    for (const [server, rates] of curves) {
      const group = draw("g", { class: `seven-line seven-step${server.step}` });
      const at = Array.from({ length: 81 }, (_, step) => Math.round(10 ** (step / 20)));
      at.slice(1).forEach((b, before) => group.append(draw("line", {
        x1: x(at[before]), x2: x(b), y1: down(at[before] / rates[at[before] - 1]),
        y2: down(b / rates[b - 1]),
      })));
      const stays = now.amount / rates[now.amount - 1];
      group.append(draw("svg", {
        x: x(now.amount), y: down(stays), width: 1, height: 1, overflow: "visible",
      }, draw("circle", { r: 7 }, draw("title", {}, `${server.name}: ${time(stays)}`))));
      svg.append(group);
    }
    return [make("p", {}, make("strong", {}, text)), svg];
  };

  // --- In words, and the first second ------------------------------------

  const FULL = {
    "": "Nothing is full.",
    threads: (server) => (server.how.threads === 1
      ? "Its one thread is full: it waits with each request."
      : `Its ${server.how.threads} threads are full: the others wait in the queue.`),
    cores: (server) => (server.how.cores === 1
      ? "A core is full: it cannot compute more."
      : `All ${server.how.cores} cores are full.`),
  };
  // Little's law, twice the standard deviation on top, and cores with room.
  const plan = (server, now) => {
    if (!now.isOpen || server.how.threads === 1) return "";
    const together = now.amount * (now.wait + server.compute);
    const busy = now.amount * server.compute;
    const count = Math.max(1, Math.ceil(busy / BUSY));
    const threads = Math.max(1, Math.ceil((together + 2 * Math.sqrt(together)) / count));
    return ` A plan: ${write(together)} requests in progress on average and ${
      write(busy)} busy cores need ${write(count)} ${count === 1 ? "process" : "processes"}${
      server.step === 3 ? ` with ${write(threads)} threads${count > 1 ? " each" : ""}` : ""}.`;
  };
  const result = (server, rates, now) => {
    const rate = rates[now.amount - 1];
    const full = sevenModel.fullest(server.how, now.wait, server.compute, rate);
    const seconds = Math.min(60, Math.max(2, 8 * (now.isOpen
      ? now.wait + server.compute : now.amount / rate)));
    const late = sevenModel.simulate(
      server.how, now.wait, server.compute,
      Math.min(seconds, 40000 / Math.max(rate, now.isOpen ? now.amount : 0)), now.load,
    );
    const half = late.slice(0, Math.ceil(late.length / 2));
    const stays = half.map((each) => each.done - each.sent).sort((a, b) => a - b);
    const part = (share) => {
      const found = stays[Math.min(stays.length - 1, Math.floor(share * stays.length))];
      return Number.isFinite(found)
        ? `within ${time(found)}` : `later than the ${time(seconds)} simulated`;
    };
    const words = typeof FULL[full] === "string" ? FULL[full] : FULL[full](server);
    const grows = now.isOpen && now.amount > rate * 1.001
      ? " More requests arrive than it can serve: the queue grows without end." : "";
    return make(
      "p", {}, make("strong", {}, `${server.name} ${server.kind}: ${write(rate)} requests/s. `),
      `Half of the responses arrive ${part(0.5)}, 99 of 100 ${part(0.99)}. ${
        words}${grows}${plan(server, now)}`,
    );
  };
  const rows = (server, now) => {
    const found = sevenModel.simulate(server.how, now.wait, server.compute, RACE, now.load);
    const total = now.isOpen ? found.length : now.amount;
    const count = Math.min(ROWS, total);
    const chosen = new Map(Array.from(
      { length: count }, (_, row) => [Math.floor(row * total / count), row],
    ));
    const bars = [];
    for (const each of found) {
      const row = chosen.get(each.client);
      if (row === undefined) continue;
      for (const [kind, from, to] of [
        ["waits", each.sent, each.taken], ["works", each.taken, each.done],
      ]) {
        const end = Math.min(to, RACE);
        if (end > from) {
          bars.push(draw("rect", {
            class: `what-if-${kind}`, x: `${100 * from / RACE}%`, y: 9 * row,
            width: `${100 * (end - from) / RACE}%`, height: 7,
          }));
        }
      }
    }
    const done = found.filter((each) => each.done <= RACE).length;
    const title = `${server.name}: ${write(done)} responses in the first second`;
    return [
      make("p", {}, make("strong", {}, title), total > count
        ? `, ${count} of ${write(total)} ${now.isOpen ? "requests" : "clients"} shown` : ""),
      draw("svg", {
        class: "seven-svg", width: "100%", height: 9 * count, role: "img", "aria-label": title,
      }, ...bars),
    ];
  };

  // --- All of it ---------------------------------------------------------

  let hidden = false;
  const show = () => {
    const bad = [...form.querySelectorAll("input")].find((box) => !box.validity.valid);
    const count = kinds.filter(([box]) => box.checked).length;
    for (const [box] of kinds) box.disabled = !box.checked && count === MOST_KINDS;
    wrong.textContent = bad ? `“${bad.labels[0].textContent.trim()}” must be from ${
      bad.min} to ${bad.max}${bad.step === "1" ? ", without a fraction" : ""}.` : "";
    if (bad) return;
    const now = setting();
    shownMany.value = now.isOpen
      ? `${write(now.amount)} requests/s` : `${write(now.amount)} clients`;
    const expected = 10 ** guess.valueAsNumber;
    shownGuess.value = `${write(expected)} requests/s`;
    guessing.hidden = !first.checked;
    reveal.hidden = !hidden;
    const curves = hidden ? [] : now.servers.map((server) => [server, curve(server, now)]);
    chart(now, curves);
    says.replaceChildren(...curves.map(([server, rates]) => result(server, rates, now)));
    if (curves.length && first.checked) {
      const rate = curves[0][1][now.amount - 1];
      const near = Math.abs(Math.log(expected / rate)) < Math.log(1.25);
      says.prepend(make("p", {}, `You expected ${write(expected)}, the model has ${
        write(rate)}: ${near ? "well guessed." : "what did you not think of?"}`));
    }
    slow.replaceChildren(...(curves.length && !now.isOpen ? latency(now, curves) : []));
    race.replaceChildren(legend, ...curves.flatMap(([server]) => rows(server, now)));
  };
  form.addEventListener("input", (event) => {
    if (event.target !== guess) hidden = first.checked;
    else hidden = hidden || false;
    show();
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    hidden = false;
    show();
  });
  // A link may choose: ?show=03,06&clients=200&wait=50&cores=8&threads=20,
  // or &rate=100 instead of clients.
  const asked = new URLSearchParams(window.location.search);
  const names = asked.get("show")?.split(",").slice(0, MOST_KINDS);
  if (names) for (const [box, server] of kinds) box.checked = names.includes(server.name);
  if (asked.has("rate")) open.value = "open";
  const amount = asked.get("rate") ?? asked.get("clients");
  if (amount) many.value = Math.log10(Number(amount) || 1);
  for (const [word, box] of [["wait", wait], ["compute", compute], ["cores", cores],
    ["threads", size]]) if (asked.has(word)) box.value = asked.get(word);
  root.prepend(form);
  figure.after(slow, says, race);
  show();
})();
