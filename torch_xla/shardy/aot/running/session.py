"""The process that runs a script ahead of time, from torch_xla's import on."""

from __future__ import annotations

import contextlib
import io
import os
import resource
import signal
import sys
import time
from typing import Any, Optional

import torch_xla
import torch_xla.debug.metrics as met
import torch_xla.runtime as xr
from torch_xla._internal import tpu
from torch_xla.experimental import plugins
from torch_xla_shardy import script_process

from ... import door
from ...door.device_plugins import DoorPlugin
from ...hlo import opcodes
from ...mode import current_mode, Mode
from . import plugin
from .. import topologies
from ..reporting import json_form
from ...gate import sizes
from ...callers import Callers
from .script_hooks import Hooks
from ..compiled.mesh_groups import MeshValue
from .observer import ProgramObserver
from ..errors import AotError
from ...progress import Progress
from ..report import (INTERRUPTED, AotReport, kinds_of_steps, RUNNING, Topology,
                      warm_up)
from ..settings import CANNOT_START, DEVICE, Settings

# Exit statuses of the process.
FINISHED, FAILED = 0, 1
_TRACES = {
    'MarkStep': 'lazy graphs cut',
    'DynamoExtractCompiledGraph': 'traces by torch.compile',
}
_STOP_SIGNAL = signal.SIGUSR2
_WRITE_SECONDS = 5.0


class Stopped(BaseException):
  """Ends a script after as many steps as were asked for."""


class Session:
  """One script on one host of one topology."""

  def __init__(self, settings: Settings, chosen_device: Optional[str]):
    """Opens the topology and watches the script from here on.

    Args:
      chosen_device: PJRT_DEVICE as the script left it.

    Raises:
      AotError: the compiler or the topology cannot be opened.
    """
    self._settings = settings
    name = topologies.parse(settings.topology)
    # As on a host that has TPUs: the compiler reads it when it is opened.
    torch_xla._setup_libtpu_flags()
    plugin.open_topology(settings, name, _STOP_SIGNAL)
    signal.signal(_STOP_SIGNAL, self._stop)
    self._topology = _topology(name)
    plugin.set_memory_limit(self._topology.memory)
    self._progress = Progress(f'aot {settings.topology}',
                              io.StringIO() if settings.quiet else sys.stderr)
    folder = os.getcwd() if settings.is_module else os.path.dirname(
        os.path.abspath(settings.script))
    callers = Callers(folder)
    self._hooks = Hooks(callers, settings.one_process, self._end_step)
    self._findings = self._findings_at_start(chosen_device)
    self._observer = ProgramObserver(callers, self._progress,
                                     self._hooks.meshes, self.write)
    _put_door(self._observer)
    self._said_zeros = False
    self._start = self._written = time.perf_counter()
    self._ended, self._failed, self._traceback = RUNNING, False, ''

  def end(self, ending: Optional[BaseException]) -> int:
    """Files how the script ended; returns the process's exit status."""
    # What would interrupt the script has nothing to interrupt any more.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(_STOP_SIGNAL, signal.SIG_IGN)
    if isinstance(ending, SystemExit) and ending.code not in (None, 0):
      self._ended, self._failed = f'exit status {ending.code}', True
    elif ending is None or isinstance(ending, SystemExit):
      self._ended = 'finished'
    elif isinstance(ending, Stopped) or plugin.counters().refused:
      self._ended = f'stopped after {plugin.counters().steps} steps'
    elif isinstance(ending, KeyboardInterrupt):
      self._ended, self._failed = INTERRUPTED, True
    else:
      self._ended = script_process.one_line(ending)
      self._failed = True
      self._traceback = script_process.traceback_of(ending,
                                                    os.path.dirname(__file__))
    # What was refused is not to be told again as Python goes down.
    with contextlib.suppress(RuntimeError):
      self._wait()
    self._check_device()
    self.write()
    return FAILED if self._failed else FINISHED

  def write(self) -> None:
    """Writes the report as it is by now, all of it or nothing."""
    made = self._settings.report + '.new'
    with open(made, 'w', encoding='utf-8') as f:
      f.write(json_form.to_json([self._report()]))
    os.replace(made, self._settings.report)
    self._written = time.perf_counter()

  def _report(self) -> AotReport:
    settings, counters = self._settings, plugin.counters()
    programs = self._observer.programs()
    at = self._observer.positions()
    kinds = kinds_of_steps(((at[number], ended)
                            for number, ended in plugin.executions()
                            if number in at), counters.steps,
                           warm_up(programs, counters.steps),
                           [p.flops or 0 for p in programs])
    usual, *others = kinds or [((), 0)]
    return AotReport(
        script=(settings.script, *settings.arguments),
        topology=self._topology,
        mode=current_mode().value,
        host=settings.host,
        processes=1 if settings.one_process else self._topology.hosts,
        meshes=tuple(map(_mesh_text, self._hooks.meshes)),
        programs=programs,
        steps=counters.steps,
        usual_step=usual[0],
        usual_steps=usual[1],
        other_steps=tuple(others),
        ended=self._ended,
        failed=self._failed,
        traceback=self._traceback,
        reads=counters.reads,
        traces=tuple((shown, int(met.counter_value(counter) or 0))
                     for counter, shown in _TRACES.items()),
        findings=(*self._findings, *self._hooks.findings,
                  *self._observer.findings),
        seconds=time.perf_counter() - self._start,
        host_memory=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)

  def _findings_at_start(self, chosen_device: Optional[str]) -> list[str]:
    findings = []
    if chosen_device not in (None, DEVICE):
      findings.append(
          f'the script chose PJRT_DEVICE={chosen_device}: it runs on '
          f'the devices of {self._settings.topology} instead')
    devices = self._topology.devices
    if devices != self._topology.chips:
      findings.append(f'a chip of {self._settings.topology} is '
                      f'{devices // self._topology.chips} devices: {devices} '
                      f'devices on {self._topology.chips} chips')
    return findings

  def _end_step(self) -> None:
    self._wait()
    steps = plugin.end_step()
    if plugin.counters().reads and not self._said_zeros:
      self._said_zeros = True
      self._progress.say('the script reads values: they are zeros, as nothing '
                         'is computed')
    if time.perf_counter() - self._written > _WRITE_SECONDS:
      self.write()  # A process that is ended from outside says no more.
    if self._settings.steps and steps >= self._settings.steps:
      raise Stopped()

  def _wait(self) -> None:
    # So that a step's programs are of that step, however threads run.
    torch_xla._XLAC._xla_wait_device_ops([])

  def _check_device(self) -> None:
    if (torch_xla._XLAC._xla_runtime_is_initialized() and
        xr.device_type() != DEVICE):
      self._findings.append(
          f'the script ran on {xr.device_type()} and not on the devices of '
          f'{self._settings.topology}: it must not change PJRT_DEVICE')
      self._failed = True

  def _stop(self, number: int, frame: Any) -> None:
    del number, frame
    raise Stopped()


