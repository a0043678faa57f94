"""A fetcher that asks nobody: every page says its own address."""

import json
import sys

for line in sys.stdin:
    order = json.loads(line)
    outcome = {"handle": order["handle"], "status": 200, "body": f"This is {order['url']}"}
    sys.stdout.write(json.dumps(outcome) + "\n")
