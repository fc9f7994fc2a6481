"""Takes the pictures of the tools' pages, in the suite's browser, of real runs.

`python test/page_pictures.py` writes audit.png, aot.png and conformance.png into
docs/pictures/; names after it, as `aot`, only those. The runs are those that the
tools' pages in docs/ show, on eight virtual CPU devices and for eight chips.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
import subprocess
import sys
import sysconfig
import tempfile

import browsing
from docs_test import blocks_of
from processes import clean_environment

_ROOT = Path(__file__).parents[1]
PICTURES = _ROOT / 'docs/pictures'
# Pixels of the page; wide enough for its tables.
_WIDTH = 1180
SCALE = 0.72


@dataclasses.dataclass(frozen=True)
class Run:
  """A run of a tool, in a folder with `examples` and the audited `train.py`.

  Attributes:
    arguments: of `torch-xla-shardy`; they have it write `page.html`.
    height: how much of the page is seen, in its pixels.
  """
  arguments: tuple[str, ...]
  variables: dict[str, str]
  height: int


RUNS = {
    'audit':
        Run(('audit', '--tolerance', '12000', '--html', 'page.html',
             'train.py'), {
                 'PJRT_DEVICE': 'CPU',
                 'CPU_NUM_DEVICES': '8',
                 'XLA_USE_SHARDY': '1'
             }, 1240),
    'aot':
        Run(('aot', '--topology', 'v5e:2x4', '--html', 'page.html',
             'examples/ahead_of_time.py', '--first', 'batch'),
            {'XLA_USE_SHARDY': '1'}, 900),
    'conformance':
        Run(('conformance', '--device', 'XLACPU', '--only', 'start.*',
             'donation.*', 'priorities.*', '--html', 'page.html'),
            {'CPU_NUM_DEVICES': '8'}, 900),
}


def size(run: Run) -> tuple[int, int]:
  """Width and height of the picture of a run, in pixels."""
  return round(_WIDTH * SCALE), round(run.height * SCALE)


def take(name: str, pictures: Path) -> Path:
  """Runs a tool, and takes the picture of its page.

  Raises:
    subprocess.CalledProcessError: the tool failed; it said why.
  """
  run = RUNS[name]
  with tempfile.TemporaryDirectory() as folder:
    page = Path(folder, 'page.html')
    Path(folder, 'examples').symlink_to(_ROOT / 'examples')
    script = next(
        b for b in blocks_of('docs/policy.md') if b.language == 'python')
    Path(folder, 'train.py').write_text(script.text)
    subprocess.run([sys.executable, '-m', 'torch_xla.shardy', *run.arguments],
                   cwd=folder,
                   env=clean_environment(**run.variables),
                   check=True)
    # Where this machine keeps its packages is nobody's business.
    text = page.read_text(encoding='utf-8')
    page.write_text(
        text.replace(f'{sysconfig.get_path("purelib")}/', ''), encoding='utf-8')
    picture = pictures / f'{name}.png'
    browsing.photograph(browsing.find(), page, picture, (_WIDTH, run.height),
                        SCALE)
  return picture


if __name__ == '__main__':
  for chosen in sys.argv[1:] or RUNS:
    print(take(chosen, PICTURES))
