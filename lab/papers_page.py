"""The page of the papers' claims, made of the numbers that are kept and of nothing else."""

from lab.claim import Check, Claim, Kind, Scale
from lab.running import Report, all_claims, folder_of, judged
from lab.tables import markdown_table, read_tables

__all__ = ["papers_markdown"]

_PAPERS = {
    "Signals": "Busa-Fekete et al., *A Scalable Crawling Algorithm Utilizing Noisy "
    "Change-Indicating Signals*, 2025",
    "Cost": "Grimes, Ford and Tassone, *Keeping a Search Engine Index Fresh*, 2008",
    "Prior": "Grimes and Ford, *Estimation of Web Page Change Rates*, 2008",
    "CGM": "Cho and Garcia-Molina, *Estimating Frequency of Change*, 2003",
    "Longevity": "Olston and Pandey, *Recrawl Scheduling Based on Information Longevity*, 2008",
}
_SIGNS = {
    Kind.EQUAL: "must agree within a tolerance",
    Kind.ORDER: "direction or order must be the paper's",
    Kind.FIGURE: "a figure to draw, nothing to judge",
}
_N_CHECKS_SHOWN = 60


def papers_markdown() -> str:
    """Return the page."""
    reports = [
        Report(claim=claim, checks=judged(claim, read_tables(folder_of(claim) / Scale.FULL)))
        for claim in all_claims()
    ]
    parts = [_head(reports)]
    for paper, source in _PAPERS.items():
        parts.append(f"## {paper}\n\n{source}.\n")
        parts += [_section(report) for report in reports if report.claim.paper == paper]
    return "\n".join(parts)


def _head(reports: list[Report]) -> str:
    judged_ones = [report for report in reports if report.claim.judge]
    n_holding = sum(report.verdict == "holds" for report in judged_ones)
    n_corrected = sum(report.verdict == "holds, corrected" for report in judged_ones)
    n_drawn = len(reports) - len(judged_ones)
    lines = [
        "# The papers, reproduced",
        "",
        "Every claim and figure of the five papers behind recrawl, run on the shipped code.",
        f"Of {len(judged_ones)} that can be judged {n_holding} hold as printed, and {n_corrected} "
        "hold once a number of the paper is replaced by ours "
        "(*holds, corrected*; the section of the claim names both).",
        f"{len(judged_ones) - n_holding - n_corrected} do not hold; {n_drawn} are figures.",
        "Tolerances were written down before the run that is shown; what was settled only after a "
        "first look is said with the claim.",
        "This page and its figures are made of the numbers in `lab/claims/*/full/*.csv`, which the "
        "first of these commands writes; the second takes minutes and is part of every test run.",
        "",
        "```console",
        "$ python -m lab claims --full",
        "$ python -m lab claims --quick",
        "$ python -m lab pages",
        "```",
        "",
        "Claims on recorded histories need the data that `RECRAWL_DATA` names; see "
        "{doc}`/how-to/run-refreshbench`.",
        "",
        "Kinds: " + "; ".join(f"**{kind}** {meaning}" for kind, meaning in _SIGNS.items()) + ".",
        "A mark in brackets, (✓) or (✗), is another reading of the paper: shown, not judged.",
        "",
        *markdown_table(("claim", "", "paper", "what", "verdict"), map(_cells, reports)),
        "",
    ]
    return "\n".join(lines)


def _cells(report: Report) -> tuple[str, ...]:
    claim = report.claim
    where = f"[{claim.id}](#{_anchor(claim)})"
    source = f"{claim.paper} {claim.figures}"
    return where, str(claim.kind), source, claim.title, _said(report)


def _mark(check: Check) -> str:
    mark = "✓" if check.holds else "✗"
    return mark if check.is_judged else f"({mark})"


def _anchor(claim: Claim) -> str:
    return f"claim-{claim.slug.replace('.', '-')}"


def _said(report: Report) -> str:
    is_plain = report.verdict in ("holds", "holds, corrected", "drawn")
    return report.verdict if is_plain else f"**{report.verdict}**"


def _section(report: Report) -> str:
    claim = report.claim
    tables = read_tables(folder_of(claim) / Scale.FULL)
    lines = [f"({_anchor(claim)})=", f"### {claim.id}: {claim.title}", ""]
    lines += [f"{claim.paper} {claim.figures}, {claim.kind}. {claim.says}", ""]
    if claim.tolerance:
        lines += [f"*Holds if:* {claim.tolerance}", ""]
    if report.checks:
        lines += [f"*Verdict:* {_said(report)}.", ""]
    if claim.corrected:
        lines += [f"*Corrected:* {claim.worded(claim.corrected, tables)}", ""]
    if claim.fails_because:
        lines += [f"*Why not:* {claim.worded(claim.fails_because, tables)}", ""]
    if claim.remark:
        lines += [f"*Remark:* {claim.worded(claim.remark, tables)}", ""]
    for name, plain in claim.captions.items():
        caption = claim.worded(plain, tables)
        file = claim.figure_file(name)
        lines += [f"```{{figure}} figures/{file}", f":alt: {claim.title}", "", caption, "```", ""]
    if report.checks:
        rows = (
            (check.what, check.found, check.wanted, _mark(check))
            for check in report.checks[:_N_CHECKS_SHOWN]
        )
        lines += [*markdown_table(("", "found", "wanted", ""), rows), ""]
    lines += [f"`python -m lab claims --full {claim.id!r}`".replace("'", '"'), ""]
    return "\n".join(lines)
