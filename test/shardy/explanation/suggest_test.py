"""What is suggested: the smallest programs, and a script."""

import itertools
import json
import os
import signal
import subprocess
import sys

import numpy as np
import processes
import pytest

pytest.importorskip('jaxlib', reason='needs jaxlib: MLIR')
# pylint: disable=wrong-import-position
from small_programs import explained_of, T
from torch_xla.distributed.spmd import policy
from torch_xla.shardy import explanation
from torch_xla.shardy.explanation import by_level, search, suggestion, trial

ENVIRONMENT = {}  # Beside the tests that need no child.
_SETTINGS = dict(PJRT_DEVICE='CPU', CPU_NUM_DEVICES='8', XLA_USE_SHARDY='1')
# What b is used with is split as b is: to follow a moves three tensors.
_THREE_TO_ONE = f"""%n = stablehlo.negate %a : {T}
  %1 = stablehlo.add %n, %b : {T}
  %2 = stablehlo.add %1, %b : {T}
  %0 = stablehlo.dot_general %2, %b, contracting_dims = [1] x [1] :
    ({T}, {T}) -> {T}"""


def _tried(a: str, b: str) -> tuple[list[search.Program], list[search.Tried]]:
  explained = explained_of(_THREE_TO_ONE, a, b)
  programs = [search.Program(explained.program, explained.propagation)]
  items = search.items_of(programs)
  return programs, list(search.search(programs, items, lambda: True))


def test_all_orders_of_two():
  programs, tried = _tried('{"x"}p0, {}', '{}, {"x"}p1')
  assert tried[0].changed == 0
  assert {tuple(level for _, level in one.priorities) for one in tried
         } == {(0, 0), (0, 1), (1, 0)}
  own = sum(move.nbytes for move in programs[0].propagation.moves)
  assert tried[0].nbytes == own
  best, = search.best_of(tried, 3)
  assert best.nbytes < own
  assert dict(best.priorities) == {('a', 0): 1, ('b', 1): 0}
  # Said by the script, it is where the search starts, and the least.
  _, other = _tried('{"x"}p1, {}', '{}, {"x"}p0')
  assert (other[0].nbytes, other[0].changed) == (best.nbytes, 0)
  assert search.best_of(other, 3) == []


def test_level_by_level_is_as_the_whole_pass():
  constrained = _THREE_TO_ONE.replace('%1, %b', '%c, %b').replace(
      '%2 =', f"""%c = sdy.sharding_constraint %1
      <@mesh, [{{"y"}}p1, {{}}]> : {T}
  %2 =""")
  program = explained_of(constrained, '{"x"}p0, {"y":(1)2}p2',
                         '{?}, {"x"}p1').program
  levels = by_level.ByLevel(program)
  for a, b, c in itertools.product(range(3), repeat=3):
    said = {('input: 0', 0): a, ('input: 0', 1): b, ('input: 1', 1): c}
    assert levels.moved(said) == trial.moved(program, said)
  assert levels._is_exact


def test_what_has_no_name_is_passed_by_on_both_sides():
  explained = explained_of(_THREE_TO_ONE, '{"x"}p0, {}', '{}, {"x"}p0')
  unnamed = explanation.explain('m', explained.program, {0: 'a'})
  programs = [search.Program(unnamed.program, unnamed.propagation)]
  items = search.items_of(programs)
  assert items == (('a', 0),)
  tried = list(search.search(programs, items, lambda: True))
  assert {dict(one.priorities)['a', 0] for one in tried} == {0, 1}


def test_without_priorities():
  programs, tried = _tried('{"x"}p1, {}', '{}, {"x"}p0')
  levels = {tuple(l for _, l in one.priorities): one.nbytes for one in tried}
  assert search.moved_without_priorities(programs) == levels[
      0, 0] > tried[0].nbytes


def test_search_of_many_goes_on_while_that_helps(monkeypatch):
  monkeypatch.setattr(search, '_MOST_ITEMS', 1)
  _, tried = _tried('{"x"}p0, {}', '{}, {"x"}p1')
  _, again = _tried('{"x"}p0, {}', '{}, {"x"}p1')
  assert tried == again
  assert min(tried).nbytes < tried[0].nbytes


