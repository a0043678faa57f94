"""Makes a git repository with an invented year of edits to 200 files, a few every day."""

import random
import subprocess
import sys

DAY = 86_400
START = 1_704_067_200  # 2024-01-01
# Mean days between edits of a file: 10 news pages, 60 product pages, 130 that hardly change.
PERIODS = [2] * 10 + [30] * 60 + [400] * 130

rng = random.Random(1)
edits = [(0, i) for i in range(len(PERIODS))]
for i, period in enumerate(PERIODS):
    at = rng.expovariate(1 / period)
    while at < 365:
        edits.append((at, i))
        at += rng.expovariate(1 / period)

folder = sys.argv[1]
subprocess.run(["git", "init", "--quiet", "--initial-branch", "main", folder], check=True)
git = subprocess.Popen(
    ["git", "-C", folder, "fast-import", "--quiet"], stdin=subprocess.PIPE, text=True
)
for number, (day, i) in enumerate(sorted(edits)):
    text = f"Text {number}\n"
    git.stdin.write(
        f"commit refs/heads/main\ncommitter A <a@example.com> {START + int(day * DAY)} +0000\n"
        f"data 0\nM 100644 inline pages/{i}.md\ndata {len(text)}\n{text}\n"
    )
git.stdin.close()
sys.exit(git.wait())
