"""Which environment variable is read when, and whether it was set in time.

Read in torch_xla 2.9.0's `torch_xla/__init__.py`, `runtime.py` and
`csrc/**` (every `getenv` and `GetEnv*`); variables that are read afresh at each
use are left out, because they are never too late.
"""

from __future__ import annotations

from collections.abc import Mapping
import dataclasses
import enum
from typing import Optional

Environment = Mapping[str, str]


class Moment(enum.Enum):
  """The moment when a variable is read; setting it later has no effect."""
  IMPORT = 'torch_xla is imported'
  RUNTIME = 'the runtime starts'
  TENSOR = 'the first XLA tensor is made'
  CACHE = 'the first program is compiled'


class Kind(enum.Enum):
  """The reader's interpretation of a variable's text.

  FLAG: 'true' or a number above 0 is on (upstream: `xu.check_env_flag` and
    `sys_util::GetEnvBool`).
  MODE_FLAG: 1, ON, YES, TRUE or Y is on (`mode.py`).
  COUNT: a whole number above 0.
  XLA_FLAGS: words apart by spaces, to which torch_xla adds its own.
  TEXT: anything.
  """
  FLAG = 'flag'
  MODE_FLAG = 'mode flag'
  COUNT = 'count'
  XLA_FLAGS = 'XLA flags'
  TEXT = 'text'


@dataclasses.dataclass(frozen=True)
class Variable:
  """One variable of the contract.

  Attributes:
    moment: when it is read; None where another check looks at its effect,
      which says more than the time at which it was set.
    device: the one PJRT_DEVICE that reads it; empty if all do.
  """
  name: str
  moment: Optional[Moment]
  kind: Kind = Kind.TEXT
  device: str = ''


VARIABLES: tuple[Variable, ...] = (
    # By effect: `contract.py` compares them with the mode, the runtime's
    # devices and SPMD as they are.
    Variable('XLA_USE_SHARDY', None, Kind.MODE_FLAG),
    Variable('CONVERT_SHLO_TO_SHARDY', None, Kind.MODE_FLAG),
    Variable('XLA_SHARDING_V2', None, Kind.MODE_FLAG),
    Variable('PJRT_DEVICE', None),
    Variable('CPU_NUM_DEVICES', None, Kind.COUNT),
    Variable('XLA_USE_SPMD', None, Kind.FLAG),
    Variable('XLA_AUTO_SPMD', None, Kind.FLAG),
    # torch_xla/__init__.py, plugins.py, and MapXlaEnvVarsToLazy of _XLAC.
    Variable('PJRT_SELECT_DEFAULT_DEVICE', Moment.IMPORT),
    Variable('PT_XLA_DEBUG', Moment.IMPORT),
    Variable('XLA_HLO_DEBUG', Moment.IMPORT, Kind.FLAG),
    Variable('XLA_IR_DEBUG', Moment.IMPORT, Kind.FLAG),
    Variable('XLA_METRICS_PERCENTILES', Moment.IMPORT),
    Variable('XLA_METRICS_SAMPLES', Moment.IMPORT),
    Variable('XLA_NO_SPECIAL_SCALARS', Moment.IMPORT, Kind.FLAG),
    Variable('XLA_REGISTER_INSTALLED_PLUGINS', Moment.IMPORT),
    Variable('XLA_USE_EAGER_DEBUG_MODE', Moment.IMPORT),
    # runtime/pjrt_registry.cpp, the plugins, and XLA's own flag parsers, which
    # run when the client is made.
    Variable('LIBTPU_INIT_ARGS', Moment.RUNTIME, Kind.XLA_FLAGS, device='TPU'),
    Variable('MASTER_ADDR', Moment.RUNTIME),
    Variable('NEURON_LIBRARY_PATH', Moment.RUNTIME, device='NEURON'),
    Variable('PJRT_CPU_ASYNC_CLIENT', Moment.RUNTIME, Kind.FLAG, device='CPU'),
    Variable('PJRT_LIBRARY_PATH', Moment.RUNTIME, device='LIBRARY'),
    Variable('PJRT_LOCAL_PROCESS_COUNT', Moment.RUNTIME),
    Variable('PJRT_LOCAL_PROCESS_RANK', Moment.RUNTIME),
    Variable('TPU_CHIPS_PER_PROCESS_BOUNDS', Moment.RUNTIME, device='TPU'),
    Variable('TPU_LIBRARY_PATH', Moment.RUNTIME, device='TPU'),
    Variable('TPU_MEGACORE', Moment.RUNTIME, device='TPU'),
    Variable('TPU_PROCESS_BOUNDS', Moment.RUNTIME, device='TPU'),
    Variable('TPU_SKIP_MDS_QUERY', Moment.RUNTIME, device='TPU'),
    Variable('TPU_VISIBLE_CHIPS', Moment.RUNTIME, device='TPU'),
    Variable('XLA_FLAGS', Moment.RUNTIME, Kind.XLA_FLAGS),
    Variable('XLA_TPU_MAX_INFLIGHT_COMPUTATIONS', Moment.RUNTIME, device='TPU'),
    Variable('XPU_LIBRARY_PATH', Moment.RUNTIME, device='XPU'),
    # csrc/dtype.cpp.
    Variable('XLA_DOWNCAST_BF16', Moment.TENSOR, Kind.FLAG),
    Variable('XLA_USE_32BIT_LONG', Moment.TENSOR, Kind.FLAG),
    Variable('XLA_USE_BF16', Moment.TENSOR, Kind.FLAG),
    # csrc/xla_graph_executor.cpp.
    Variable('XLA_COMPILATION_CACHE_SIZE', Moment.CACHE),
    Variable('XLA_PERSISTENT_CACHE_PATH', Moment.CACHE),
    Variable('XLA_PERSISTENT_CACHE_READ_ONLY', Moment.CACHE, Kind.FLAG),
)

