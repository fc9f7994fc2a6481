"""Scripts that run unchanged, for TPUs that are not there.

libtpu compiles; the scripts are those of the folder beside this.
"""

from __future__ import annotations

from pathlib import Path

from ahead_of_time import report_of
import pytest

ENVIRONMENT = {}  # Beside the tests that need no child.
GIB = 1 << 30


def test_a_training_loop() -> None:
  report, out, _ = report_of('train.py', '--read')
  assert 'trained on 8 TPU devices, process 0 of 2' in out
  assert out.count('loss 0.0') == 3 and report.reads == 3
  assert report.ended == 'finished' and not report.failed
  assert report.fits is True and report.mode == 'off'
  topology = report.topology
  assert (topology.chips, topology.devices, topology.hosts) == (8, 8, 2)
  assert topology.kind == 'TPU v5 lite' and 15 < topology.memory / GIB < 16
  # The optimizer's state is new in the second step.
  first, step = report.programs
  assert (first.executions, step.executions) == (1, 2)
  assert (first.step, step.step, report.steps) == (0, 1, 3)
  assert (report.usual_step, report.usual_steps) == ((1,), 1)
  assert report.programs_after_warm_up == ()
  assert step.called_from[0] == 'train.py:42 in main'
  assert step.partitions == 8 and step.partitioner == 'gspmd'
  assert {(use.kind, use.axes) for use in step.collectives
         } == {('all-reduce', ('data',)), ('all-reduce', ('model',))}
  # Two matrices of 256 x 1024, forward and twice backward, on eight devices.
  least = 6 * 64 * 256 * 1024 * 2 / 8
  assert least * 0.8 < step.flops < least * 1.4
  assert step.cycles.total > 0 and step.memory.aliases > 0
  assert any('0.weight' in tensor.name for tensor in step.heaviest)


@pytest.mark.slow
def test_mode_shardy() -> None:
  """Moments have one padded shape and two splits; nothing compiles twice."""
  report, _, _ = report_of(
      'train.py',
      '--width=61',
      '--hidden=61',
      topology='v5e:4x4',
      XLA_USE_SHARDY='1')
  assert report.mode == 'shardy' and report.fits
  assert {p.partitioner for p in report.programs} == {'shardy'}
  assert {p.note for p in report.programs} == {''}


@pytest.mark.slow
def test_torch_compile() -> None:
  report, out, _ = report_of('compiled.py')
  assert 'compiled' in out and not report.failed
  assert dict(report.traces)['traces by torch.compile'] == 2
  assert report.programs_after_warm_up == ()
  # Forward and backward, what begins the backward, and the optimizer.
  assert len(report.usual_step) == 4 and report.usual_steps >= 2
  places = [report.programs[i].called_from[0] for i in report.usual_step]
  assert places[0] == 'compiled.py:17 in loss_of'


@pytest.mark.nightly
def test_fsdp_with_a_batch_of_one_host() -> None:
  report, out, _ = report_of('fsdp.py')
  assert 'trained' in out and not report.failed and report.findings == ()
  step = report.programs[report.usual_step[0]]
  assert ('all-gather',
          ('fsdp',)) in {(use.kind, use.axes) for use in step.collectives}


@pytest.mark.slow
@pytest.mark.parametrize('topology, devices, hosts, finding', [
    pytest.param(
        'tpu7x:2x2x1', 8, 1, '8 devices on 4 chips', marks=pytest.mark.nightly),
    ('2*v5e:2x4', 16, 4, ''),
])
def test_topologies(topology: str, devices: int, hosts: int,
                    finding: str) -> None:
  report, out, _ = report_of('train.py', topology=topology)
  assert f'trained on {devices} TPU devices, process 0 of {hosts}' in out
  assert report.fits and report.topology.devices == devices
  assert finding in ' '.join(report.findings)
  assert bool(report.findings) == bool(finding)


def test_a_loop_that_waits_for_a_value_is_stopped() -> None:
  report, out, _ = report_of('waits.py', wanted={'steps': 3})
  assert report.ended == 'stopped after 3 steps' and not report.failed
  assert 'cleaned up' in out
  assert [p.executions for p in report.programs] == [3]


@pytest.mark.slow
def test_a_loop_that_compiles_each_time_is_stopped() -> None:
  report, _, _ = report_of('retraces.py', wanted={'steps': 4})
  assert report.ended == 'stopped after 4 steps' and not report.failed
  assert [p.step for p in report.programs] == [0, 1, 2, 3]
  assert report.usual_step == ()


@pytest.mark.slow
def test_too_much_memory_is_a_finding() -> None:
  report, out, _ = report_of('too_large.py')
  assert report.fits is False and 'not reached' not in out
  program, = report.programs
  assert 'exceeds available HBM (15.75G)' in program.error
  assert program.memory is None
  assert program.called_from[0] == 'too_large.py:11'


@pytest.mark.slow
def test_the_usual_step_is_what_most_work_goes_into() -> None:
  report, out, _ = report_of('trains_and_evaluates.py')
  assert not report.failed and report.findings == ()
  assert int(out) == report.topology.memory
  step, = report.usual_step
  assert report.programs[step].called_from[0].startswith(
      'trains_and_evaluates.py:16')
  (other, times), = report.other_steps
  assert report.programs[other[0]].called_from[0].startswith(
      'trains_and_evaluates.py:20')
  assert times >= report.usual_steps >= 6


@pytest.mark.nightly
def test_what_else_is_on_the_device_counts() -> None:
  """A model of 4 MiB that is not used."""
  report, _, _ = report_of('beside.py')
  first, last = report.programs[0], report.programs[-1]
  assert 4 << 20 <= first.beside < 6 << 20
  assert first.peak == first.memory.peak + first.beside
  # The result of the one before, and what was uploaded.
  assert 0 < last.beside < 1 << 20


@pytest.mark.slow
def test_reading_is_an_error_when_strict() -> None:
  report, _, _ = report_of('train.py', '--read', wanted={'strict': True})
  assert report.failed and 'there are no values ahead of time' in report.ended
  assert 'train.py' in report.traceback and 'session.py' not in report.traceback


@pytest.mark.nightly
def test_a_checkpoint_is_not_overwritten(tmp_path: Path) -> None:
  kept = tmp_path / 'model.pt'
  kept.write_text('a real one')
  report, out, _ = report_of('saves.py', str(tmp_path))
  assert 'saved' in out and not report.failed
  assert [p.name for p in tmp_path.iterdir()] == ['model.pt']
  assert kept.read_text() == 'a real one'
  assert len(report.findings) == 3
  assert all('was left out' in f and 'saves.py:' in f for f in report.findings)


@pytest.mark.nightly
def test_waiting_for_other_processes_is_refused() -> None:
  report, _, _ = report_of('peers.py')
  assert report.failed and '--one-process' in report.traceback


@pytest.mark.nightly
def test_one_process_waits_for_nobody() -> None:
  report, out, _ = report_of('peers.py', wanted={'one_process': True})
  assert 'process 0 of 1' in out and not report.failed
  assert report.processes == 1


@pytest.mark.nightly
def test_a_process_per_chip_is_refused() -> None:
  report, out, _ = report_of('launches.py')
  assert 'never' not in out
  assert 'debug_single_process' in report.traceback


@pytest.mark.slow
@pytest.mark.parametrize('way, ended', [
    pytest.param('raise', 'ValueError: on purpose', marks=pytest.mark.nightly),
    ('exit', 'exit status 3'),
])
def test_a_script_that_fails(way: str, ended: str) -> None:
  report, _, _ = report_of('ends.py', way)
  assert report.failed and report.ended == ended and len(report.programs) == 1
