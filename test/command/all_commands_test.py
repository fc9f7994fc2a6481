"""`torch-xla-shardy`: what all commands have in common."""

from __future__ import annotations

import json
import os
from pathlib import Path
import resource
import subprocess
import sys

import processes
import pytest
import torch_xla
from torch_xla_shardy import commands, main, parser, terminal

_NAMES = commands.names()


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
  with pytest.raises(SystemExit) as ended:
    main.main(list(arguments))
  assert ended.value.code == 2
  return capsys.readouterr().err


def test_help_tells_of_every_command(capsys: pytest.CaptureFixture[str]):
  assert main.main(['--help']) == 0
  told = capsys.readouterr().out
  assert {'audit', 'doctor', 'explain'} <= {*_NAMES}
  for name in _NAMES:
    assert f'  {name} ' in told
    assert commands.summary(name).split()[0] in told


@pytest.mark.parametrize('name', _NAMES)
def test_help_of_a_command(name: str, capsys: pytest.CaptureFixture[str]):
  with pytest.raises(SystemExit) as ended:
    main.main([name, '--help'])
  assert ended.value.code == 0
  told = capsys.readouterr().out
  assert max(map(len, told.splitlines())) <= 80
  told = ' '.join(told.split())
  assert f'usage: torch-xla-shardy {name}' in told
  assert 'Exit status: 0 ' in told and '130 if interrupted' in told


def test_a_command_of_a_distribution_that_is_not_installed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
  monkeypatch.setitem(sys.modules, 'torch_xla_conformance', None)
  told = ' '.join(refused(capsys, 'conformance', '--plugin', 'a.so').split())
  assert ('pip install torch_xla_conformance-'
          f'{torch_xla.__version__}-py3-none-any.whl') in told


def test_nothing_of_torch_is_imported_before_a_command_runs():
  said = processes.output_of('''
import sys
from torch_xla_shardy import commands, main
assert main.main(['--help']) == 0 and main.main(['--version']) == 0
print(sorted({n.split('.')[0] for n in sys.modules} & {
    'torch', 'torch_xla', 'numpy', 'google', 'jaxlib', 'rich', 'asyncio'}))
''')
  assert said.splitlines()[-1] == '[]'


@pytest.mark.parametrize('arguments, said', [
    ([], f'name a command: {", ".join(_NAMES)}'),
    (['docter'], "no command 'docter': did you mean doctor?"),
    (['zzz'], f"no command 'zzz', but {_NAMES[0]}, "),
    (['doctor', '--jsno', 'x'
     ], '--jsno is not understood: did you mean --json'),
    (['explain', '--jsn', 'x.json', 'no.py'], 'did you mean --json?'),
    (['suggest', '--html', 'x'], '--html is not understood\n'),
    (['aot', '--json', __file__
     ], 'all_commands_test.py was taken as the value'),
    (['doctor', '--json', '/dev/full'
     ], '/dev/full cannot be written: No space left on device'),
    (['doctor', '--json'], 'argument --json: expected one argument'),
    (['doctor', '--json', 'no/where.json'
     ], 'no/where.json cannot be written: No such file or directory'),
    (['explain', 'no.py'], "there is no script 'no.py'"),
    (['export'], 'there is no script to run'),
    (['suggest', '-m'], '-m needs a module'),
    (['audit', '-m', 'no_such.thing'], "there is no module 'no_such'"),
    (['aot', '-m', 'json.no_such'], "there is no module 'json.no_such'"),
    (['suggest', '--beside', 'no.py', __file__], "there is no script 'no.py'"),
    (['suggest', '--best', '0', __file__], "'0' is no number, 1 or more"),
    (['explain', '--whole', '-1', __file__], "'-1' is no number of bytes"),
])
def test_wrong_usage(arguments: list[str], said: str,
                     capsys: pytest.CaptureFixture[str]):
  told = refused(capsys, *arguments)
  assert said in told and told.startswith('error: ') and told.count('\n') == 1


