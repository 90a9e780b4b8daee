// The page Compare: shows some of the servers and hides the others.
//
// Everything is drawn when the site is built. What belongs to a server says
// so in data-server; here it is hidden, and what stands below it moves up.
(() => {
  const root = document.querySelector(".seven-compare");
  if (!root) return;
  const article = root.closest("article");
  const boxes = [...root.querySelectorAll(".seven-choices input")];
  const buttons = [...root.querySelectorAll(".seven-presets button")];
  const everyone = boxes.map((box) => box.value);
  const shown = root.querySelector(".seven-shown");
  let chosen = new Set(everyone);

  // Peers and others that nobody can choose stay where they are.
  const hides = (name) => everyone.includes(name) && !chosen.has(name);

  // Rows of bars take the places of those that are hidden above them.
  const stack = (svg) => {
    const rows = [...svg.querySelectorAll(":scope > g[data-height]")];
    if (!rows.length) return;
    svg.dataset.full ??= svg.getAttribute("height");
    let [plot, gone] = [0, 0];
    for (const row of rows) {
      const height = Number(row.dataset.height);
      row.setAttribute("transform", `translate(0 ${-gone})`);
      if (row.hasAttribute("hidden")) gone += height;
      else plot += height;
    }
    svg.setAttribute("height", Number(svg.dataset.full) - gone);
    for (const line of svg.querySelectorAll(":scope > line")) {
      line.setAttribute("y2", plot);
    }
    for (const tick of svg.querySelectorAll(":scope > .seven-tick")) {
      tick.setAttribute("y", plot + 17);
    }
  };

  const column = (head) => {
    for (const row of head.closest("table").rows) {
      row.cells[head.cellIndex].hidden = hides(head.dataset.server);
    }
  };

  const tellEmpty = (figure) => {
    const all = [...figure.querySelectorAll("[data-server]")];
    const empty = all.length > 0 &&
      all.every((each) => hides(each.dataset.server));
    let note = figure.querySelector(":scope > .seven-none");
    if (!note) {
      note = document.createElement("p");
      note.className = "seven-none";
      note.textContent = "None of the chosen servers is here.";
      figure.prepend(note);
    }
    note.hidden = !empty;
  };

  // What is shown now, at the lower edge of the window.
  const below = document.createElement("p");
  below.className = "seven-bar-note";
  article.append(below);

  const tell = () => {
    const count = chosen.size;
    shown.textContent = `${count} of ${everyone.length} servers ` +
      `${count === 1 ? "is" : "are"} shown.`;
    below.hidden = count === everyone.length;
    below.innerHTML = `${shown.textContent} <a href="#${root.id}">Change</a>`;
  };

  const choose = (names) => {
    chosen = new Set(names);
    for (const box of boxes) box.checked = chosen.has(box.value);
    for (const button of buttons) {
      const mine = button.dataset.servers.split(" ");
      const same = mine.length === chosen.size &&
        mine.every((name) => chosen.has(name));
      button.setAttribute("aria-pressed", String(same));
    }
    for (const each of article.querySelectorAll("[data-server]")) {
      if (each.localName === "th") column(each);
      else each.toggleAttribute("hidden", hides(each.dataset.server));
    }
    article.querySelectorAll(".seven-svg--bars").forEach(stack);
    article.querySelectorAll("figure").forEach(tellEmpty);
    tell();
  };

  const remember = () => {
    const all = chosen.size === everyone.length;
    const hash = all ? "" : `#show=${[...chosen].join(",")}`;
    const here = location.pathname + location.search;
    history.replaceState(history.state, "", here + hash);
  };

  const fromAddress = () => {
    const match = location.hash.match(/^#show=(.*)$/);
    if (!match) return;
    const asked = decodeURIComponent(match[1]).split(",");
    choose(everyone.filter((name) => asked.includes(name)));
  };

  root.addEventListener("change", () => {
    choose(boxes.filter((box) => box.checked).map((box) => box.value));
    remember();
  });
  root.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-servers]");
    if (!button) return;
    choose(button.dataset.servers.split(" "));
    remember();
  });
  addEventListener("hashchange", fromAddress);

  root.querySelector(".seven-compare-plain").hidden = true;
  root.querySelector(".seven-compare-live").hidden = false;
  choose(everyone);
  shown.textContent = "";
  fromAddress();
})();