# What torch_xla adds to flags by itself when it is imported: never the user's
# doing, wherever it stands (`_setup_xla_flags`, `_setup_libtpu_flags`).
_OWN_FLAGS = frozenset((
    'xla_cpu_enable_fast_math',
    'xla_cpu_enable_fast_min_max',
    'xla_tpu_use_enhanced_launch_barrier',
    'xla_latency_hiding_scheduler_rerun',
    'xla_tpu_prefer_async_allgather_to_allreduce',
    'xla_tpu_enable_flash_attention',
    'xla_enable_async_all_gather',
    'xla_enable_async_collective_permute',
))
_MODE_WORDS = frozenset(
    ('ON', '1', 'YES', 'TRUE', 'Y', 'OFF', '0', 'NO', 'FALSE', 'N', ''))


def is_in_time(variable: Variable, started_with: Optional[Environment],
               now: Environment) -> bool:
  """Tests whether `variable` has the value that the process began with.

  Args:
    started_with: the environment that the process began with; None if unknown.
    now: the environment as it is.
  """
  value = _comparable(variable, now)
  if started_with is None:
    return not value
  # What `import libtpu` puts under its own name is nobody's doing.
  return value == _comparable(
      variable, started_with) or (variable.name == 'TPU_LIBRARY_PATH' and
                                  value is not None and
                                  value == now.get('PTXLA_TPU_LIBRARY_PATH'))


def _comparable(variable: Variable, environ: Environment) -> object:
  text = environ.get(variable.name)
  if variable.kind is not Kind.XLA_FLAGS:
    return text
  words = (text or '').split()
  return [w for w in words if w.lstrip('-').split('=')[0] not in _OWN_FLAGS]


def misread(variable: Variable, value: str) -> str:
  """Why `value` is not read as it looks; empty if it is."""
  if variable.kind is Kind.MODE_FLAG and value.upper() not in _MODE_WORDS:
    return 'is read as off: write 1 for on, 0 for off'
  if variable.kind is Kind.FLAG:
    if value not in ('true', 'false', '') and not value.isdecimal():
      return 'is read as off: write 1 for on, 0 for off'
  if variable.kind is Kind.COUNT:
    if not value.isdecimal() or int(value) < 1:
      return 'is not a positive number of devices'
  return ''
