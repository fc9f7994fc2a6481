"""The doctor's reports, and its findings by versions and variables alone."""

import ctypes.util
import json
import os

from printed import assert_printed
import pytest
from torch_xla.shardy.doctor import Finding, Diagnosis, Status, versions
from torch_xla.shardy.doctor.variables import (is_in_time, Kind, misread,
                                               Moment, Variable)


def test_table_fits_80_columns():
  report = Diagnosis((
      Finding('torch', Status.OK, 'torch 2.9.0'),
      Finding(
          'probe.computation', Status.ERROR,
          f'bytes are wrong, and {"a-path/" * 12}libtpu.so does not fit',
          'the device, its driver or its plugin is broken, or they do not '
          'match'),
  ))
  assert_printed(
      str(report), '''\
STATUS   CHECK              FOUND
ok       torch              torch 2.9.0
error    probe.computation  bytes are wrong, and a-path/a-path/a-path/a-path/a-p
                            ath/a-path/a-path/a-path/a-path/a-path/a-path/a-path
                            /libtpu.so does not fit
                            -> the device, its driver or its plugin is broken,
                               or they do not match

1 error(s), 0 warning(s)''')
  assert max(map(len, str(report).splitlines())) <= 80
  assert not report.ok


def test_json_is_sorted_and_says_all():
  finding = Finding('spmd', Status.WARNING, 'off', 'turn it on')
  report = Diagnosis((finding,))
  data = json.loads(report.to_json())
  assert data == {
      'schema':
          1,
      'ok':
          True,
      'findings': [{
          'check': 'spmd',
          'message': 'off',
          'remedy': 'turn it on',
          'status': 'warning'
      }]
  }
  assert report.to_json() == json.dumps(data, indent=2, sort_keys=True)
  assert Finding.from_dict(data['findings'][0]) == finding


_FLAGS = Variable('XLA_FLAGS', Moment.RUNTIME, Kind.XLA_FLAGS)
_PATH = Variable('XLA_PERSISTENT_CACHE_PATH', Moment.CACHE)
_OWN = '--xla_cpu_enable_fast_math=false'


@pytest.mark.parametrize(
    'variable, start, now, expected',
    [
        (_PATH, 'a', 'a', True),
        (_PATH, None, 'a', False),
        (_PATH, 'a', None, False),
        # torch_xla's own additions are nobody's change.
        (_FLAGS, None, f' {_OWN}', True),
        (_FLAGS, '--a=1', f'--a=1 {_OWN}', True),
        (_FLAGS, None, f'{_OWN} --a=1', False),
    ])
def test_what_is_in_time(variable, start, now, expected):
  environment = lambda value: {} if value is None else {variable.name: value}
  assert is_in_time(variable, environment(start), environment(now)) is expected


def test_what_is_in_time_where_the_first_environment_is_unknown():
  assert not is_in_time(_PATH, None, {_PATH.name: 'a'})
  assert is_in_time(_PATH, None, {})


@pytest.mark.parametrize('kind, value, wrong', [
    (Kind.FLAG, '1', False),
    (Kind.FLAG, 'true', False),
    (Kind.FLAG, 'True', True),
    (Kind.FLAG, 'on', True),
    (Kind.MODE_FLAG, 'on', False),
    (Kind.MODE_FLAG, 'enabled', True),
    (Kind.COUNT, '8', False),
    (Kind.COUNT, '0', True),
    (Kind.COUNT, '-1', True),
    (Kind.COUNT, 'eight', True),
    (Kind.COUNT, '', True),
])
def test_misread(kind, value, wrong):
  assert bool(misread(Variable('V', None, kind), value)) is wrong


@pytest.mark.parametrize('torch, torch_xla, status', [
    ('2.9.0+cu128', '2.9.0+shardy.1', Status.OK),
    ('2.9.1', '2.9.0', Status.OK),
    ('2.10.0', '2.9.0', Status.ERROR),
])
def test_torch_goes_with_torch_xla(torch, torch_xla, status):
  assert versions.judge_torch(torch, torch_xla)[0] is status


@pytest.mark.parametrize('version, needed, status', [
    ('0.0.21', True, Status.OK),
    ('0.0.9', True, Status.ERROR),
    ('0.0.9', False, Status.OK),
    ('0.0.42.1', True, Status.WARNING),
    (None, True, Status.OK),
])
def test_libtpu_goes_with_torch_xla(version, needed, status):
  judged, _, *remedy = versions.judge_package('libtpu', version, '0.0.21',
                                              needed)
  assert judged is status
  assert bool(remedy) is (status is not Status.OK)


def test_torch_xla_of_two_installations():
  assert versions.judge_torch_xla('2.9.0', '2.8.0')[0] is Status.ERROR
  assert versions.judge_torch_xla('2.9.0', None)[0] is Status.WARNING


def test_pins_are_those_of_the_wheel():
  assert {'libtpu', 'jaxlib', 'jax'} <= set(versions.pins())


@pytest.mark.parametrize('library, reason', [
    ('/nonexistent/plugin.so', 'cannot open shared object file'),
    (__file__, 'invalid ELF header'),
    (ctypes.util.find_library('m'), 'is no PJRT plugin'),
], ids=['missing', 'no library', 'no plugin'])  # yapf: disable
def test_library_that_is_no_plugin(library, reason):
  status, message, _ = versions.judge_plugin(library, True)
  assert status is Status.ERROR
  assert library in message and reason in message


def test_api_version_of_a_real_plugin():
  plugin = pytest.importorskip('xla_plugins.xla_cpu_pjrt')
  library = os.path.join(list(plugin.__path__)[0], 'xla_cpu_pjrt.so')
  assert versions.api_version(library) == (0, 81)
  assert versions.judge_plugin(library, True)[0] is Status.OK
  # Older structs are refused where no shim fits them (measured: Execute is).
  assert versions.judge_plugin(library, False)[0] is Status.WARNING
