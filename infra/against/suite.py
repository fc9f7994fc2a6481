"""Which tests judge which series, and what has to lie around them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
import shutil

from infra.patchset import files
from infra.patchset.manifest import Manifest

BEHAVIOUR = 'test/behaviour/'
PLUGIN = 'against_plugin'
PROBE = 'probe.py'


@dataclass(frozen=True)
class Suite:
  """The behaviour tests of one series.

  Attributes:
    series: its name in series.toml.
    feature: the probe's name for what the series brings.
    called: the same for people.
    lacking: how a verdict says that it is not there.
    tests: folders or files of the checkout, as pytest takes them.
    environment: which modes of `torch_xla_form` its tests need.
    always: whether the tests run though the probe does not find the feature:
      they use nothing that only comes with it.
  """
  series: str
  feature: str
  called: str
  lacking: str
  tests: tuple[str, ...]
  environment: str
  always: bool = False


SUITES = (
    Suite(
        'dynamo-replicated-spec',
        'retrace',
        'retracing',
        'retracing not mended',
        ('test/behaviour/retrace/replicated_spec_test.py',),
        'OFF',
        always=True),
    Suite('v2-sharding', 'v2', 'V2', 'no V2', ('test/behaviour/v2',), 'V2'),
    Suite('sharding-priority', 'priority', 'priorities', 'no priorities',
          ('test/behaviour/priority',), 'SHARDY'),
)

# Upstream's settings are not ours, and above the folder may be a project's.
_SETTINGS = '[pytest]\npython_files = *_test.py\naddopts = --strict-markers\n'


def lay(root: Path, manifest: Manifest, tree: Path) -> None:
  """Copies the tests, their tools, the probe and the plugin into a folder.

  They are run there, so that nothing of the checkout is in reach.
  """
  names = {
      path.relative_to(root).as_posix()
      for path in (root / BEHAVIOUR).rglob('*.py')
  }
  for suite in SUITES:
    names |= {t for t in suite.tests if t.endswith('.py')}
  for name in sorted({*names, *files.test_base(root, manifest)}):
    target = tree / name
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(root / name, target)
  here = root / 'infra' / 'against'
  shutil.copyfile(here / PROBE, tree / PROBE)
  shutil.copyfile(here / 'plugin.py', tree / f'{PLUGIN}.py')
  (tree / 'pytest.ini').write_text(_SETTINGS, encoding='utf-8')
