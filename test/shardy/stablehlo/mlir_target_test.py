"""What a plugin gets by its attributes, and the versions of artifacts."""

import dataclasses

import mlir_modules as modules
import pytest
from torch_xla.shardy.errors import DoorError
from torch_xla.shardy.hlo.compile_options import CompileOptions, Partitioner
from torch_xla.shardy.mode import Mode
from torch_xla.shardy.stablehlo import dialects, target
from torch_xla.shardy.stablehlo.forms import Form
from torch_xla.shardy.stablehlo.planner import Planner

pytest.importorskip('jaxlib', reason='needs jaxlib: it reads and writes MLIR')

_F = modules.F
_ONE = CompileOptions(Partitioner.NONE, 1, 1)


class _Plugin:
  """A DevicePlugin that says nothing."""


class _Says:
  """One that says what it takes."""

  def __init__(self, form=None, program_format='hlo'):
    self._form, self._format = form, program_format

  def sharding_form(self):
    return self._form

  def program_format(self):
    return self._format


def _choose(version, plugin=_Plugin(), minimum=None) -> target.Target:
  told = {
      'stablehlo_current_version': version,
      'stablehlo_minimum_version': minimum,
  }
  return target.choose(plugin, told.__getitem__)


def _echo() -> str:
  return f'func.func @main(%a: {_F}) -> {_F} {{ return %a : {_F} }}'


def _artifact(version) -> bytes:
  return dialects.write(modules.read(_echo()), version)


@pytest.mark.parametrize('version, form', [
    ('1.10.9', Form.ATTRIBUTES),
    ('1.11.0', Form.SDY),
    ('1.12.1', Form.SDY),
    ('1.9.10', Form.ATTRIBUTES),
    ('0.9.0', Form.ATTRIBUTES),
])
def test_by_the_version_of_the_plugin(version, form):
  parsed = dialects.parse_version(version)
  chosen = _choose(parsed)
  assert (chosen.form, chosen.version) == (form, parsed)
  why, written = chosen.reason.split('; ')
  side = 'or later' if form is Form.SDY else 'older than'
  assert why.startswith(f'the plugin reads StableHLO {version}, ')
  assert '1.11.0' in why and side in why
  assert version in written and 'the plugin' in written
  # Whatever came: it is the newest that both know.
  assert chosen.version_for(_artifact(dialects.current_version())) == parsed


def test_a_plugin_newer_than_jaxlib():
  ours = dialects.current_version()
  chosen = _choose((99, 0, 0))
  assert (chosen.form, chosen.version) == (Form.SDY, ours)
  why, written = chosen.reason.split('; ')
  assert 'reads StableHLO 99.0.0' in why
  assert '.'.join(map(str, ours)) in written and 'jaxlib' in written


def test_a_plugin_that_says_nothing():
  """Its artifacts are in the version of what came, as they are today."""
  chosen = _choose(None)
  assert (chosen.form, chosen.version) == (Form.ATTRIBUTES, None)
  why, written = chosen.reason.split('; ')
  assert why == 'the plugin has no attribute stablehlo_current_version'
  assert written.endswith('in the version that torch_xla sends')
  assert chosen.version_for(_artifact((1, 5, 0))) == (1, 5, 0)
  # Of what came as text or HLO nothing is known: XLA's word is taken.
  assert chosen.version_for(b'module {}') == dialects.cautious_version()
  assert dialects.oldest_version() < dialects.cautious_version(
  ) < dialects.current_version()


def test_artifacts_newer_than_jaxlib_are_written_in_its_version():
  newer = b'ML\xefR\rStableHLO_v99.1.2\0'
  assert dialects.artifact_version(newer) == (99, 1, 2)
  assert _choose(None).version_for(newer) == dialects.current_version()


def test_a_plugin_older_than_what_jaxlib_writes():
  with pytest.raises(DoorError) as raised:
    _choose((0, 1, 0))
  oldest = '.'.join(map(str, dialects.oldest_version()))
  assert str(raised.value) == (
      'the plugin reads StableHLO up to 0.1.0, and the installed jaxlib writes '
      f'{oldest} and later; install an older jaxlib')


@pytest.mark.parametrize('version, minimum, said', [
    ((1, 13), None, 'stablehlo_current_version of the PJRT plugin is [1, 13]'),
    ((1, 13, 0, 0), None, 'is [1, 13, 0, 0]: a version is three numbers'),
    ((1, -1, 0), None, 'is [1, -1, 0]'),
    ((), None, 'is []'),
    ((1, 13, 0), (1,), 'stablehlo_minimum_version of the PJRT plugin is [1]'),
    (None, (99, 0, 0), 'from 99.0.0 on, and the installed jaxlib writes up to'),
    ((1, 9, 0), (1, 10, 0), 'from 1.10.0 on (stablehlo_minimum_version) and up '
     'to 1.9.0 (stablehlo_current_version), so none'),
])
def test_versions_that_nobody_can_write(version, minimum, said):
  with pytest.raises(DoorError) as raised:
    _choose(version, minimum=minimum)
  assert said in str(raised.value)


