"""01: the standard library does it all, one request at a time.

Left out: status codes, methods, timeouts, and a clean shutdown.
"""

import time
from http.server import BaseHTTPRequestHandler, HTTPServer

RESPONSE = b"HTTP/1.0 200 OK\r\nContent-Length: 6\r\n\r\nhello\n"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):  # the request has already been parsed
        time.sleep(0.1)  # stands in for a database query
        self.wfile.write(RESPONSE)  # the same bytes in all sketches


server = HTTPServer(("127.0.0.1", 8000), Handler)
server.serve_forever()
