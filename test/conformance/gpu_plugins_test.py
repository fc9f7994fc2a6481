"""Plugins of GPUs that are not there: the verdict says so, and comes soon."""

from __future__ import annotations

from pathlib import Path
import subprocess
import sys
import zipfile

from processes import clean_environment
import pytest

# Hundreds of megabytes each, of which jax would load what it finds installed:
# they are unpacked for this test alone.
_PLUGINS = (
    ('jax-cuda12-pjrt==0.12.0.1', 'jax_plugins/xla_cuda12/xla_cuda_plugin.so'),
    ('jax-rocm7-pjrt==0.12.0', 'jax_plugins/xla_rocm7/xla_rocm_plugin.so'),
)


@pytest.mark.nightly
@pytest.mark.skipif(
    Path('/dev/nvidia0').exists() or Path('/dev/kfd').exists(),
    reason='there is a GPU')
@pytest.mark.parametrize('requirement, library', _PLUGINS)
def test_without_its_hardware(requirement: str, library: str,
                              tmp_path: Path) -> None:
  subprocess.run([
      sys.executable, '-m', 'pip', 'download', '--quiet', '--no-deps',
      '--only-binary', ':all:', '--dest', tmp_path, requirement
  ],
                 check=True)
  wheel, = tmp_path.glob('*.whl')
  with zipfile.ZipFile(wheel) as archive:
    path = archive.extract(library, tmp_path)
  wheel.unlink()
  done = subprocess.run([
      sys.executable, '-m', 'torch_xla.shardy', 'conformance', '--plugin', path
  ],
                        env=clean_environment(),
                        stdout=subprocess.PIPE,
                        stderr=subprocess.PIPE,
                        text=True,
                        timeout=300,
                        check=False)
  Path(path).unlink()
  assert done.returncode == 3, done.stdout[-3000:] + done.stderr[-3000:]
  assert done.stdout.splitlines()[-1].startswith('no device: ')
