"""Looks whether a checkpoint has all that it was to have."""

from __future__ import annotations

from fsspec.core import url_to_fs
from torch_xla.experimental.distributed_checkpoint import (
    missing_from_checkpoint)

from .report import Diagnosis, Finding, one_line, Status

_LOST = (
    'earlier versions lost tensors that are replicated over some devices of '
    'a process: load another checkpoint, or leave these out')
_METADATA = '.metadata'


def check_checkpoint(path: str) -> Diagnosis:
  """Findings on a checkpoint, or each step of a `CheckpointManager`'s folder."""
  fs, root = url_to_fs(path)
  metadata = [f'{root}/{_METADATA}'] + sorted(
      fs.glob(f'{root}/*/{_METADATA}'), key=lambda p: (len(p), p))
  folders = [p.rpartition('/')[0] for p in metadata if fs.exists(p)]
  return Diagnosis(
      tuple(_finding(f) for f in folders) or
      (Finding('checkpoint', Status.ERROR, f'{path} has no {_METADATA}',
               'name a folder that a save came to its end in'),))


def _finding(folder: str) -> Finding:
  try:
    missing = missing_from_checkpoint(folder)
  except Exception as e:  # pylint: disable=broad-except
    return Finding('checkpoint', Status.ERROR,
                   f'{folder}: cannot be read: {one_line(str(e))}')
  if not missing:
    return Finding('checkpoint', Status.OK, f'{folder} has all it was to have')
  parts = '; '.join(f'of {name} {there}' for name, there in missing.items())
  return Finding('checkpoint', Status.ERROR, f'{folder} has {parts}', _LOST)
