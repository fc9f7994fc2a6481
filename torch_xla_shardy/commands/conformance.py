"""Names `conformance`, which is a distribution of its own."""

from __future__ import annotations

from ..parser import Parser

SUMMARY = 'judge a PJRT plugin, case by case'
DESCRIPTION = 'Judges a PJRT plugin, case by case.'
ELSEWHERE = 'torch_xla_conformance.options'
MISSING = """conformance is a distribution of its own: pip install \
torch_xla_conformance-{version}-py3-none-any.whl, of the release that torch_xla \
is of"""


def add_options(parser: Parser) -> None:
  del parser  # The distribution has them.
