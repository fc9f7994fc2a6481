"""Puts together what a wheel adds to the official one."""

from __future__ import annotations

from collections.abc import Mapping
import zipfile

from infra.wheel import contents, metadata
from infra.wheel.bom import Tools
from infra.wheel.contents import LaidSeries, Order, Origin, Piece


def assemble(order: Order, upstream: zipfile.ZipFile, laid: list[LaidSeries],
             below: Mapping[str, Piece], own: Mapping[str, Piece],
             plugins: Mapping[str, bytes], tools: Tools) -> dict[str, Piece]:
  """Every file of a wheel that is not the official one's as it is, less RECORD.

  Args:
    order: which wheel.
    upstream: the official wheel.
    laid: its series.
    below: the official files that they change.
    own: the checkout's files.
    plugins: the libraries in C.
    tools: what it is written with.

  Raises:
    BuildError: files clash, or what the profile names is not as it has to be.
  """
  # Only what builds or verifies a wheel needs its library.
  from infra.wheel.bom_components import write_bom

  wheel = order.wheel
  pieces = contents.lay(upstream, below, own, contents.built(plugins),
                        contents.bundled(order.profile, upstream))
  rewritten = contents.metadata_files(order.root, upstream, wheel)
  requires = metadata.requirements(
      rewritten[f'{wheel.info}/METADATA'].data.decode())
  bom = write_bom(order, requires, laid, pieces, tools)
  return pieces | rewritten | {wheel.bom: Piece(bom.encode(), Origin.METADATA)}
