"""The report of an audit, with the forms in which people read it."""

from __future__ import annotations

from . import page, table
from .report import Report


class AuditReport(Report):
  """The results of an audit: `str` is a table, `to_html` a page."""

  def to_html(self) -> str:
    """One HTML page that needs nothing else."""
    return page.html(self)

  def __str__(self) -> str:
    return table.text(self)