def test_a_plugin_that_says_its_oldest_alone():
  """What came in an older version is written anew, and not handed on."""
  chosen = _choose(None, minimum=(1, 9, 0))
  came = _artifact((1, 5, 0))
  assert chosen.version_for(came) == (1, 9, 0)
  for oldest, written in ((chosen.oldest, (1, 9, 0)), ((), (1, 5, 0))):
    planner = Planner(
        Mode.V2,
        target=lambda oldest=oldest: dataclasses.replace(chosen, oldest=oldest))
    first = planner(came, 'mlir', _ONE).attempt()
    assert dialects.artifact_version(first.program) == written


@pytest.mark.parametrize('version', [None, (1, 10, 0), (1, 12, 0)])
@pytest.mark.parametrize('form', Form)
def test_override(form, version):
  chosen = _choose(version, _Says(form.value))
  assert (chosen.form, chosen.version) == (form, version)
  assert chosen.reason.startswith('_Says.sharding_form() says so; ')


@pytest.mark.parametrize('form', ['SDY', '', 'mhlo.sharding', 1, Form.SDY])
def test_override_of_an_unknown_form(form):
  with pytest.raises(DoorError) as raised:
    _choose((1, 12, 0), _Says(form))
  assert str(raised.value) == (
      f'_Says.sharding_form() gives {form!r}; it must be one of '
      "'sdy', 'attributes', 'plain'")


def test_program_format():
  assert not target.takes_stablehlo(_Plugin())
  assert not target.takes_stablehlo(_Says(program_format='hlo'))
  assert target.takes_stablehlo(_Says(program_format='mlir'))


@pytest.mark.parametrize('program_format', ['stablehlo', 'MLIR', None, ''])
def test_unknown_program_format(program_format):
  with pytest.raises(DoorError) as raised:
    target.takes_stablehlo(_Says(program_format=program_format))
  assert f'_Says.program_format() gives {program_format!r}' in str(raised.value)
  assert "'hlo'" in str(raised.value) and "'mlir'" in str(raised.value)


@pytest.mark.parametrize('version', [(0, 9, 0), (0, 17, 6), (1, 0, 0),
                                     (1, 10, 9), (1, 11, 0), (1, 13, 0)])
def test_round_trip(version):
  """Old ones are in another version of MLIR's bytecode, too."""
  artifact = _artifact(version)
  assert dialects.artifact_version(artifact) == version
  assert dialects.text(dialects.read(artifact)) == dialects.text(
      modules.read(_echo()))


@pytest.mark.parametrize('program', [
    b'', b'module {}', b'ML\xefR\rMLIR19.0.0git\0',
    b' ML\xefR\rStableHLO_v1.0.0\0', b'ML\xefR\rStableHLO_v1.0\0'
])
def test_what_is_no_artifact(program):
  assert dialects.artifact_version(program) is None


@pytest.mark.parametrize('version, element, since', [
    ((1, 7, 0), 'f8E8M0FNU', '1.8.0'),
    ((0, 19, 0), 'f8E3M4', '1.7.0'),
])
def test_what_a_version_has_not(version, element, since):
  """It cannot be written, and nothing goes to stderr in place of that."""
  text = _echo().replace('f32', element)
  with pytest.raises(dialects.ProgramTextError) as raised:
    dialects.write(modules.read(text), version)
  said = '.'.join(map(str, version))
  assert f'cannot write a program as StableHLO {said}: ' in str(raised.value)
  assert 'failed to legalize' in str(raised.value)
  assert len(str(raised.value)) < 500
  later = dialects.parse_version(since)
  assert dialects.artifact_version(dialects.write(modules.read(text),
                                                  later)) == later


@pytest.mark.parametrize(
    'damage', [
        lambda a: a[:len(a) // 2], lambda a: a[:-1], lambda a: a[:30],
        lambda a: a[:60] + b'\xff\xff\xff' + a[63:], lambda a: b'no ' + a
    ],
    ids=['half', 'one short', 'the head', 'garbled', 'behind something'])
def test_damaged_artifact(damage, capfd):
  with pytest.raises(dialects.ProgramTextError, match='cannot read a program'):
    dialects.read(damage(_artifact((1, 12, 0))))
  assert capfd.readouterr() == ('', '')


@pytest.mark.parametrize('text, message', [
    ('"acme.x"() : () -> ()', 'unregistered dialect'),
    ('acme.x', "Dialect `acme' not found"),
    ('stablehlo.no_such', 'stablehlo.no_such'),
    ('%0 = stablehlo.add %a, %b : tensor<f32>', 'use of undeclared SSA'),
])
def test_what_jaxlib_cannot_parse(text, message, capfd):
  with pytest.raises(dialects.ProgramTextError) as raised:
    modules.read(f'func.func @main() {{\n{text}\nreturn }}')
  assert message in str(raised.value)
  assert str(raised.value).startswith('jaxlib ')
  assert capfd.readouterr() == ('', '')
