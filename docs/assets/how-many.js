// The page How many: threads and processes for a reader's own numbers.
//
// What our servers cost is in the page's table, a row each: CPU for a
// request in ms, bytes of a process, bytes of a request that waits.
(() => {
  const form = document.getElementById("how-many");
  if (!form) return;
  const SPARE = 2; // standard deviations on top of the average
  const FULL = 0.7; // of a core, no more: the queue grows
  const MANY = 128; // threads in a process; then look at the sweep
  // As it is written, so that whoever checks the sums gets the same.
  const short = (value) => +value.toPrecision(3);
  const [cpu, loopCpu, base, loopBase, each, loopEach] =
    [...document.querySelectorAll("#measured data")].map((d) => short(+d.value));
  const list = form.querySelector("dl");
  const wrong = form.querySelector(".seven-wrong");
  const write = (value) =>
    value.toLocaleString("en", { maximumSignificantDigits: 3 });
  const size = (bytes) => bytes < 1e6
    ? `${write(bytes / 1e3)} kB` : `${write(bytes / 1e6)} MB`;

  const line = (name, value, formula) => {
    const dt = document.createElement("dt");
    const dd = document.createElement("dd");
    [dt.textContent, dd.textContent] = [name, formula];
    dd.dataset.value = value;
    list.append(dt, dd);
  };

  const answer = (wait, compute, rate) => {
    const work = compute + cpu;
    const stay = wait + work;
    const atOnce = short(rate * stay / 1000);
    const spare = SPARE * Math.sqrt(atOnce);
    const busy = short(rate * work / 1000);
    const processes = Math.ceil(busy / FULL);
    const threads = Math.ceil((atOnce + spare) / processes) * processes;
    const [byThreads, byCores] =
      [1000 * threads / stay, 1000 * processes / work];
    const own = write(cpu);
    line("Requests at once", atOnce,
      `${write(rate)} /s × (${write(wait)} + ${write(compute)} + ${own}) ms` +
      ` = ${write(atOnce)}`);
    line("Cores busy", busy,
      `${write(rate)} /s × (${write(compute)} + ${own}) ms = ${write(busy)}`);
    line("Processes", processes,
      `${write(busy)} / ${FULL} = ${write(busy / FULL)}, so ` +
      `${write(processes)} (a core each)`);
    line("Threads", threads,
      `${write(atOnce)} + ${SPARE} × √${write(atOnce)} = ` +
      `${write(atOnce + spare)}, so ${write(threads / processes)} in each ` +
      "process");
    line("Answers a second, at most", Math.min(byThreads, byCores),
      `the threads: ${write(threads)} / ${write(stay)} ms = ` +
      `${write(byThreads)}; the cores: ${write(processes)} / ` +
      `${write(work)} ms = ${write(byCores)}`);
    const memory = (kind, process, request) => {
      const sum = processes * process + threads * request;
      line(`Memory with ${kind}`, sum,
        `${write(processes)} × ${size(process)} + ${write(threads)} × ` +
        `${size(request)} = ${size(sum)}`);
    };
    memory("threads", base, each);
    memory("coroutines", loopBase, loopEach);
    line("Which step?", threads / processes, threads / processes > MANY
      ? "An event loop (step 06): that is many threads for a process."
      : "A pool of threads (step 03) is good enough.");
  };

  const show = () => {
    list.replaceChildren();
    const boxes = [...form.querySelectorAll("input")];
    const bad = boxes.find((box) => !box.validity.valid);
    for (const box of boxes) {
      box.setAttribute("aria-invalid", String(!box.validity.valid));
    }
    wrong.textContent = bad
      ? `“${bad.labels[0].textContent}” must be a number from ` +
        `${write(+bad.min)} to ${write(+bad.max)}.`
      : "";
    if (!bad) answer(...boxes.map((box) => box.valueAsNumber));
  };

  form.addEventListener("input", show);
  form.hidden = false;
  show();
})();
