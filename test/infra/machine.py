"""A machine of stubs, with a copy of scripts to run on it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
import shutil
import subprocess

from infra_project import ROOT


class Machine:
  """A folder of programs, and a checkout whose scripts see no others.

  Attributes:
    root: the checkout.
    bin: the programs.
  """

  def __init__(self, folder: Path, files: Sequence[str], tools: Sequence[str]):
    """Copies files of the checkout, and links programs of this machine."""
    self.root = folder / 'checkout'
    self.bin = folder / 'bin'
    self.log = folder / 'log'
    self.bin.mkdir()
    self.log.touch()
    for name in files:
      to = self.root / name
      to.parent.mkdir(parents=True, exist_ok=True)
      shutil.copy(ROOT / name, to)
    for tool in tools:
      (self.bin / tool).symlink_to(shutil.which(tool))

  def stub(self, name: str, script: str) -> None:
    """Puts a program on the machine that is logged when it runs."""
    path = self.bin / name
    path.unlink(missing_ok=True)
    path.write_text(f'#!/bin/bash\necho "{name} $*" >> {self.log}\n{script}\n')
    path.chmod(0o755)

  def remove(self, name: str) -> None:
    (self.bin / name).unlink()

  def script(self,
             name: str,
             *arguments: str,
             folder: Path | None = None,
             **variables: str) -> subprocess.CompletedProcess:
    """Runs a script of the checkout, in a folder if one is given."""
    return subprocess.run([self.bin / 'bash', self.root / name, *arguments],
                          env={
                              'PATH': str(self.bin),
                              'HOME': '/nowhere'
                          } | variables,
                          cwd=folder,
                          capture_output=True,
                          text=True,
                          check=False)

  def ran(self, name: str) -> list[str]:
    """How often, and with what, a stub ran."""
    return [
        line for line in self.log.read_text().splitlines()
        if line.startswith(f'{name} ')
    ]
