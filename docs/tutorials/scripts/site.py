"""A site of 1000 pages on this machine: a few change every half minute, most hardly ever.

`python site.py` serves it at a free port and writes the URLs of its pages to urls.txt;
`python site.py 8765` serves it at port 8765.
"""

import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PORT = int(sys.argv[1]) if sys.argv[1:] else 0
# Number of pages of each kind, and seconds between the changes of a page.
KINDS = {"news": (20, 30), "product": (180, 600), "about": (800, 86_400)}
PERIODS = {
    f"/{kind}/{i}": period for kind, (n_pages, period) in KINDS.items() for i in range(n_pages)
}


class Page(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        period = PERIODS.get(self.path)
        if period is None:
            self.send_error(404)
            return
        phase = hash(self.path) % 1000 / 1000  # pages do not all change at once
        text = f"This is {self.path}, version {int(time.time() / period + phase)}.\n"
        etag = f'"{hash(text)}"'
        is_known = self.headers.get("If-None-Match") == etag
        body = b"" if is_known else text.encode()
        self.send_response(304 if is_known else 200)
        self.send_header("ETag", etag)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", PORT), Page)
host = f"127.0.0.1:{server.server_port}"
Path("urls.txt").write_text("".join(f"http://{host}{path}\n" for path in PERIODS))
print(f"{len(PERIODS)} pages at http://{host}/, listed in urls.txt", flush=True)
server.serve_forever()
