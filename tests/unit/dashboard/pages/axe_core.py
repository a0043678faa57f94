"""axe-core of npm, which finds what keeps people with disabilities from using a page."""

import json
import os
import shutil
import subprocess
from pathlib import Path

from playwright.sync_api import Page

VERSION = "4.14.0"
_NPM_SECONDS_MAX = 600
_RUN = """
async () => (await axe.run(document, {resultTypes: ["violations"]})).violations
  .filter((one) => ["serious", "critical"].includes(one.impact))
  .map((one) => `${one.id}: ${one.nodes.map((node) => node.target.join(" ")).join(", ")}`)
"""


class AxeMissing(Exception):  # noqa: N818 - names a condition
    """Says why axe-core is not here."""


def read_axe(folder: Path) -> str:
    """Return the code of axe-core, installed into a folder.

    Raises
    ------
    AxeMissing
        If npm is not installed, or cannot get it.
    """
    given = os.environ.get("RECRAWL_TEST_AXE")
    if given:
        return Path(given).read_text()
    npm = shutil.which("npm")
    if npm is None:
        raise AxeMissing("install npm, or name the file axe.min.js in RECRAWL_TEST_AXE")
    (folder / "package.json").write_text(json.dumps({"private": True}))
    options = ["--no-audit", "--no-fund", "--ignore-scripts", "--fetch-retries=5"]
    command = [npm, "install", *options, f"axe-core@{VERSION}"]
    try:
        subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
            timeout=_NPM_SECONDS_MAX,
        )
    except subprocess.TimeoutExpired as error:
        raise AxeMissing(f"npm has not got axe-core in {_NPM_SECONDS_MAX} s") from error
    except subprocess.CalledProcessError as error:
        raise AxeMissing(f"npm cannot get axe-core: {error.stderr}") from error
    return (folder / "node_modules/axe-core/axe.min.js").read_text()


def serious_findings(page: Page, axe: str) -> list[str]:
    """Return the serious findings of axe-core on the page that is open."""
    page.evaluate(axe)
    found: list[str] = page.evaluate(_RUN)
    return found
