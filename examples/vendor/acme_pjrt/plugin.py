"""The plugin class of device ACME."""

import importlib.resources
import os

from torch_xla.experimental import plugins


class AcmePlugin(plugins.DevicePlugin):
  """ACME's accelerator, of which ACME_DEVICES says how many there are."""

  def library_path(self) -> str:
    # XLA's CPU plugin plays the part of ACME's library, so that the example runs
    # anywhere. Yours would lie beside this file (plugin.library of the profile).
    package = importlib.resources.files('xla_plugins.xla_cpu_pjrt')
    return str(package / 'xla_cpu_pjrt.so')

  def client_create_options(self) -> dict[str, int]:
    return {'cpu_device_count': int(os.environ.get('ACME_DEVICES', '1'))}
