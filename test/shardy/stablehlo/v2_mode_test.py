"""Programs that reach the door as StableHLO."""

import torch
import torch_xla
import torch_xla.runtime as xr

ENVIRONMENT = {
    'PJRT_DEVICE': 'CPU',
    'CPU_NUM_DEVICES': '8',
    'XLA_SHARDING_V2': '1',
}


def test_handed_on_unchanged_and_recorded(monkeypatch):
  monkeypatch.setenv('XLA_STABLEHLO_COMPILE', '1')
  xr.use_spmd()
  x = torch.randn(4, 4)
  with torch_xla.shardy.record() as programs:
    torch.testing.assert_close((x.to('xla') * 2).cpu(), x * 2)
  program = programs[0]
  assert program.format == 'mlir'
  assert program.name.startswith('SyncTensorsGraph')
  assert program.note == '' and program.form == 'mhlo.sharding'
  assert program.handed_on == program.sent
  assert program.sent.startswith(b'ML\xefR\rStableHLO_v')
