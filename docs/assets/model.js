// A server as queues: its threads, its cores, and the wait of a request.
// The same as tools/model/model.py, name for name; a test compares the two.
const sevenModel = (() => {
  const FULL = 0.9; // of what a queue can do: from here on it holds up

  // Requests per second with 1, 2, ..., most clients (mean value analysis).
  const closed = (how, wait, compute, most, load = 0) => {
    const demands = [compute / how.cores, load];
    const rest = compute - demands[0];
    let queues = [0, 0];
    const found = [];
    for (let n = 1; n <= Math.min(most, how.threads || most); n += 1) {
      const stays = demands.map((demand, at) => demand * (1 + queues[at]));
      const rate = n / (wait + rest + stays[0] + stays[1]);
      queues = stays.map((stay) => rate * stay);
      found.push(rate);
    }
    while (found.length < most) found.push(found[found.length - 1]);
    return found;
  };

  const mostRate = (how, wait, compute) => Math.min(
    compute ? how.cores / compute : Infinity,
    how.threads ? how.threads / (wait + compute) : Infinity,
  );

  const fullest = (how, wait, compute, rate) => {
    if (rate * compute > FULL * how.cores) return "cores";
    const busy = rate * (wait + compute);
    return how.threads && busy > FULL * how.threads ? "threads" : "";
  };

  // Numbers above 0, up to 1, that look like chance (mulberry32).
  const chances = (seed) => {
    let state = seed;
    return () => {
      state = (state + 0x6d2b79f5) | 0;
      let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
      mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed);
      return (((mixed ^ (mixed >>> 14)) >>> 0) + 1) / 2 ** 32;
    };
  };

  // The next of all events; those of one moment in the order they were added.
  const calendar = () => {
    const heap = [];
    let number = 0;
    const before = (one, other) => heap[one][0] < heap[other][0]
      || (heap[one][0] === heap[other][0] && heap[one][1] < heap[other][1]);
    const swap = (one, other) => {
      [heap[one], heap[other]] = [heap[other], heap[one]];
    };
    return {
      next: () => (heap.length ? heap[0][0] : Infinity),
      add(moment, step, request) {
        number += 1;
        let at = heap.push([moment, number, step, request]) - 1;
        while (at && before(at, (at - 1) >> 1)) {
          swap(at, (at - 1) >> 1);
          at = (at - 1) >> 1;
        }
      },
      take() {
        const first = heap[0];
        const last = heap.pop();
        if (heap.length) heap[0] = last;
        for (let at = 0; ;) {
          let least = at;
          for (const child of [2 * at + 1, 2 * at + 2]) {
            if (child < heap.length && before(child, least)) least = child;
          }
          if (least === at) return first;
          swap(at, least);
          at = least;
        }
      },
    };
  };

  // The requests of the first seconds: {client, sent, taken, done}.
  const simulate = (
    how, wait, compute, seconds, { clients = 0, rate = 0, seed = 0 },
  ) => {
    const draw = chances(seed);
    const arrivals = chances(seed + 1);
    const requests = [];
    const waiting = []; // for a thread
    const ready = []; // for a core
    const events = calendar();
    let freeThreads = how.threads || Infinity;
    let freeCores = how.cores;
    const first = [0, 0]; // of waiting, of ready: what is before has gone

    const send = (client, now) => {
      const request = { client, sent: now, taken: Infinity, done: Infinity };
      requests.push(request);
      waiting.push(request);
    };
    const goOn = (now) => {
      while (first[0] < waiting.length && freeThreads) {
        freeThreads -= 1;
        const request = waiting[first[0]];
        first[0] += 1;
        request.taken = now;
        ready.push(request);
      }
      while (first[1] < ready.length && freeCores) {
        freeCores -= 1;
        const took = compute * (seed ? -Math.log(draw()) : 1);
        events.add(now + took, 1, ready[first[1]]);
        first[1] += 1;
      }
    };

    for (let client = 0; client < clients; client += 1) send(client, 0);
    if (rate) events.add(-Math.log(arrivals()) / rate, 0, { client: 0 });
    goOn(0);
    while (events.next() <= seconds) {
      const [now, , step, request] = events.take();
      if (step === 0) { // the next one arrives
        send(request.client, now);
        const gap = -Math.log(arrivals()) / rate;
        events.add(now + gap, 0, { client: request.client + 1 });
      } else if (step === 1) { // it has computed, now it waits
        freeCores += 1;
        events.add(now + wait, 2, request);
      } else {
        request.done = now;
        freeThreads += 1;
        if (!rate) send(request.client, now);
      }
      goOn(now);
    }
    return requests;
  };

  return { closed, mostRate, fullest, simulate };
})();
