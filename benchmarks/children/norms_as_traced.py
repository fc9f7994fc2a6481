"""The variant in which normalisations are left as torch_xla traces them."""

import os

from torch_xla.experimental import plugins
from torch_xla.shardy.door.device_plugins import CPU_DEVICE, XlaCpuPlugin


class _NormsAsTraced(XlaCpuPlugin):

  def rewrites(self) -> dict[str, bool]:
    return {'batch_norm': False}


def register_if_asked() -> None:
  """Registers a CPU plugin that gets them so, if the variable is set."""
  if os.environ.get('BENCHMARK_KEEPS_NORMALISATION'):
    plugins.register_plugin(CPU_DEVICE, _NormsAsTraced())