def test_budget_ends_the_search():
  explained = explained_of(_THREE_TO_ONE, '{"x"}p0, {}', '{}, {"x"}p1')
  programs = [search.Program(explained.program, explained.propagation)]
  turns = itertools.chain([True], itertools.repeat(False))
  assert len(
      list(
          search.search(programs, search.items_of(programs),
                        lambda: next(turns)))) == 2


def _ran(nbytes: int, value: float = 1.) -> dict:
  return dict(nbytes=nbytes, count=1, seconds=1., values={'a': value})


def test_chosen_is_what_computes_the_same_and_moves_least():
  rows = [suggestion.Row(name, 0, {}) for name in 'abc']
  assert suggestion.chosen(rows, [_ran(3), _ran(1, 2.), _ran(2)]) == rows[2]
  assert suggestion.chosen(rows, [_ran(3), None, _ran(3)]) is None
  beside = [*rows[:2], suggestion.Row('another script', None, {})]
  assert suggestion.chosen(beside, [_ran(3), _ran(2), _ran(1)]) == rows[1]
  assert suggestion.chosen(rows, [_ran(3), _ran(1, float('nan')), None]) is None
  assert 'failed' in suggestion.table(rows, [_ran(3), None, _ran(3)])[2]


def test_ahead_of_time_the_fewest_cycles_are_chosen():
  rows = [suggestion.Row(name, 0, {}) for name in 'ab']
  ran = [{**_ran(1), 'cycles': 9}, {**_ran(2), 'cycles': 4}]
  assert suggestion.chosen(rows, ran) == rows[1]
  ran[1]['fits'] = False
  assert suggestion.chosen(rows, ran) is None


def test_lines_and_policy():
  programs, tried = _tried('{"x"}p0, {}', '{}, {"x"}p1')
  best, = search.best_of(tried, 1)
  row = suggestion.Row('1.', best.nbytes, suggestion.by_group(best))
  assert list(suggestion.lines(programs, row)) == [
      'least is moved with 1:',
      "  a: xs.mark_sharding(..., ('x', None), priority=(1, None))",
      "  b: xs.mark_sharding(..., (None, 'x'), priority=(None, 0))",
  ]
  text = suggestion.policy(programs, row, frozenset(('b',)))
  rule, = policy.ShardingPolicy.from_toml(text).rules
  assert (rule.pattern, rule.spec, rule.priority) == ('b', (None, 'x'), (None,
                                                                         0))


_SCRIPT = """
import numpy as np, torch, torch_xla, torch_xla.runtime as xr
import torch_xla.distributed.spmd as xs
xr.use_spmd()
torch.manual_seed(0)
mesh = xs.Mesh(np.arange(8), (8,), ('x',))
net = torch.nn.Sequential(torch.nn.Embedding(64, 16), torch.nn.GELU(),
                          torch.nn.Linear(16, 1024)).to('xla')
tokens = torch.randint(0, 64, (512,)).to('xla')
xs.mark_sharding(net[0].weight, mesh, (None, 'x'), priority=(None, 0))
xs.mark_sharding(tokens, mesh, ('x',), priority=(1,))
torch_xla.shardy.name_tensors(dict(net.named_parameters(), tokens=tokens))
torch_xla.sync()
net(tokens).pow(2).mean().backward()
torch_xla.sync()
"""


