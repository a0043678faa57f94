"""A small shop on this machine: a list of lamps, and a page for each lamp.

`python lamp_shop.py` serves it at a free port, `python lamp_shop.py 8765` at port 8765.  Each file
in the folder lamps is a lamp; its name is the number of the lamp, and its text is the price.
"""

import hashlib
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PORT = int(sys.argv[1]) if sys.argv[1:] else 0
LAMPS = Path("lamps")


def page(path):
    """Return the HTML of a page; None if there is no such page."""
    lamps = {f"/lamps/{file.name}": file for file in sorted(LAMPS.iterdir())}
    if path == "/":
        rows = [
            f'<div><h2><a href="{url}">Lamp {file.name}</a></h2><p>A lamp for your desk.</p></div>'
            for url, file in lamps.items()
        ]
        return f"<title>Lamps</title><h1>All lamps</h1>{''.join(rows)}"
    if path not in lamps:
        return None
    price = lamps[path].read_text().strip()
    return f"<title>Lamp</title><h1>Lamp {lamps[path].name}</h1><p>Price: <b>{price}</b> euros</p>"


class Shop(BaseHTTPRequestHandler):
    def do_GET(self):
        html = page(self.path)
        if html is None:
            self.send_error(404)
            return
        etag = f'"{hashlib.sha256(html.encode()).hexdigest()[:16]}"'
        is_known = self.headers.get("If-None-Match") == etag
        body = b"" if is_known else html.encode()
        self.send_response(304 if is_known else 200)
        self.send_header("ETag", etag)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


LAMPS.mkdir(exist_ok=True)
for number in range(1, 6):
    (LAMPS / str(number)).write_text(f"{number}0\n")
server = ThreadingHTTPServer(("127.0.0.1", PORT), Shop)
print(f"5 lamps at http://127.0.0.1:{server.server_port}/", flush=True)
server.serve_forever()
