"""Reports: what ``--format json`` prints, as one self-contained page (``--report FILE.html``)."""

from autodeploy.report.html.document import page_of, report_html
from autodeploy.report.html.figures import plotly_js

__all__ = ["page_of", "plotly_js", "report_html"]
