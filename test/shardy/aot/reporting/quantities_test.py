"""Quantities by name, and what they are of a report."""

from __future__ import annotations

import dataclasses

import aot_reports as make
import pytest
from torch_xla.shardy.aot.reporting import quantities
from torch_xla.shardy.gate.quantity import UnknownQuantityError


@pytest.mark.parametrize('name, value', [
    ('programs', 2),
    ('programs after warm-up', 0),
    ('refused', 0),
    ('fallbacks', 0),
    ('reads', 17),
    ('peak', 19 * make.GIB // 2),
    ('arguments', 4 * make.GIB),
    ('outputs', 4 * make.GIB),
    ('aliases', 3 * make.GIB),
    ('temporaries', 4 * make.GIB),
    ('code', make.GIB // 2),
    ('flops', 1_500_000_000_000_000),
    ('cycles', 2_500_000),
    ('all-gather bytes', 3 * make.GIB // 2),
    ('all-gather count', 12),
    ('collective bytes', 3 * make.GIB // 2 + 4096),
    ('collective count', 15),
    ('all-to-all bytes', 0),
    ('all-gather  bytes over  model', 3 * make.GIB // 2),
    ('all-gather bytes over data', 0),
    ('all-reduce count over model, data', 3),
    ('collective count over data', 0),
])
def test_values(name: str, value: int) -> None:
  assert quantities.named(name).of_report(make.report()).value == value


def test_memory_is_of_the_program_that_needs_the_most_of_it() -> None:
  less = dataclasses.replace(make.MEMORY, code=1)
  report = make.report(make.program('a', memory=less), make.program('b'))
  measure = quantities.named('peak').of_report(report)
  assert measure.place == 'b (train.py:41 in step)'


def test_flops_and_collectives_are_summed_over_one_step() -> None:
  report = make.report(make.start(), make.program(), make.program(executions=3))
  assert quantities.named('flops').of_report(report).value == 3e15
  assert quantities.named('all-gather count').of_report(report).value == 24


@pytest.mark.parametrize('name, changes, why', [
    ('peak', {
        'memory': None
    }, 'the compiler does not tell of its memory'),
    ('flops', {
        'flops': None
    }, 'the compiler does not tell of its flops'),
    ('cycles', {
        'cycles': None
    }, 'the compiler does not tell of its cycles'),
])
def test_what_one_program_does_not_tell_is_not_known_of_all(
    name: str, changes: dict, why: str) -> None:
  report = make.report(make.program(), make.program('odd', **changes))
  measure = quantities.named(name).of_report(report)
  assert measure.value is None
  assert measure.unknown == f'odd (train.py:41 in step): {why}'


@pytest.mark.parametrize('name, why', [
    ('peak', 'it was refused'),
    ('cycles', 'no step after warm-up executed a program'),
    ('collective bytes', 'no step after warm-up executed a program'),
])
def test_a_refused_program_leaves_it_unknown(name: str, why: str) -> None:
  report = make.report(make.start(), make.refused())
  measure = quantities.named(name).of_report(report)
  assert measure.value is None
  assert why in measure.unknown


def test_a_script_that_compiles_in_each_step_has_no_warm_up() -> None:
  report = make.report(*(make.program(step=i) for i in range(3)))
  measure = quantities.named('programs after warm-up').of_report(report)
  assert measure.value is None
  assert 'each of the 3 steps' in measure.unknown


def test_an_axis_that_no_mesh_has_is_not_known() -> None:
  quantity = quantities.named('all-gather bytes over modle')
  assert quantity.of_report(make.report()).unknown == (
      "no mesh of the script has an axis 'modle'; there are: data, model")
  assert quantity.of_report(
      make.report(meshes=())).unknown.endswith('there are: none')


def test_groups_of_no_mesh_stand_beside_axes() -> None:
  found = quantities.of_uses([make.GATHER, make.STRANGE, make.GATHER])
  assert [q.name for q in found] == [
      'collective bytes', 'collective count', 'all-gather bytes over model',
      'all-gather count over model', 'all-reduce bytes over 128 groups of 2',
      'all-reduce count over 128 groups of 2'
  ]
  report = make.report(make.program(collectives=(make.STRANGE, make.REDUCE)))
  assert [q.of_report(report).value for q in found] == [4608, 4, 0, 0, 512, 1]


@pytest.mark.parametrize('name, nearest', [
    ('peek', "'peak'"),
    ('retraces', "'programs after warm-up'"),
    ('HBM', "'peak'"),
    ('all-gather byte', "'all-gather bytes'"),
    ('allgather bytes over model', "'all-gather bytes'"),
    ('programs over model', "'programs'"),
])
def test_unknown_names_get_the_nearest(name: str, nearest: str) -> None:
  with pytest.raises(UnknownQuantityError) as e:
    quantities.named(name)
  assert f'no quantity {name!r}: did you mean {nearest}? There are: programs, ' \
      in str(e.value)
  assert 'reduce-scatter' in str(e.value)
