"""Topologies as users name them."""

from __future__ import annotations

import pytest
from torch_xla.shardy.aot import settings, topologies
from torch_xla.shardy.aot.topologies import TopologyError


@pytest.mark.parametrize('text, library, chips, hosts, accelerator', [
    ('v5e:16x16', 'v5e:16x16', 256, 64, 'v5litepod-256'),
    ('v5litepod-256', 'v5e:16x16', 256, 64, 'v5litepod-256'),
    ('v5e-32', 'v5e:4x8', 32, 8, 'v5litepod-32'),
    ('v5e:2x4', 'v5e:2x4', 8, 2, 'v5litepod-8'),
    ('v5e-8', 'v5e:2x4', 8, 1, 'v5litepod-8'),
    ('v5e:1x1', 'v5e:1x1', 1, 1, 'v5litepod-1'),
    ('trillium-8', 'v6e:2x4', 8, 1, 'v6e-8'),
    ('v5p-8', 'v5p:2x2x1', 4, 1, 'v5p-8'),
    ('v5p-128', 'v5p:4x4x4', 64, 16, 'v5p-128'),
    ('V5P:8x8x4', 'v5p:8x8x4', 256, 64, 'v5p-512'),
    ('v4-32', 'v4:2x2x4', 16, 4, 'v4-32'),
    ('v3-8', 'v3:2x2', 4, 1, 'v3-8'),
    ('ironwood:2x2x2', 'tpu7x:2x2x2', 8, 2, 'tpu7x-16'),
])
def test_names(text: str, library: str, chips: int, hosts: int,
               accelerator: str) -> None:
  name = topologies.parse(text)
  x, y, z = name.host_layout
  assert (name.for_library, name.chips, x * y * z,
          name.accelerator_type) == (library, chips, hosts, accelerator)
  assert name.slices == 1 and 'num_slices' not in name.options


def test_several_slices() -> None:
  name = topologies.parse('2*v6e:4x4')
  assert name.for_library == 'v6e:4x4' and name.chips == 32
  assert name.options == {'chips_per_host_bounds': (2, 2, 1), 'num_slices': 2}


def test_a_v4_chip_is_one_device_as_torch_xla_has_it() -> None:
  assert topologies.parse('v4-8').options['chip_config_name'] == (
      'megacore_dense')


@pytest.mark.parametrize('text, said', [
    ('v9z:2x2', "no kind of TPU is called 'v9z'"),
    ('v5e', "'v5e' is no topology"),
    ('v5e:2x', 'is no topology'),
    ('', "'' is no topology"),
    ('v5p:4x4', 'along 3 axes, and this names 2'),
    ('v5e:4x4x4', 'along 2 axes, and this names 3'),
    ('v5e:3x4', 'an axis of 3 cannot be cut into hosts; use 4 or 2'),
    ('v5e:0x4', 'has no chips'),
    ('v5e:64x64', 'at most 16 chips along an axis; several slices are 2*v5e'),
    ('v5p-7', 'counts cores, two a chip: 8, 16, 32'),
    ('v5p-4', 'counts cores, two a chip: 8, 16, 32'),
    ('v6e-12', 'counts chips: 1, 2, 4'),
    ('0*v5e:2x2', 'has no slice'),
])
def test_what_is_no_topology(text: str, said: str) -> None:
  with pytest.raises(TopologyError) as raised:
    topologies.parse(text)
  assert said in str(raised.value)


def test_an_unknown_one_lists_those_that_are_known() -> None:
  with pytest.raises(TopologyError) as raised:
    topologies.parse('h100:8')
  said = str(raised.value)
  assert all(g.name in said for g in topologies.GENERATIONS)
  assert 'v5e:16x16 or v5litepod-256' in said and '2*v5e:16x16' in said
  assert 'tpu7x' in said and 'two devices a chip' in said


@pytest.mark.parametrize(
    'generation', topologies.GENERATIONS, ids=lambda g: g.name)
def test_what_is_listed_is_a_topology(generation) -> None:
  line, = (
      l for l in topologies.known().splitlines()
      if l.startswith(f'  {generation.name}'))
  examples = line.split(': ', 1)[1].split(', ...')[0]
  for pair in examples.split(', '):
    by_layout, by_type = map(topologies.parse, pair.split(' or '))
    assert by_layout.layout == by_type.layout
    assert by_layout.generation is generation is by_type.generation


def test_environment_is_that_of_the_host() -> None:
  base = {
      'PJRT_DEVICE': 'CPU',
      'XLA_PERSISTENT_CACHE_PATH': 'kept',
      'LIBTPU_INIT_ARGS': '--xla_x=1',
  }
  made = settings.environment(base, topologies.parse('v5p:4x4x4'), 3, 'lib.so',
                              'logs')
  assert made['PJRT_DEVICE'] == 'TPU' and made['TPU_LIBRARY_PATH'] == 'lib.so'
  assert made['TPU_ACCELERATOR_TYPE'] == 'v5p-128'
  assert made['TPU_HOST_BOUNDS'] == '2,2,4' and made['TPU_WORKER_ID'] == '3'
  assert made['LIBTPU_INIT_ARGS'] == '--xla_x=1'
  assert 'XLA_PERSISTENT_CACHE_PATH' not in made
  assert base['PJRT_DEVICE'] == 'CPU'


def test_settings_pass_as_text() -> None:
  wanted = settings.Settings('train.py', False, ('--a', 'b c'), '2*v5e:4x4',
                             'libtpu.so', 'report', 1, True, 3, True)
  assert settings.Settings.from_json(wanted.to_json()) == wanted
