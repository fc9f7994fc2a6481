"""What a user requires of a report."""

from __future__ import annotations

import aot_reports as make
import pytest
from torch_xla.shardy.aot import command
from torch_xla.shardy.aot.reporting import requirements
from torch_xla.shardy.aot.report import AotReport
from torch_xla.shardy.gate.requirements import RequirementError


def check(text: str, report: AotReport) -> str:
  return requirements.parse(text).check(report) or ''


@pytest.mark.parametrize('text', [
    'fits',
    ' fits ',
    'programs<=2',
    'programs == 2',
    'programs after warm-up < 1',
    'peak<=9.5GiB',
    'peak < 9.6 GiB',
    'code>=0.5G',
    'all-gather bytes over model<=1.5GiB',
    'collective count>14',
    'flops<=1.5e15',
    'cycles<=2.5M',
    'refused==0',
])
def test_holds(text: str) -> None:
  assert check(text, make.report()) == ''


@pytest.mark.parametrize('text, why', [
    ('programs<=1', 'programs<=1: programs is 2, and <= 1 is required'),
    ('peak<9.5GiB',
     'peak<9.5GiB: peak of SyncTensorsGraph.52 (train.py:41 in step) is 9.50 '
     'GiB (10,200,547,328 bytes), and < 9.50 GiB (10,200,547,328 bytes) is '
     'required'),
    ('all-gather count == 11',
     'all-gather count == 11: all-gather count is 12, and == 11 is required'),
    ('flops > 2P', 'flops > 2P: flops is 1,500,000,000,000,000, and > '
     '2,000,000,000,000,000 is required'),
    ('reads >= 18', 'reads >= 18: reads is 17, and >= 18 is required'),
])
def test_does_not_hold(text: str, why: str) -> None:
  assert check(text, make.report()) == why


def topology(memory):
  return make.dataclasses.replace(make.TOPOLOGY, memory=memory)


@pytest.mark.parametrize('report, why', [
    (make.report(topology=topology(9 * make.GIB)),
     'fits: does not fit: the largest peak is 9.50 GiB of 9.00 GiB (105.6 %), '
     'of SyncTensorsGraph.52 (train.py:41 in step)'),
    (make.report(make.refused()),
     'fits: does not fit: the compiler refused 1 of 1 program, '
     f'SyncTensorsGraph.52 (train.py:41 in step) first: {make.OUT_OF_MEMORY}'),
    (make.report(make.refused(error='INTERNAL: no\nmore')),
     'fits: does not compile: the compiler refused 1 of 1 program, '
     'SyncTensorsGraph.52 (train.py:41 in step) first: INTERNAL: no'),
    (make.report(make.program(memory=None)),
     'fits: not known whether it fits: SyncTensorsGraph.52 (train.py:41 in '
     'step): the compiler does not tell of its memory'),
    (make.empty(), 'fits: not known whether it fits: no program was compiled'),
])
def test_does_not_fit(report: AotReport, why: str) -> None:
  assert check('fits', report) == why


@pytest.mark.parametrize('text, report, why', [
    ('peak<=1TiB', make.report(make.refused()), 'it was refused'),
    ('peak<=1TiB', make.empty(), 'no program was compiled'),
    ('flops>=0', make.report(make.program(flops=None)), 'tell of its flops'),
    ('collective bytes<=1TiB', make.empty(), 'no step ended'),
    ('programs after warm-up==0', make.report(steps=1), 'only one step ended'),
    ('all-gather bytes over z<=1TiB', make.report(), 'has an axis'),
])
def test_what_is_not_known_does_not_hold(text: str, report: AotReport,
                                         why: str) -> None:
  said = check(text, report)
  assert said.startswith(f'{text}: not known: ')
  assert why in said


@pytest.mark.parametrize('text, why', [
    ('peak<=1<=2', 'write a quantity'),
    ('fits<=3', 'there is no quantity'),
    ('peek<=3', "did you mean 'peak'?"),
    ('peak<=3 programs', 'is no number of bytes'),
    ('programs<=3GiB', 'is no number'),
])
def test_what_is_no_requirement(text: str, why: str) -> None:
  with pytest.raises(RequirementError) as e:
    requirements.parse(text)
  assert str(e.value).startswith(f'requirement {text!r}: ')
  assert why in str(e.value)


def test_all_that_may_be_required_is_listed() -> None:
  text = requirements.known()
  for name in 'fits', '<=', 'programs after warm-up', 'peak', 'all-to-all':
    assert name in text


@pytest.mark.parametrize('report, status, text', [
    (make.report(
        make.refused()), 1, 'does not fit: the compiler refused 1 of 1'),
    (make.report(ended='exit status 3',
                 failed=True), 3, ' failed (exit status 3)'),
])
def test_a_quiet_run_says_what_is_wrong(
    report: AotReport, status: int, text: str,
    capsys: pytest.CaptureFixture[str]) -> None:
  for is_quiet in False, True:
    assert command._judged([report], [], is_quiet)[0] == status
    assert (text in capsys.readouterr().err) is is_quiet
