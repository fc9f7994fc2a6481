"""What a vendor's wheel sets in the environment, and what a user overrides."""

import json

import pytest
from small_wheels import read, vendor
from torch_xla.shardy import vendor_defaults
from torch_xla.shardy.mode import Mode, mode_from_environment
from torch_xla.shardy.vendor_defaults import (defaults, effective_defaults,
                                              Vendor)

SHARDY = Vendor('acme', '2.9.0+acme.3', Mode.SHARDY, {'PJRT_DEVICE': 'ACME'})
V2 = Vendor('acme', '2.9.0+acme.3', Mode.V2, {})
OFF = Vendor('acme', '2.9.0+acme.3', Mode.OFF, {'A': '1'})


@pytest.fixture(name='wheels_file')
def wheels_file_fixture(tmp_path, monkeypatch):
  """Where this torch_xla would have a profile's defaults."""
  monkeypatch.setattr(vendor_defaults, '__file__', str(tmp_path / 'module.py'))
  vendor_defaults.installed.cache_clear()
  yield tmp_path / vendor_defaults.FILE
  vendor_defaults.installed.cache_clear()


def test_all_is_set_in_an_empty_environment():
  assert defaults(SHARDY, {}) == {'PJRT_DEVICE': 'ACME', 'XLA_USE_SHARDY': '1'}
  assert defaults(V2, {}) == {'XLA_SHARDING_V2': '1'}
  assert defaults(OFF, {}) == {'A': '1'}


@pytest.mark.parametrize('own', ['TPU', ''])
def test_a_variable_of_the_user_stays(own):
  assert 'PJRT_DEVICE' not in defaults(SHARDY, {'PJRT_DEVICE': own})


@pytest.mark.parametrize('of', [SHARDY, V2])
@pytest.mark.parametrize('own, mode', [
    ({
        'XLA_USE_SHARDY': '0'
    }, Mode.OFF),
    ({
        'XLA_USE_SHARDY': ''
    }, Mode.OFF),
    ({
        'CONVERT_SHLO_TO_SHARDY': '1'
    }, Mode.SHARDY),
    ({
        'XLA_SHARDING_V2': '1'
    }, Mode.V2),
    ({
        'XLA_SHARDING_V2': '0'
    }, Mode.OFF),
])
def test_a_mode_of_the_user_stays(of, own, mode):
  environ = {**own, **defaults(of, own)}
  assert mode_from_environment(environ) is mode


def test_without_a_profile_nothing_is_set(wheels_file):
  assert not wheels_file.exists()
  environ = {}
  vendor_defaults.apply(environ)
  assert environ == {}
  assert vendor_defaults.installed() is None
  assert vendor_defaults.distribution() == 'torch_xla'


def test_what_the_builder_writes_is_read(wheels_file, workshop, tmp_path):
  profile = vendor(tmp_path / 'vendor', name='"acme-xla"')
  contents = read(workshop.build(profile))
  wheels_file.write_bytes(contents['torch_xla/shardy/vendor.json'])
  assert vendor_defaults.installed() == Vendor('acme-xla', '2.9.0+acme.3',
                                               Mode.SHARDY,
                                               {'PJRT_DEVICE': 'ACME'})
  assert vendor_defaults.distribution() == 'acme-xla'
  environ = {'PJRT_DEVICE': 'CPU'}
  vendor_defaults.apply(environ)
  assert environ == {'PJRT_DEVICE': 'CPU', 'XLA_USE_SHARDY': '1'}


def test_a_mode_that_there_is_not_is_an_error(wheels_file):
  wheels_file.write_text(
      json.dumps({
          'distribution': 'a',
          'version': '1',
          'mode': 'on',
          'environment': {}
      }))
  with pytest.raises(ValueError, match='on'):
    vendor_defaults.installed()


def test_in_effect_is_what_the_profile_set_and_nobody_changed():
  now = {'PJRT_DEVICE': 'ACME', 'XLA_USE_SHARDY': '1'}
  assert effective_defaults(SHARDY, {}, now) == now
  assert effective_defaults(SHARDY, {}, {
      **now, 'PJRT_DEVICE': 'CPU'
  }) == {
      'XLA_USE_SHARDY': '1'
  }
  assert effective_defaults(SHARDY, now, now) == {}
  assert effective_defaults(SHARDY, {'XLA_USE_SHARDY': '1'}, now) == {
      'PJRT_DEVICE': 'ACME'
  }
