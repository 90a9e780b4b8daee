// Steps through traces of the simulated kernel, forward and back: every
// figure.seven-step. Each row of a trace changes the state a little; going
// back means beginning again. Without this file a figure shows one moment.
(() => {
  const PLAY_MS = 700; // a step while it plays
  const OPTIONS = 3; // of a prediction

  const make = (name, attributes = {}, ...content) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (value !== false) made.setAttribute(key, value);
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
    clients: Array.from({ length: clients }, () => ({
      state: "not yet", waiting: 0, got: 0,
    })),
    queues: new Map(), // process:descriptor -> clients
    connections: new Map(), // process:descriptor -> client
    watched: new Map(), // process:descriptor -> is it ready?
    timers: [],
    tasks: {},
    operations: [],
  });

  // What a row changes. A row is [kind, thread, ...details].
  const changes = {
    start(state, _, which, process, name) {
      state.threads.set(which, { process, name, line: 0, blocked: "" });
    },
    end(state, thread) { state.threads.delete(thread); },
    line(state, thread, line) { state.threads.get(thread).line = line; },
    block(state, thread, call) {
      Object.assign(state.threads.get(thread), {
        blocked: call, since: state.now,
      });
    },
    wake(state, thread) { state.threads.get(thread).blocked = ""; },
    listen(state, thread, fd) { state.queues.set(at(state, thread, fd), []); },
    watch(state, thread, fd) {
      state.watched.set(at(state, thread, fd), false);
    },
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
      const which = state.operations.findIndex(
        (each) => each[0] === name && each[1] === fd && each[2] === thread,
      );
      if (name !== "accept") state.operations.splice(which, 1);
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

  // Rows are [kind, thread, ...]; a number alone is the new time.
  const stateAfter = (trace, clients, rows) => {
    const state = beginning(clients);
    let done = 0;
    for (const row of trace) {
      if (done === rows) break;
      if (typeof row === "number") state.now = row;
      else {
        done += 1;
        changes[row[0]]?.(state, ...row.slice(1));
        state.row = row;
      }
    }
    return state;
  };

  const sentence = (words, state) => {
    const [kind, thread, ...details] = state.row ?? ["nothing"];
    const client = kind === "client" ? details[0] : details[3];
    const text = words[`${kind} ${details[kind === "client" ? 1 : 0]}${
      kind === "call" ? ` ${details[2]}` : ""}`]
      ?? words[`${kind} ${details[kind === "client" ? 1 : 0]}`]
      ?? words[kind] ?? "Nothing has happened yet.";
    const name = state.threads.get(thread)?.name ?? "The kernel";
    const filled = text.replace(/\{(\w+)\}/g, (_, what) => {
      if (what === "thread") return name;
      if (what === "client") return number(client);
      const found = details[what];
      return Array.isArray(found) ? found.join(", ") || "none" : found;
    });
    return filled[0].toUpperCase() + filled.slice(1);
  };

  // --- What is shown -----------------------------------------------------

  const panel = (title, items, empty = "none") => make(
    "div", {}, make("p", {}, make("strong", {}, title)),
    items.length
      ? make("ul", {}, ...items.map((item) => make("li", {}, ...[item].flat())))
      : make("p", {}, empty),
  );

  const view = (state) => {
    const fd = (key) => key.split(":")[1];
    const several = new Set(
      [...state.threads.values()].map((each) => each.process),
    ).size > 1;
    const named = (key) => (several ? `${fd(key)} (process ${
      Number(key.split(":")[0]) + 1})` : fd(key));
    const found = [
      panel("Clients", state.clients.map(
        (client, which) => `${number(which)}: ${client.state}`,
      )),
      panel("Accept queue", [...state.queues].map(([key, queue]) => (
        `${named(key)}: ${queue.map((each) => `client ${number(each)}`)
          .join(", ") || "empty"}`
      )), "no socket listens"),
      panel("Connections", [...state.connections].sort(
        (one, other) => one[1] - other[1], // by client
      ).map(([key, client]) => (
        `${named(key)}: client ${number(client)}, ${
          state.clients[client].waiting} bytes wait`
      ))),
      panel("Threads", [...state.threads.values()].map((thread) => (
        `${thread.name}${several ? ` of process ${thread.process + 1}` : ""}: ${
          thread.blocked
            ? `blocked in ${thread.blocked} since ${seconds(thread.since)}`
            : "runs"}${thread.line ? `, line ${thread.line}` : ""}`
      ))),
    ];
    if (state.watched.size) {
      found.push(panel("The selector watches", [...state.watched].map(
        ([key, ready]) => (ready
          ? make("strong", {}, `${named(key)}: ready`) : named(key)),
      )));
    }
    if (state.timers.length) {
      found.push(panel("Timers", state.timers.map(seconds)));
    }
    const tasks = Object.entries(state.tasks);
    if (tasks.length) {
      found.push(panel("Tasks", tasks.map(
        ([name, line]) => (line ? `${name}: awaits in line ${line}` : name),
      )));
    }
    if (state.operations.length) {
      found.push(panel("Operations in flight", state.operations.map(
        ([name, on]) => `${name} on ${on}`,
      )));
    }
    return found;
  };

  // --- A figure ----------------------------------------------------------

  const start = (figure) => {
    const data = JSON.parse(figure.querySelector("script").textContent);
    const lines = new Map([...figure.querySelectorAll("[data-line]")]
      .map((line) => [Number(line.dataset.line), line]));
    const kernel = figure.querySelector(".step-kernel");
    const says = figure.querySelector(".step-says");
    const caption = says.textContent;
    const clock = make("output", { class: "step-clock" });
    const slider = make("input", {
      type: "range", min: 0, value: 0, "aria-label": "Step",
    });
    const choice = make(
      "select", { "aria-label": "Scenario" },
      ...data.scenarios.map((each, index) => (
        make("option", { value: index }, each.title))),
    );
    const asks = make("input", { type: "checkbox" });
    const question = make("div", { class: "step-question", hidden: "" });
    let trace = [];
    let rows = [];
    let step = 0;
    let playing = 0;

    const show = () => {
      const state = stateAfter(
        trace, data.scenarios[choice.value].clients, step,
      );
      kernel.replaceChildren(...view(state));
      clock.value = `Clock: ${seconds(state.now)}`;
      const chosen = data.scenarios[choice.value];
      says.textContent = step && step === chosen.moment
        ? caption : sentence(data.sentences, state);
      if (step === rows.length && chosen.error) {
        says.textContent += ` ${chosen.error}`;
      }
      slider.value = step;
      slider.setAttribute("aria-valuetext", `${step} of ${rows.length}`);
      for (const line of lines.values()) {
        line.classList.remove("step-runs", "step-blocked");
        delete line.dataset.threads;
      }
      for (const thread of state.threads.values()) {
        const line = lines.get(thread.line);
        if (line) {
          const names = line.dataset.threads;
          line.dataset.threads = names ? `${names}, ${thread.name}` : thread.name;
          line.classList.add(thread.blocked ? "step-blocked" : "step-runs");
          if (thread === state.threads.get(state.row?.[1])) lookAt(line);
        }
      }
    };
    const lookAt = (line) => {
      const box = line.closest(".step-code");
      const away = line.getBoundingClientRect().top
        - box.getBoundingClientRect().top - box.clientHeight / 2;
      if (Math.abs(away) > box.clientHeight / 3) box.scrollTop += away;
    };
    const go = (to) => {
      step = Math.max(0, Math.min(rows.length, to));
      show();
    };
    const pause = () => {
      clearInterval(playing);
      playing = 0;
      play.textContent = "Play";
    };

    // To the next row of these kinds; asks before a thread goes on.
    const forward = (...kinds) => {
      let to = step + 1;
      while (to < rows.length && !kinds.includes(rows[to - 1][0])) to += 1;
      const next = rows.slice(step, to).find((row) => row[0] === "line");
      const wakes = rows.slice(step, to).some((row) => row[0] === "wake")
        || rows[step - 1]?.[0] === "wake";
      if (asks.checked && next && wakes) ask(next[2], to);
      else go(to);
    };
    const ask = (answer, to) => {
      pause();
      const others = [...new Set(
        rows.filter((row) => row[0] === "line").map((row) => row[2]),
      )].filter((line) => line !== answer);
      const first = (answer * 7 + step) % Math.max(others.length, 1);
      const options = [answer, ...[...others, ...others].slice(
        first, first + Math.min(OPTIONS - 1, others.length),
      )].sort((a, b) => a - b);
      const reply = make("p", { role: "status" });
      question.replaceChildren(
        make("p", {}, "Which line runs next?"),
        ...options.map((line) => {
          const button = make("button", { type: "button" }, `line ${line}`);
          button.onclick = () => {
            reply.textContent = line === answer
              ? "Yes." : `No: line ${answer}.`;
            go(to);
            question.hidden = true;
            says.textContent = `${reply.textContent} ${says.textContent}`;
          };
          return button;
        }), reply,
      );
      question.hidden = false;
      question.querySelector("button").focus();
    };

    const button = (text, action, keys) => {
      const made = make("button", { type: "button", title: keys }, text);
      made.onclick = () => {
        if (text !== "Play") pause();
        question.hidden = true;
        action();
      };
      return made;
    };
    const EVENTS = ["wake", "client", "start", "complete"];
    const CALLS = ["call", "block", "submit", "ready", "start"];
    const play = button("Play", () => {
      if (playing) pause();
      else {
        play.textContent = "Pause";
        playing = setInterval(() => {
          if (step === rows.length) pause();
          else forward(...EVENTS, ...CALLS, "line");
        }, PLAY_MS);
      }
    }, "space");
    const keys = {
      ArrowRight: () => forward("line"),
      ArrowLeft: () => go(step - 1),
      ArrowDown: () => forward(...CALLS),
      End: () => go(rows.length),
      Home: () => go(0),
    };
    const controls = make(
      "div", { class: "step-controls" },
      button("Back", keys.ArrowLeft, "arrow left"),
      button("Next line", keys.ArrowRight, "arrow right"),
      button("Next call", keys.ArrowDown, "arrow down"),
      button("Next event", () => forward(...EVENTS)),
      play, slider, clock, choice,
      make("label", {}, asks, " Ask me first"),
    );
    slider.oninput = () => { pause(); go(Number(slider.value)); };
    choice.onchange = () => {
      pause();
      ({ trace } = data.scenarios[choice.value]);
      rows = trace.filter((row) => typeof row !== "number");
      slider.max = rows.length;
      go(data.scenarios[choice.value].moment ?? 0);
    };
    figure.addEventListener("keydown", (event) => {
      const action = keys[event.key];
      if (action && !["INPUT", "SELECT"].includes(event.target.tagName)) {
        event.preventDefault();
        pause();
        action();
      }
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
