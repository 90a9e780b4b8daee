// Steps through traces of the simulated kernel, forward and back: every
// figure.seven-step. Each row of a trace changes the state a little; going
// back means beginning again. Without this file a figure shows one moment.
(() => {
  const PLAY_MS = 700; // a step while it plays

  const make = (name, attributes, ...content) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      made.setAttribute(key, value);
    }
    made.append(...content);
    return made;
  };
  const seconds = (time) => `${time.toFixed(3)} s`;
  const number = (client) => client + 1; // clients are counted from 1

  // --- The state of the kernel -------------------------------------------

  const beginning = (clients) => ({
    now: 0,
    threads: new Map(),
    clients: Array(clients).fill().map(
      () => ({ state: "not yet", waiting: 0, got: 0 }),
    ),
    queues: new Map(), // process:descriptor -> clients
    connections: new Map(), // process:descriptor -> client
    watched: new Map(), // process:descriptor -> is it ready?
    timers: [],
    tasks: {},
    operations: [],
  });

  // What a row changes.
  const changes = {
    start(state, _, which, process, name) {
      state.threads.set(which, { process, name, line: 0, blocked: "" });
    },
    end(state, thread) { state.threads.delete(thread); },
    line(state, thread, line) { state.threads.get(thread).line = line; },
    block(state, thread, call) {
      const which = state.threads.get(thread);
      Object.assign(which, { blocked: call, since: state.now });
    },
    wake(state, thread) { state.threads.get(thread).blocked = ""; },
    listen(state, thread, fd) { state.queues.set(at(state, thread, fd), []); },
    watch(state, thread, fd) { state.watched.set(at(state, thread, fd), false); },
    unwatch(state, thread, fd) { state.watched.delete(at(state, thread, fd)); },
    ready(state, thread, fds) {
      for (const key of state.watched.keys()) state.watched.set(key, false);
      for (const fd of fds) state.watched.set(at(state, thread, fd), true);
    },
    timers(state, _, timers) { state.timers = timers; },
    tasks(state, _, tasks) { state.tasks = tasks; },
    submit(state, thread, name, fd) {
      if (name !== "close") state.operations.push([name, fd, thread]);
    },
    complete(state, thread, name, fd) {
      if (name === "accept") return; // it goes on
      const done = `${[name, fd, thread]}`;
      const which = state.operations.findIndex((each) => `${each}` === done);
      state.operations.splice(which, 1);
    },
    call(state, thread, name, fd, result, client) {
      const key = at(state, thread, fd);
      if (name === "accept" && result !== "nothing") {
        state.queues.get(key).shift();
        state.connections.set(at(state, thread, result), client);
        state.clients[client].state = "accepted";
      } else if (name === "recv" && typeof result === "number") {
        const whose = state.clients[state.connections.get(key)];
        if (whose) whose.waiting -= result;
      } else if (name === "close") {
        state.connections.delete(key);
        state.queues.delete(key);
      }
    },
    client(state, _, which, what, size, process) {
      const client = state.clients[which];
      if (what === "connect") {
        client.state = "in the queue";
        state.queues.get(`${process}:${size}`).push(which);
      } else if (what === "send") client.waiting += size;
      else if (what === "receive") {
        client.got += size;
        client.state = `has its response since ${seconds(state.now)}`;
      } else if (what !== "end") client.state = what;
      else if (!client.got) client.state = "closed without a response";
    },
  };
  const at = (state, thread, fd) => `${state.threads.get(thread)?.process}:${fd}`;

  // A row is [kind, time, thread, ...details]. In the page a number alone is
  // the new time, and [line] the next line of the same thread.
  const unpacked = (packed) => {
    let now = 0;
    let thread = 0;
    return packed.flatMap((row) => {
      if (typeof row === "number") {
        now = row;
        return [];
      }
      if (row.length === 1) return [["line", now, thread, row[0]]];
      if (row[1] >= 0) [, thread] = row;
      return [[row[0], now, ...row.slice(1)]];
    });
  };

  const stateAfter = (rows, clients) => {
    const state = beginning(clients);
    for (const [kind, now, ...details] of rows) {
      state.now = now;
      changes[kind]?.(state, ...details);
    }
    return state;
  };

  const sentence = (words, state, row) => {
    const [kind, , thread, ...details] = row ?? ["nothing"];
    const what = details[kind === "client" ? 1 : 0];
    const text = words[`${kind} ${what} ${details[2]}`]
      ?? words[`${kind} ${what}`]
      ?? words[kind] ?? "Nothing has happened yet.";
    const named = {
      thread: state.threads.get(thread)?.name ?? "The kernel",
      client: number(kind === "client" ? details[0] : details[3]),
    };
    const filled = text.replace(/\{(\w+)\}/g, (_, word) => {
      const found = named[word] ?? details[word];
      return Array.isArray(found) ? found.join(", ") || "none" : found;
    });
    return filled[0].toUpperCase() + filled.slice(1);
  };

  // --- What is shown -----------------------------------------------------

  const panel = ([title, items, empty]) => make(
    "div", {}, make("p", {}, make("strong", {}, title)),
    items.length
      ? make("ul", {}, ...items.map((item) => make("li", {}, item)))
      : make("p", {}, empty),
  );

  const view = (state) => {
    const threads = [...state.threads.values()];
    const several = threads.some((each) => each.process !== threads[0].process);
    const named = (key) => {
      const [process, fd] = key.split(":");
      return several ? `${fd} (process ${Number(process) + 1})` : fd;
    };
    const always = [
      ["Clients", state.clients.map(
        (client, which) => `${number(which)}: ${client.state}`,
      )],
      ["Accept queue", [...state.queues].map(([key, queue]) => (
        `${named(key)}: ${queue.map((each) => `client ${number(each)}`)
          .join(", ") || "empty"}`
      )), "no socket listens"],
      ["Connections", [...state.connections].sort(
        (one, other) => one[1] - other[1], // by client
      ).map(([key, client]) => (
        `${named(key)}: client ${number(client)}, ${
          state.clients[client].waiting} bytes wait`
      )), "none"],
      ["Threads", threads.map((thread) => (
        `${thread.name}${several ? ` of process ${thread.process + 1}` : ""}: ${
          thread.blocked
            ? `blocked in ${thread.blocked} since ${seconds(thread.since)}`
            : "runs"}${thread.line ? `, line ${thread.line}` : ""}`
      )), "none"],
    ];
    const sometimes = [
      ["The selector watches", [...state.watched].map(([key, ready]) => (
        ready ? make("strong", {}, `${named(key)}: ready`) : named(key)
      ))],
      ["Timers", state.timers.map(seconds)],
      ["Tasks", Object.entries(state.tasks).map(([name, line]) => (
        line ? `${name}: awaits in line ${line}` : name
      ))],
      ["Operations in flight", state.operations.map(
        ([name, on]) => `${name} on ${on}`,
      )],
    ].filter(([, items]) => items.length);
    return [...always, ...sometimes].map(panel);
  };

  // --- A figure ----------------------------------------------------------

  const start = (figure) => {
    const data = JSON.parse(figure.querySelector("script").textContent);
    const lines = [...figure.querySelectorAll("[data-line]")];
    const kernel = figure.querySelector(".step-kernel");
    const says = figure.querySelector(".step-says");
    const caption = says.textContent;
    const clock = make("output", { class: "step-clock" });
    const slider = make("input", { type: "range", "aria-label": "Step" });
    const choice = make(
      "select", { "aria-label": "Scenario" }, ...data.scenarios.map(
        ({ title }, index) => make("option", { value: index }, title),
      ),
    );
    const asks = make("input", { type: "checkbox" });
    const question = make("div", { class: "step-question", hidden: "" });
    let chosen; // the scenario
    let rows = [];
    let step = 0;
    let playing = 0;
    let points = new Map(); // step -> is it always asked, and what

    const show = () => {
      const row = rows[step - 1];
      const state = stateAfter(rows.slice(0, step), chosen.clients);
      kernel.replaceChildren(...view(state));
      clock.value = `Clock: ${seconds(state.now)}`;
      says.textContent = step && step === chosen.moment
        ? caption : sentence(data.sentences, state, row);
      if (step === rows.length) says.textContent += ` ${chosen.error}`;
      slider.value = step;
      slider.setAttribute("aria-valuetext", `${step} of ${rows.length}`);
      for (const line of lines) {
        line.classList.remove("step-runs", "step-blocked");
        delete line.dataset.threads;
      }
      for (const thread of state.threads.values()) {
        const line = lines[thread.line - 1];
        if (!line) continue;
        const names = line.dataset.threads;
        line.dataset.threads = names ? `${names}, ${thread.name}` : thread.name;
        line.classList.add(thread.blocked ? "step-blocked" : "step-runs");
        if (thread === state.threads.get(row?.[2])) lookAt(line);
      }
    };
    const lookAt = (line) => {
      const box = line.closest(".step-code");
      const top = (element) => element.getBoundingClientRect().top;
      const away = top(line) - top(box) - box.clientHeight / 2;
      if (Math.abs(away) > box.clientHeight / 3) box.scrollTop += away;
    };
    const go = (to) => {
      step = Math.max(0, Math.min(rows.length, to));
      question.hidden = true;
      show();
    };
    const pause = () => {
      clearInterval(playing);
      playing = 0;
      play.textContent = "Play";
    };

    // What is asked at a step: [what, step of the answer, options].
    const due = (at) => {
      const [always, ...asked] = points.get(at) ?? [];
      return (always || asks.checked) && asked.length && asked;
    };
    // To the next row of these kinds, or to a step at which something is
    // asked; from there only with an answer.
    const forward = (...kinds) => {
      const asked = due(step);
      if (asked) return ask(...asked);
      let to = step + 1;
      while (to < rows.length && !kinds.includes(rows[to - 1][0])
        && !due(to)) to += 1;
      return go(to);
    };
    const ask = (what, to, answer, ...others) => {
      pause();
      points.delete(step);
      const text = make("p", {}, data.sentences[`ask ${what}`]);
      const options = [answer, ...others].sort(
        (one, other) => one.localeCompare(other, "en", { numeric: true }),
      );
      question.replaceChildren(text, ...options.map((option) => {
        const button = make("button", { type: "button" }, option);
        button.onclick = () => {
          go(to);
          const reply = option === answer ? "Yes." : `No: ${answer}.`;
          says.textContent = `${reply} ${says.textContent}`;
          ahead.focus();
        };
        return button;
      }));
      question.hidden = false;
      question.querySelector("button").focus();
    };

    const button = (text, action, title = text) => {
      const made = make("button", { type: "button", title }, text);
      made.onclick = () => {
        if (text !== "Play") pause();
        action();
      };
      return made;
    };
    const EVENTS = ["wake", "client", "start", "complete"];
    const CALLS = ["call", "block", "submit", "ready", "start"];
    const play = button("Play", () => {
      if (playing) return pause();
      play.textContent = "Pause";
      playing = setInterval(() => {
        if (step === rows.length) pause();
        else forward(...EVENTS, ...CALLS, "line");
      }, PLAY_MS);
    }, "Space");
    const keys = {
      ArrowRight: () => forward("line"),
      ArrowLeft: () => go(step - 1),
      ArrowDown: () => forward(...CALLS),
      End: () => go(rows.length),
      Home: () => go(0),
      " ": () => play.click(),
    };
    const ahead = button("Next line", keys.ArrowRight, "Arrow right");
    const controls = make(
      "div", { class: "step-controls" },
      button("Back", keys.ArrowLeft, "Arrow left"),
      ahead,
      button("Next call", keys.ArrowDown, "Arrow down"),
      button("Next event", () => forward(...EVENTS)),
      play, slider, clock, choice,
      make("label", {}, asks, " Ask me first"),
    );
    slider.oninput = () => { pause(); go(Number(slider.value)); };
    choice.onchange = () => {
      pause();
      chosen = data.scenarios[choice.value];
      rows = unpacked(chosen.trace);
      points = new Map(chosen.asks.map(([at, ...asked]) => [at, asked]));
      slider.max = rows.length;
      go(chosen.moment);
    };
    figure.addEventListener("keydown", (event) => {
      const own = event.target.closest("input, select")
        || (event.key === " " && event.target.closest("button"));
      if (!keys[event.key] || own) return;
      event.preventDefault();
      if (event.key !== " ") pause();
      keys[event.key]();
    });
    says.before(controls);
    says.after(question);
    figure.classList.add("step-live");
    choice.onchange();
  };

  const ready = () => document
    .querySelectorAll("figure.seven-step:not(.step-live)").forEach(start);
  if (document.readyState === "loading") {
    document.addEventListener("DOMContentLoaded", ready);
  } else ready();
})();