@pytest.mark.parametrize('init', ['r/__init__.py', 'a/b/__init__.py', 'n'])
def test_modules_below_folders_without_init(init: str, tmp_path: Path,
                                            monkeypatch: pytest.MonkeyPatch):
  """Nor is a package refused that says by itself where its modules are."""
  for name in ('r/s/train.py', 'a/b/train.py', 'e/__init__.py', init):
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).touch()
  (tmp_path / 'e/__init__.py').write_text('__path__ = [moved]')
  monkeypatch.chdir(tmp_path)
  for name in ('r.s.train', 'a.b.train', 'e.train'):
    assert commands.parser('audit').parse(['-m', name]).script == name


def test_what_follows_the_script_is_its_own():
  made = commands.parser('audit').parse(
      ['--tolerance', '2%', __file__, '--json', 'x', '-q'])
  assert made.script == __file__
  assert made.arguments == ['--json', 'x', '-q']
  assert (made.json, made.quiet) == (None, False)
  assert made.tolerance == '2%'


def test_a_full_disk_leaves_no_file(tmp_path: Path,
                                    capsys: pytest.CaptureFixture[str]):
  path, before = tmp_path / 'a', resource.getrlimit(resource.RLIMIT_FSIZE)
  resource.setrlimit(resource.RLIMIT_FSIZE, (4, before[1]))
  try:
    status = parser.status_of(lambda: parser.write(str(path), 'much') or 0)
    assert status == 0 and path.read_text() == 'much'
    assert parser.status_of(lambda: parser.write(str(path), 'more!') or 0) == 2
    assert path.read_text() == 'much'  # As it was before.
    path.unlink()
    assert parser.status_of(lambda: parser.write(str(path), 'more!') or 0) == 2
  finally:
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
  assert not path.exists()
  assert capsys.readouterr(
  ).err == f'error: {path} was not written: File too large\n' * 2


def _both(quiet: list[str]) -> None:
  made = parser.Parser('try', 'A try.')
  made.add_reports()
  options = made.parse(['--json', '-', *quiet])
  print('for people')
  subprocess.run(['echo', 'of a child'], check=True)
  with open(options.json, 'w', encoding='utf-8') as file:
    json.dump({'quiet': options.quiet}, file)


@pytest.mark.parametrize('quiet', [[], ['--quiet']])
def test_standard_output_is_for_json_alone(quiet: list[str]):
  called = processes.call(_both, quiet)
  assert json.loads(called.stdout) == {'quiet': bool(quiet)}
  assert sorted(called.stderr.split('\n')[:2]) == ['for people', 'of a child']


def test_an_interrupted_command(monkeypatch: pytest.MonkeyPatch):

  def interrupted(*_):
    raise KeyboardInterrupt

  monkeypatch.setattr(commands, 'module', interrupted)
  assert main.main(['doctor']) == 130


def _to_nobody() -> int:
  read, write = os.pipe()
  os.close(read)
  os.dup2(write, 1)
  return main.main(['--help'])


def test_a_closed_pipe_is_no_error():
  called = processes.call(_to_nobody)
  assert (called.value, called.stderr) == (0, '')


class _Terminal:

  def isatty(self) -> bool:
    return True


@pytest.mark.parametrize('variables, is_coloured', [
    ({}, True),
    ({
        'NO_COLOR': '1'
    }, False),
    ({
        'TERM': 'dumb',
        'FORCE_COLOR': '1'
    }, True),
])
def test_colours(variables: dict[str, str], is_coloured: bool,
                 monkeypatch: pytest.MonkeyPatch):
  for name in ('NO_COLOR', 'FORCE_COLOR', 'TERM'):
    monkeypatch.delenv(name, raising=False)
  for name, value in variables.items():
    monkeypatch.setenv(name, value)
  report = 'error    plugin\nan error in a line\nconforms, as far\nok'
  painted = terminal.painted(report, _Terminal())
  assert (painted != report) == is_coloured
  if is_coloured:
    assert painted == ('\033[1;31merror\033[0m    plugin\nan error in a line\n'
                       'conforms, as far\n'
                       '\033[32mok\033[0m')
