"""The environments that most tests run in: eight CPU devices, and a mode."""

DEVICES = {'PJRT_DEVICE': 'CPU', 'CPU_NUM_DEVICES': '8'}
SHARDY = {**DEVICES, 'XLA_USE_SHARDY': '1'}
V2 = {**DEVICES, 'XLA_SHARDING_V2': '1'}
STABLEHLO = {**SHARDY, 'XLA_STABLEHLO_COMPILE': '1'}
# For a child that has libtpu compile, maybe beside another.
LIBTPU = {
    'ALLOW_MULTIPLE_LIBTPU_LOAD': '1',
    'TPU_SKIP_MDS_QUERY': '1',
    'JAX_PLATFORMS': 'cpu',
}
