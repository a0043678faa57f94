"""axe-core of npm, which finds what keeps people with disabilities from using a page."""

import json
import os
import shutil
import subprocess
from pathlib import Path

from playwright.sync_api import Page

VERSION = "4.14.0"
_RUN = """
async () => (await axe.run(document, {resultTypes: ["violations"]})).violations
  .filter((one) => ["serious", "critical"].includes(one.impact))
  .map((one) => `${one.id}: ${one.nodes.map((node) => node.target.join(" ")).join(", ")}`)
"""


def read_axe(folder: Path) -> str | None:
    """Return the code of axe-core, installed into a folder; None if npm cannot get it."""
    given = os.environ.get("RECRAWL_TEST_AXE")
    if given:
        return Path(given).read_text()
    npm = shutil.which("npm")
    if npm is None:
        return None
    (folder / "package.json").write_text(json.dumps({"private": True}))
    command = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", f"axe-core@{VERSION}"]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False, timeout=300)
    file = folder / "node_modules/axe-core/axe.min.js"
    return file.read_text() if done.returncode == 0 and file.exists() else None


def serious_findings(page: Page, axe: str) -> list[str]:
    """Return the serious findings of axe-core on the page that is open."""
    page.evaluate(axe)
    found: list[str] = page.evaluate(_RUN)
    return found
