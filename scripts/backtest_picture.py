"""Draw the chart of the README: a backtest of a recorded crawl, as ``recrawl backtest`` draws it.

The log is ``ota_crawl_log.parquet`` (Open Terms Archive contributors, ODC-BY 1.0), which is not
in the repository (`lab.recorded`).

python -m scripts.backtest_picture    # writes docs/_static/backtest.svg
"""

from lab.recorded import data_folder
from recrawl.backtest import curves_svg, history_of, rules_in_use, run_backtest
from recrawl.readers import open_source
from scripts.written_pages import ROOT

COLUMNS = {"url": "page_id", "at": "ts", "changed": "text_changed"}
RULES_SHOWN = ("fixed interval", "Nutch adaptive", "StormCrawler adaptive")


def main() -> None:
    """Write docs/_static/backtest.svg."""
    source = open_source(data_folder() / "ota_crawl_log.parquet", columns=COLUMNS)
    rules = [rule for rule in rules_in_use() if rule.name in RULES_SHOWN]
    found = run_backtest(history_of(source), rules=rules)
    assert found.comparison is not None
    picture = curves_svg(found.comparison, width=820, height=420)
    (ROOT / "docs" / "_static" / "backtest.svg").write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
