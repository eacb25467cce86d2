"""A command's document to its page, by its schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autodeploy.report.html.accuracy import accuracy_page
from autodeploy.report.html.balance import balance_page
from autodeploy.report.html.estimate import estimate_page
from autodeploy.report.html.figures import plotly_js
from autodeploy.report.html.page import Page, render_page
from autodeploy.report.html.search import search_page


def report_html(document: Mapping[str, Any], picture: str = "") -> str:
    """The whole page with the library that draws its figures (InputError where plotly is not installed)."""
    return render_page(page_of(document, picture), plotly_js())


def page_of(document: Mapping[str, Any], picture: str = "") -> Page:
    """The page of a document; ``picture`` is the timeline of a replayed step."""
    kind = document["schema"].removeprefix("autodeploy.").split("/")[0]
    if kind in ("estimate", "simulate"):
        return estimate_page(document, picture)
    return {"search": search_page, "accuracy": accuracy_page, "balance": balance_page}[kind](document)
