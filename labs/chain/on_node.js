// The numbered pages on Node's sockets: node on_node.js HOST PORT

const fs = require("node:fs");
const net = require("node:net");

const HEAD = "HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n";
const [host, port] = process.argv.slice(2);

function following(number) {
  const product = (1664525n * BigInt(number)) % 2n ** 32n;
  return (product + 1013904223n) % 2n ** 32n;
}

net.createServer((socket) => {
  let received = "";
  socket.setEncoding("latin1");
  socket.on("error", () => socket.destroy()); // the client is gone
  socket.on("data", (data) => {
    received += data;
    if (!received.includes("\r\n\r\n")) return;
    const path = received.split(" ", 2)[1];
    fs.writeSync(1, `GET ${path}\n`);
    const next = following(path.slice(1) || "0");
    socket.end(`${HEAD}Hello, World! <a href="/${next}">next</a>`);
  });
}).listen({ host, port: Number(port), backlog: 4096 });