def _retold() -> list:
  """The priorities in a program's bindings, before and after."""
  import torch
  import torch_xla
  import torch_xla.distributed.spmd as xs
  import torch_xla.runtime as xr
  from torch_xla.shardy.annotate import call_target
  from torch_xla.shardy.explanation import rerun
  from torch_xla.shardy.hlo import messages, protos
  xr.use_spmd()
  mesh = xs.Mesh(np.arange(8), (8,), ('x',))
  one, other = (torch.zeros(8, 8).to('xla') for _ in range(2))
  xs.mark_sharding(one, mesh, (None, 'x'), priority=(None, 3))
  xs.mark_sharding(other, mesh, ('x', None))
  torch_xla.shardy.name_tensors({'h.0.w': one, 'b': other})
  total = one + other
  with torch_xla.shardy.record() as programs:
    torch_xla.sync()
  del total
  sent = programs[0].sent
  return [[
      said.priority
      for computation in messages.parse(protos.HloModuleProto,
                                        program).computations
      for instruction in computation.instructions
      if call_target.is_binding(instruction.custom_call_target)
      for said in call_target.parse_target(instruction.custom_call_target)
  ]
          for program in (sent, rerun.retell(sent, {'h.*.w': {
              1: 0
          }}), rerun.retell(sent, {
              'h.*.w': {
                  1: None
              },
              'b': {
                  0: 2
              }
          }))]


def test_programs_are_retold_by_name():
  assert [set(said) for said in processes.call(_retold, **_SETTINGS).value
         ] == [{(None, 3), None}, {(None, 0), None}, {None, (2, None)}]


def _names_of_values(path: str) -> list[str]:
  from torch_xla.shardy.explanation import rerun, script
  ran = script.run(path, [], False)
  names = [name for name, _ in rerun._values()]
  del ran
  return names


def test_values_are_those_of_a_scripts_globals(tmp_path):
  path = tmp_path / 'script.py'
  path.write_text('import torch, torch_xla\n'
                  "a = torch.ones(2).to('xla')\n"
                  "torch_xla.shardy.name_tensors({'a': a})\n")
  assert processes.call(_names_of_values, str(path), **_SETTINGS).value == ['a']


@pytest.mark.nightly
def test_script(tmp_path):
  script, written = tmp_path / 'script.py', tmp_path / 'policy.toml'
  script.write_text(_SCRIPT)
  ended = processes.command('torch_xla.shardy', 'suggest', '--write', written,
                            script, **_SETTINGS)
  assert ended.returncode == 0, ended.stderr
  assert '3 priced' in ended.stderr or '4 priced' in ended.stderr
  rows = ended.stdout.splitlines()
  compiled = {
      row.split('  ')[0]: int(row.split()[-5].replace(',', ''))
      for row in rows[1:]
      if row.endswith('e+00')
  }
  assert compiled['1.'] < compiled["the script's own"]
  assert 'tokens: xs.mark_sharding' in ended.stdout
  assert 'pattern = "0.weight"' in written.read_text()
  assert 'tokens' not in written.read_text()


@pytest.mark.nightly
def test_script_for_a_topology(tmp_path):
  pytest.importorskip('libtpu', reason='needs libtpu: the TPU compiler')
  script = tmp_path / 'script.py'
  script.write_text(_SCRIPT)
  ended = processes.command('torch_xla.shardy', 'suggest', '--topology',
                            'v5e:2x4', script, **_SETTINGS)
  assert ended.returncode == 0, ended.stderr
  own, *_, best = (
      int(row.split('  ')[-2].replace(',', ''))
      for row in ended.stdout.splitlines()
      if row.endswith('KiB'))
  assert best < own
  assert 'the fewest cycles are taken with 1:' in ended.stdout


@pytest.mark.nightly
def test_an_interrupted_search_is_resumed(tmp_path):
  (tmp_path / 'script.py').write_text(_SCRIPT)
  command = [
      sys.executable, '-m', 'torch_xla.shardy', 'suggest', '--resume', 'ran',
      'script.py'
  ]
  settings = dict(cwd=tmp_path, env={**os.environ, **_SETTINGS}, text=True)
  with subprocess.Popen(
      command, stderr=subprocess.PIPE, start_new_session=True,
      **settings) as running:
    for line in running.stderr:
      if line.startswith('2 of 2'):
        os.killpg(running.pid, signal.SIGINT)
    assert running.wait() == 130
  before = json.loads((tmp_path / 'ran').read_text())
  assert len(before) == 1
  subprocess.run(command, check=True, **settings)
  after = json.loads((tmp_path / 'ran').read_text())
  # What ran before did not run again, so took as long.
  assert len(after) == 2 and before.items() <= after.items()
