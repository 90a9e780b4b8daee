// Node's http module: node node.js HOST PORT

const fs = require("node:fs");
const http = require("node:http");
const path = require("node:path");

const page = fs.readFileSync(path.join(__dirname, "page.html"));
const [host, port] = process.argv.slice(2);

http.createServer((request, response) => {
  response.writeHead(200, {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Length": page.length,
  });
  response.end(page);
}).listen({ host, port: Number(port), backlog: 4096 });
