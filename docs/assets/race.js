// Plays recordings: moves the dots, the playhead and the counters of every
// figure.seven-race, and lights the line that runs in the code above. All
// figures are complete without this file.
(() => {
  const SECONDS = { slow: 24, normal: 10, fast: 5 }; // for a whole race
  const STEP_MS = { slow: 1600, normal: 900, fast: 450 }; // without motion
  const HOLD_MS = 200; // a line that ran for less is lit so long
  const MOVE_MS = 350; // of a dot from box to box
  const POSITIONS = 200; // of the slider
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  const paper = matchMedia("print");

  const make = (name, attributes = {}, ...content) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      made.setAttribute(key, value);
    }
    made.append(...content);
    return made;
  };
  const pairs = (flat) => {
    const found = [];
    for (let at = 0; at < flat.length; at += 2) {
      found.push([flat[at], flat[at + 1]]);
    }
    return found;
  };
  // The moments at which something has happened. Those closer than NEAR are
  // one, at the last of them, so that a step always shows a difference; no
  // step is longer than LONGEST. Both are parts of the race.
  const NEAR = 0.01;
  const LONGEST = 0.05;
  const stepsOf = (runs, end) => {
    const moments = runs.flatMap((run) => run.moves)
      .flatMap((flat) => pairs(flat).map(([at]) => at))
      .sort((a, b) => a - b);
    const found = [0];
    let begun = 0;
    let last = 0;
    for (const at of [...moments, Infinity]) {
      if (at - last > end * NEAR || at - begun > end * LONGEST) {
        if (last > found.at(-1)) found.push(last);
        begun = at;
      }
      last = at;
    }
    return found.at(-1) < end ? [...found, end] : found;
  };
  const ms = (time) => `${Math.round(time / 1000).toLocaleString("en")} ms`;

  // 1, 2, 3, 7 -> "1 to 3, 7"
  const ranges = (numbers) => {
    const parts = [];
    for (const number of numbers) {
      const last = parts.at(-1);
      if (last && last[1] === number - 1) last[1] = number;
      else parts.push([number, number]);
    }
    const words = parts.map(([a, b]) => (a === b ? `${a}` : `${a} to ${b}`));
    return words.join(", ") || "none";
  };

  // --- The lines of code ------------------------------------------------

  const lit = new Map(); // element -> run -> [how many, parked?]

  const light = (element, run, many, parked) => {
    const runs = lit.get(element) ?? new Map();
    if (many) runs.set(run, [many, parked]);
    else runs.delete(run);
    lit.set(element, runs);
    const all = [...runs.values()];
    const sum = all.reduce((total, [count]) => total + count, 0);
    element.classList.toggle("race-lit", sum > 0);
    element.classList.toggle(
      "race-lit--parked", sum > 0 && all.every(([, still]) => still),
    );
    if (sum > 1) element.dataset.times = `×${sum}`;
    else delete element.dataset.times;
  };

  // --- One server -------------------------------------------------------

  const server = (board, data) => {
    const stage = board.querySelector(".race-stage");
    const count = (name) => board.querySelector(`[data-count=${name}]`);
    const shown = {
      answered: count("answered"), work: count("work"), calls: count("calls"),
    };
    const slots = new Map(
      [...stage.querySelectorAll("[data-slot]")]
        .map((slot) => [slot.dataset.slot, slot]),
    );
    const dots = [...stage.querySelectorAll(".race-dot")]
      .sort((a, b) => a.textContent - b.textContent);
    const moves = data.moves.map((flat) => pairs(flat).map(([at, code]) => ({
      at, place: code.slice(0, -1), state: code.slice(-1),
    })));
    const calls = pairs(data.calls);
    const lines = data.lines.map(([number, text, parked, flat]) => ({
      number, text, parked: Boolean(parked), times: pairs(flat), until: 0,
      elements: [...document.querySelectorAll(
        `code[data-file="${data.file}"] [data-line="${number}"]`,
      )],
    }));
    const says = make("p", { class: "race-line" });
    board.append(says);

    const where = (client, now) => moves[client]
      .findLast((move) => move.at <= now) ?? moves[client][0];
    const slotOf = (client, place) =>
      slots.get(place[0] === "r" ? place : `${place}${client}`);

    const place = (now, animate) => {
      const going = [];
      dots.forEach((dot, client) => {
        const { place: to, state } = where(client, now);
        dot.dataset.state = state;
        const slot = slotOf(client, to);
        if (dot.parentNode !== slot) going.push([dot, slot]);
      });
      const from = animate
        ? going.map(([dot]) => dot.getBoundingClientRect()) : [];
      for (const [dot, slot] of going) slot.append(dot);
      from.forEach((old, at) => {
        const [dot] = going[at];
        const fresh = dot.getBoundingClientRect();
        const x = old.left - fresh.left;
        const y = old.top - fresh.top;
        dot.animate(
          [{ transform: `translate(${x}px, ${y}px)` }, { transform: "none" }],
          { duration: MOVE_MS, easing: "ease-in-out" },
        );
      });
    };

    const runLines = (now, before, on) => {
      const words = [];
      const clock = performance.now();
      for (const line of lines) {
        let many = 0;
        let touched = false;
        for (const [begin, end] of line.times) {
          if (begin > now) break;
          if (now < end) many += 1;
          touched ||= end > before;
        }
        if (touched && before < now) line.until = clock + HOLD_MS;
        if (before >= now) line.until = 0;
        if (!on) many = 0;
        else if (!many && clock < line.until) many = 1;
        for (const element of line.elements) {
          light(element, says, many, line.parked);
        }
        if (many) words.push([many, line]);
      }
      words.sort((a, b) => b[0] - a[0]);
      says.replaceChildren(...words.slice(0, 2).map(([many, line]) => {
        const times = many > 1 ? ` ×${many}` : "";
        const still = line.parked ? " parked at" : "";
        const code = make("code", {}, line.text);
        return make(
          "span", {}, `line ${line.number}${times}${still} `, code,
        );
      }));
      if (on && !words.length) {
        says.append(make("span", {}, "no line of this file at the moment"));
      }
    };

    return {
      draw(now, before, on, animate) {
        place(now, animate);
        const states = dots.map((dot) => dot.dataset.state);
        const answered = states.filter((state) => state === "d").length;
        const work = states.filter((state) => "ks".includes(state)).length;
        const made = calls.findLast(([at]) => at <= now)?.[1] ?? 0;
        shown.answered.textContent = `${answered} of ${dots.length}`;
        shown.work.textContent = `${work}`;
        shown.calls.textContent = (on ? made : 0).toLocaleString("en");
        runLines(now, before, on);
      },
      // For a screen reader: where everybody is.
      tell() {
        const at = (letters) => ranges(dots.flatMap(
          (dot, client) =>
            (letters.includes(dot.dataset.state) ? [client + 1] : []),
        ));
        const text = `Waiting: ${at("qa")}. At work: ${at("ks")}. ` +
          `Answered: ${at("d")}.`;
        stage.setAttribute(
          "aria-label", `Where each request is. ${text}`,
        );
        return `Server ${data.name}: ${shown.answered.textContent} ` +
          `answered, ${shown.work.textContent} at work, ` +
          `${shown.calls.textContent} system calls.`;
      },
      finish() {
        place(Infinity, false);
        shown.answered.textContent = `${dots.length} of ${dots.length}`;
        shown.work.textContent = "0";
        shown.calls.textContent =
          (calls.at(-1)?.[1] ?? 0).toLocaleString("en");
      },
    };
  };

  // --- A race -----------------------------------------------------------

  const race = (figure) => {
    const data = JSON.parse(figure.querySelector("script").textContent);
    const boards = [...figure.querySelectorAll(".race-run")];
    const runs = boards.map((board, at) => server(board, data.runs[at]));
    const views = [...figure.querySelectorAll(".race-view")];
    const heads = figure.querySelectorAll(".race-head");
    const curtains = figure.querySelectorAll(".race-curtain");
    const details = figure.querySelector("details");
    const steps = stepsOf(data.runs, data.end);
    let now = 0;
    let begun = false; // has the reader pressed anything?
    let frame = 0; // of the animation that plays
    let timer = 0; // the same without motion
    let last = 0;

    const play = make("button", { type: "button", class: "race-play" });
    const back = make("button", {
      type: "button", class: "race-step", "aria-label": "Previous event",
      title: "Previous event",
    }, "◂");
    const next = make("button", {
      type: "button", class: "race-step", "aria-label": "Next event",
      title: "Next event",
    }, "▸");
    const slider = make("input", {
      type: "range", min: 0, max: POSITIONS, step: "any", value: 0,
      "aria-label": "Time in the recording",
    });
    const time = make("span", { class: "race-time" });
    const speed = make("select");
    for (const name of Object.keys(SECONDS)) {
      speed.append(new Option(name, name, name === "normal"));
    }
    speed.value = "normal";
    const guess = make(
      "p", { class: "race-guess" }, "Guess what happens, then press Play.",
    );
    const said = make("p", { class: "race-said", role: "status" });
    const tabs = views.map((view) => make(
      "button", { type: "button", class: "race-tab" },
      view.dataset.view === "requests"
        ? "Each request" : "What the server is doing",
    ));

    const draw = (before, animate) => {
      const on = begun && now < data.end;
      for (const run of runs) run.draw(now, before, on, animate);
      const part = now >= data.end ? 100 : (100 * now) / data.top;
      for (const head of heads) {
        head.setAttribute("x1", `${part}%`);
        head.setAttribute("x2", `${part}%`);
      }
      for (const curtain of curtains) {
        curtain.setAttribute("x", `${part}%`);
        curtain.setAttribute("width", `${100 - part}%`);
      }
      time.textContent = ms(now);
      back.disabled = now <= 0;
      next.disabled = now >= data.end;
      slider.value = (POSITIONS * now) / data.end;
      slider.setAttribute("aria-valuetext", ms(now));
      if (now >= data.end) {
        // Threads that go on to sleep may have made a call or two since.
        for (const run of runs) run.finish();
      }
    };

    const label = () => {
      const name = frame || timer ? "Pause"
        : now >= data.end ? "Play again" : "Play";
      if (play.textContent !== name) play.textContent = name;
    };

    // What the reader is to guess is nowhere to be found before.
    const reveal = () => {
      figure.classList.toggle("race-hidden", !begun);
      guess.hidden = begun;
      details.hidden = !begun;
      for (const view of views) {
        if (begun) view.removeAttribute("aria-hidden");
        else view.setAttribute("aria-hidden", "true");
      }
    };

    const begin = () => {
      if (begun) return;
      begun = true;
      reveal();
    };

    const tell = () => {
      const words = runs.map((run) => run.tell());
      if (begun) said.textContent = `${ms(now)}. ${words.join(" ")}`;
    };

    const stop = () => {
      cancelAnimationFrame(frame);
      clearTimeout(timer);
      frame = timer = 0;
      label();
    };

    const go = (to, animate) => {
      begin();
      now = Math.max(0, Math.min(data.end, to));
      draw(now, animate && !calm.matches);
    };

    const step = (way) => {
      const to = way > 0
        ? steps.find((at) => at > now) ?? data.end
        : steps.findLast((at) => at < now) ?? 0;
      go(to, true);
    };

    const tick = (stamp) => {
      const before = now;
      if (last) {
        const rate = data.end / (SECONDS[speed.value] * 1000);
        // A page that was away goes on where it was.
        now = Math.min(data.end, now + Math.min(stamp - last, 100) * rate);
      }
      last = stamp;
      draw(before, true);
      if (now < data.end) frame = requestAnimationFrame(tick);
      else pause();
    };

    const hop = () => {
      step(1);
      if (now < data.end) timer = setTimeout(hop, STEP_MS[speed.value]);
      else pause();
    };

    const pause = () => {
      stop();
      tell();
    };

    const start = () => {
      if (now >= data.end) now = 0;
      begin();
      if (calm.matches) {
        draw(now, false);
        timer = setTimeout(hop, STEP_MS[speed.value]);
      } else {
        last = 0;
        frame = requestAnimationFrame(tick);
      }
      label();
    };

    play.addEventListener("click", () => (frame || timer ? pause() : start()));
    for (const [button, way] of [[back, -1], [next, 1]]) {
      button.addEventListener("click", () => {
        stop();
        step(way);
        pause();
        // A disabled button would lose the keyboard's place.
        if (button.disabled) play.focus();
      });
    }
    slider.addEventListener("input", () => {
      stop();
      go((slider.value * data.end) / POSITIONS, false);
      label();
    });
    slider.addEventListener("change", tell);
    calm.addEventListener("change", stop);

    const look = (at) => {
      views.forEach((view, which) => {
        view.hidden = which !== at;
        tabs[which].setAttribute("aria-pressed", `${which === at}`);
      });
    };
    tabs.forEach((tab, at) => tab.addEventListener("click", () => look(at)));

    // Paper shows the end.
    const print = (printing) => {
      if (printing) {
        stop();
        for (const run of runs) run.finish();
      } else {
        draw(now, false);
      }
    };
    paper.addEventListener("change", (event) => print(event.matches));
    addEventListener("beforeprint", () => print(true));
    addEventListener("afterprint", () => print(false));

    figure.querySelector(".race-runs").before(
      make(
        "div",
        { class: "race-controls", role: "group", "aria-label": "Player" },
        play, back, next, slider, time,
        make("label", { class: "race-speed" }, "Speed ", speed),
      ),
      guess, said,
    );
    figure.querySelector(".race-result").prepend(make(
      "div", { class: "race-tabs", role: "group", "aria-label": "View" },
      ...tabs,
    ));
    look(0);
    reveal();
    draw(0, false);
    tell();
    label();
    figure.classList.add("race-on");
  };

  const begin = () => {
    const found = document.querySelectorAll("figure.seven-race:not(.race-on)");
    for (const figure of found) race(figure);
  };
  if (typeof document$ === "undefined") begin();
  else document$.subscribe(begin);
})();