def begin(settings: str, chosen_device: Optional[str]) -> Session:
  """Begins the session, once torch_xla has been imported.

  Args:
    settings: `Settings.to_json`.
    chosen_device: PJRT_DEVICE as it was then.

  Raises:
    SystemExit: the topology or the compiler cannot be opened.
  """
  try:
    return Session(Settings.from_json(settings), chosen_device)
  except (AotError, topologies.TopologyError) as e:
    print(f'aot: {e}', file=sys.stderr)
    sys.stdout.flush()
    os._exit(CANNOT_START)


def _compile(compilation: door.Compilation) -> None:
  """Compiles a program as it is, and has the runtime read known operations."""
  compilation.compile(compilation.program, compilation.options)
  program, program_format = compilation.compiled_program()
  readable = opcodes.readable(program, program_format)
  if readable is not None:
    compilation.set_optimized_program(readable, program_format)


def _put_door(observer: ProgramObserver) -> None:
  """Has each program pass `observer`, whatever the mode."""
  if current_mode() is Mode.OFF:
    # Programs pass unchanged; the wheel has no door in this mode.
    door.use(_compile)
    plugins.use_dynamic_plugins()
    plugins.register_plugin(DEVICE, DoorPlugin(tpu.TpuPlugin()))
  door.wrap(observer)


def _topology(name: topologies.TopologyName) -> Topology:
  devices = list(plugin.devices())
  places = {(d.slice, d.coordinates) for d in devices}
  return Topology(
      name=name.text,
      kind=devices[0].kind,
      chips=len(places) if all(d.coordinates for d in devices) else name.chips,
      devices=len(devices),
      hosts=len({d.process for d in devices}),
      slices=name.slices,
      memory=sizes.parse(name.generation.memory),
      compiler=' '.join(' '.join(plugin.platform()).split()))


def _mesh_text(mesh: MeshValue) -> str:
  return ', '.join(
      f'{n}={size}' for n, size in zip(mesh.axis_names, mesh.shape))
