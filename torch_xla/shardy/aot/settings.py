"""Settings of a run ahead of time, and the environment that it needs."""

from __future__ import annotations

from collections.abc import Mapping
import dataclasses
import json

from .topologies import TopologyName

DEVICE = 'TPU'
CANNOT_START = 64  # The status of a process that says itself why.
# Of XLA's own compilation cache: it would keep what cannot be run.
_REMOVED = ('XLA_PERSISTENT_CACHE_PATH', 'TPU_VISIBLE_CHIPS')


@dataclasses.dataclass(frozen=True)
class Settings:
  """A run of a script ahead of time.

  Attributes:
    script: a file, or a module's name.
    is_module: which of them.
    arguments: of the script.
    topology: as it was asked for; `topologies.parse` reads it.
    compiler: the path of the plugin that compiles.
    report: the file that the report is written to, anew after each program.
    host: the process whose part the script plays.
    one_process: whether the script is told that it is the only one.
    steps: after how many it is stopped; 0: never.
    strict: whether reading a value is an error.
    quiet: whether it does not say how far it is.
  """
  script: str
  is_module: bool
  arguments: tuple[str, ...]
  topology: str
  compiler: str
  report: str
  host: int = 0
  one_process: bool = False
  steps: int = 0
  strict: bool = False
  quiet: bool = False

  def to_json(self) -> str:
    return json.dumps(dataclasses.asdict(self))

  @classmethod
  def from_json(cls, text: str) -> Settings:
    fields = json.loads(text)
    return cls(**{**fields, 'arguments': tuple(fields['arguments'])})


def environment(base: Mapping[str, str], topology: TopologyName, host: int,
                plugin: str, logs: str) -> dict[str, str]:
  """The environment of a script on one host of `topology`, without a TPU.

  Args:
    base: the environment as it is; what is set there and does not say which
      TPU this is, such as LIBTPU_INIT_ARGS, stays.
    plugin: the path of the plugin that compiles ahead of time.
    logs: a folder for what libtpu logs.
  """
  environment = {
      name: value for name, value in base.items() if name not in _REMOVED
  }
  # It would warn of a profiler that it does not find.
  environment.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')
  environment.update(
      PJRT_DEVICE=DEVICE,
      TPU_LIBRARY_PATH=plugin,
      # There is no metadata server to ask which TPU this is.
      TPU_SKIP_MDS_QUERY='1',
      TPU_ACCELERATOR_TYPE=topology.accelerator_type,
      TPU_WORKER_HOSTNAMES='localhost',
      TPU_WORKER_ID=str(host),
      TPU_HOST_BOUNDS=_bounds(topology.host_layout),
      TPU_CHIPS_PER_HOST_BOUNDS=_bounds(topology.chips_per_host),
      # Or the second process on a machine fails on the first one's lock.
      ALLOW_MULTIPLE_LIBTPU_LOAD='1',
      TPU_LOG_DIR=logs)
  return environment


def _bounds(dims: tuple[int, int, int]) -> str:
  return ','.join(map(str, dims))
