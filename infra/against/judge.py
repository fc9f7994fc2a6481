"""Runs the probe and the tests in the target, and collects what they say."""

from __future__ import annotations

from concurrent import futures
from dataclasses import dataclass
import json
from pathlib import Path
import subprocess
from typing import Any, Sequence

from infra.against.report import Feature, Outcome
from infra.against.suite import PLUGIN, PROBE, Suite, SUITES
from infra.against.target import Target, TargetError
from infra.wheel import pins

# All held; some did not; none was left after the user's own choice.
_PYTESTS_STATUSES = (0, 1, 5)
_QUIET = ('-p', 'no:cacheprovider', '--continue-on-collection-errors',
          '--tb=no', '-rN')


@dataclass(frozen=True)
class Judge:
  """A target, with the folder that its processes run in.

  Attributes:
    tree: holds the tests.
    root: the checkout, which torch_xla must not come from.
  """
  target: Target
  tree: Path
  root: Path

  def probe(self) -> tuple[dict[str, Any], dict[str, Feature]]:
    """What the target's torch_xla is, and its features by name.

    Raises:
      TargetError: it has none, cannot import it, or imports another one.
    """
    facts = self._ask()
    if 'missing' in facts:
      raise TargetError(
          f'{self._who()} has no {facts["missing"]}: install it there, or name '
          'another interpreter')
    if 'import' in facts:
      raise TargetError(f'{self._who()} has a torch_xla that cannot be '
                        f'imported:\n{_last_lines(facts["import"])}')
    if 'error' in facts:
      raise TargetError(f'{self._who()} has a torch_xla that does not work:\n'
                        f'{_last_lines(facts["error"])}')
    self._check_place(Path(facts['file']))
    features = {s.feature: Feature(*facts.pop(s.feature)) for s in SUITES}
    with futures.ThreadPoolExecutor() as pool:
      switched = pool.map(self._switched_on, SUITES,
                          [features[s.feature] for s in SUITES])
      features = {s.feature: f for s, f in zip(SUITES, switched)}
    return facts, features

  def run(self, features: dict[str, Feature], tools: Sequence[Path],
          arguments: Sequence[str]) -> dict[str, Outcome]:
    """Runs the tests of what there is; pytest shows progress on stdout.

    Args:
      tools: folders with pytest, if the target has none of its own.
      arguments: further ones for pytest.

    Returns:
      By node id what became of each test that `arguments` leave.

    Raises:
      TargetError: pytest did not come to its end.
    """
    absent = [
        test for s in SUITES for test in s.tests
        if not s.always and not features[s.feature].usable
    ]
    environment = self.target.environment(self.tree, *tools) | {
        'AGAINST_ABSENT': ','.join(absent)
    }
    outcomes: dict[str, Outcome] = {}
    pending = [test for s in SUITES for test in s.tests]
    # A process that dies takes the tests behind with it: these are asked again.
    while pending:
      new = self._run_once(environment, [*arguments, *pending])
      outcomes |= new
      died: dict[str, list[str]] = {}
      for node, outcome in new.items():
        if outcome.outcome == 'died':
          died.setdefault(node.split('::')[0], []).append(node)
      for first, *_ in died.values():
        outcomes[first] = Outcome('failed', outcomes[first].reason)
      pending = [node for _, *behind in died.values() for node in behind]
      # They have been chosen already.
      arguments = ()
    return outcomes

  def _run_once(self, environment: dict[str, str],
                arguments: Sequence[str]) -> dict[str, Outcome]:
    """Runs pytest; gives what became of each test, in their order."""
    results = self.tree / 'results'
    results.write_text('')
    status = subprocess.run([
        str(self.target.python), '-m', 'pytest', '-p', PLUGIN, *_QUIET,
        *arguments
    ],
                            cwd=self.tree,
                            env=environment | {
                                'AGAINST_RESULTS': str(results)
                            },
                            stdin=subprocess.DEVNULL,
                            check=False).returncode
    if status not in _PYTESTS_STATUSES:
      raise TargetError(f'pytest ended with status {status}: see above')
    outcomes: dict[str, Outcome] = {}
    for line in results.read_text(encoding='utf-8').splitlines():
      fields = json.loads(line)
      node = fields.pop('node')
      # What fails at its end has failed, whatever it said before.
      if node not in outcomes or outcomes[node].outcome in ('passed',
                                                            'skipped'):
        outcomes[node] = Outcome(**fields)
    return outcomes

  def _who(self) -> str:
    folder = self.target.folder
    return f'the wheel in {folder}' if folder else str(self.target.python)

  def _ask(self, *arguments: str) -> dict[str, Any]:
    process = self.target.run([PROBE, *arguments], self.tree)
    try:
      return json.loads(process.stdout)
    except ValueError:
      ended = (f'was ended by signal {-process.returncode}'
               if process.returncode < 0 else
               f'ended with status {process.returncode}')
      return {'error': f'{process.stderr}\nthe process {ended}'}

  def _check_place(self, file: Path) -> None:
    """What is judged must be the target's own."""
    wanted = self.target.folder
    if wanted and not file.is_relative_to(wanted):
      raise TargetError(f'torch_xla came from {file}, not from {wanted}')
    checkout = self.root / pins.PACKAGE
    if file.is_relative_to(checkout):
      raise TargetError(
          f'{self.target.python} takes torch_xla from this checkout, {file}: '
          f'take {self.root} off its path')

  def _switched_on(self, suite: Suite, feature: Feature) -> Feature:
    """The feature, with what came of switching it on."""
    if suite.always or not feature.found:
      return feature
    answer = self._ask(suite.environment)
    if 'error' in answer:
      return Feature(
          True, f'{feature.how}; it cannot be switched on: '
          f'{_last_lines(answer["error"], 1)}', False)
    version = 'V2' if '<=' in answer['text'] else 'V1'
    return Feature(True, f'{feature.how}; shardings are read back as {version}')


def _last_lines(text: str, count: int = 6) -> str:
  return '\n'.join(text.strip().splitlines()[-count:])
