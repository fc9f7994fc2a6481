"""Faults of whole programs: what they compute, where, and for how long."""

from __future__ import annotations

from fault_rows import crashed, failed, Found, Row

_WORKING = (
    failed('racy-execute', 'threads.together/executions', 'in place of',
           'readback.fresh'),
    failed('racy-compile', 'threads.together/compiles',
           'a program compiled beside others gives', 'caching.same'),
    failed('slow-down', 'endurance.steps', 'times as long as the first',
           'caching.same'),
    failed('handle-leak', 'endurance.steps', 'files are open that were not',
           'caching.same'),
    Row('execute-never-completes',
        (Found('capabilities/asynchronous_errors', 'no end after 5 s', 'hung'),
         Found('readback.fresh', 'no end after 5 s in PJRT_Event_Await',
               'hung')),
        seconds=5),
)
_COLLECTIVES = (
    Row(
        'wrong-all-to-all',
        tuple(
            Found(f'collectives.moves/{mesh}.all_to_all', 'after, device')
            for mesh in ('straight', 'turned', 'shuffled')),
        ('collectives.moves/straight.turn',
         'collectives.sums/straight.all_reduce')),
    Row('wrong-all-gather',
        (Found('collectives.moves/straight.all_gather', 'after, device'),
         Found('collectives.moves/shuffled.gather_both', 'after, device'))),
    Row('wrong-all-reduce',
        (Found('collectives.sums/straight.all_reduce', 'the product, device'),
         Found('collectives.sums/turned.reduce_scatter',
               'the product, device')), ('collectives.moves/straight.turn',)),
    Row(
        'wrong-collective-permute',
        tuple(
            Found(f'collectives.moves/{mesh}.turn', 'after, device')
            for mesh in ('straight', 'turned', 'shuffled')),
        ('collectives.moves/straight.all_to_all',
         'collectives.sums/straight.all_reduce')),
)
_GROUPS = (
    Row('groups-off-by-one',
        (Found('groups.told/all-reduce', 'all-reduce of f32 within'),
         Found('groups.partitioned/rows.straight', 'over a0, device'),
         Found('groups.partitioned/cube.shuffled', 'over a0, device')),
        ('collectives.sums/turned.all_reduce',
         'collectives.moves/straight.all_to_all'), 'all-reduce'),
    Row('groups-off-by-one',
        (Found('groups.told/reduce-scatter', 'reduce-scatter of f32 within'),),
        ('groups.told/all-reduce',), 'reduce-scatter'),
    Row('groups-swapped',
        (Found('groups.told/all-gather', 'all-gather of f32 within'),
         Found('groups.partitioned/columns.turned', 'over a0, device')),
        ('groups.told/all-reduce',), 'all-gather'),
    Row('groups-swapped',
        (Found('groups.told/all-to-all', 'all-to-all of f32 within'),),
        ('groups.told/collective-permute',), 'all-to-all'),
)
_ROUNDING = (
    Row('cast-cuts-bfloat16',
        (Found('rounding.nearest/f32_to_bf16', 'to the nearest BF16'),
         Found('rounding.nearest/f32_to_bf16.large', 'to the nearest BF16')),
        ('rounding.nearest/f32_to_f16', 'rounding.nearest/add_bf16')),
    failed('cast-cuts-large-bfloat16', 'rounding.nearest/f32_to_bf16.large',
           'to the nearest BF16', 'rounding.nearest/f32_to_bf16'),
    failed('cast-cuts-tail-bfloat16', 'rounding.nearest/f32_to_bf16',
           'to the nearest BF16', 'rounding.nearest/f32_to_f16'),
    failed('cast-cuts-large-float16', 'rounding.nearest/f32_to_f16.large',
           'to the nearest F16', 'rounding.nearest/f32_to_f16',
           'rounding.nearest/f32_to_bf16.large'),
    failed('sum-cuts-bfloat16', 'rounding.nearest/add_bf16',
           'to the nearest BF16', 'operations.arithmetic.alone/add',
           'rounding.nearest/multiply_bf16'),
)
_SHARDINGS = (
    Row('v1-misread',
        (Found('shardings.forms/turned', '0,4,1,5,2,6,3,7} in V1: the devices'),
         Found('shardings.forms/list', '3,1,7,0,2,6,4,5} in V2: the devices')),
        ('shardings.forms/iota',)),
    Row('v2-misread',
        (Found('shardings.forms/turned', '<=[2,4]T(1,0)} in V2: the devices'),
         Found('shardings.forms/turned_again', 'in V2: the devices')),
        ('shardings.forms/iota', 'shardings.forms/list')),
    failed('mesh-misread', 'shardings.meshes/turned', 'GSPMD partitions',
           'shardings.meshes/straight'),
    Row('permuted-mesh',
        (Found('collectives.moves/turned.all_gather', 'after, device'),
         Found('collectives.moves/shuffled.turn', 'after, device')),
        ('collectives.moves/straight.all_gather',)),
    failed('uneven-parameter', 'shardings.uneven_gspmd/7x16',
           'expected parameter', 'shardings.meshes_gspmd/straight'),
    failed('parameter-layout-untold', 'layouts.parameters/even',
           'Shardy takes it as {replicated}: GSPMD partitions',
           'layouts.parameters/whole'),
    Row('output-layout-untold',
        (Found('layouts.results/even', 'not annotated: shape [8, 8]'),
         Found('readback.sharded/data_model',
               'shape [8, 8], expected [16, 32]')),
        ('readback.sharded/replicated', 'layouts.results/whole')),
    failed('shardy-refused', 'shardings.shardy',
           'the backend refused the program for Shardy',
           'shardings.meshes_gspmd/straight'),
    failed('shardy-ignored', 'priorities.flip/product', 'with columns first',
           'shardings.meshes_gspmd/straight'),
    failed('priorities-ignored', 'priorities.flip/lookup',
           'with tokens first the result is', 'shardings.shardy'),
)
_PROGRAMS = (
    Row('mlir-only', (), ('readback.sharded/data_model', 'donation.real/taken'),
        capabilities={
            'format': 'mlir',
            'hlo': "UNIMPLEMENTED: programs have to be of the format 'mlir'"
        }),
    Row('artifact-only', (),
        ('readback.sharded/data_model', 'donation.real/taken',
         'errors.programs/truncated'),
        capabilities={
            'format': 'mlir',
            'mlir': 'UNIMPLEMENTED: programs have to be portable artifacts'
        }),
    Row('hlo-only', (), ('readback.sharded/data_model', 'donation.real/taken'),
        capabilities={
            'format': 'hlo',
            'mlir': "UNIMPLEMENTED: programs have to be of the format 'hlo'"
        }),
    crashed('crash-on-mlir', 'capabilities/mlir', 'readback.sharded/data_model',
            'donation.real/taken'),
    Row('device-assignment-ignored',
        (Found('shardings.assignment/last',
               'device'), Found('shardings.assignment/reversed', 'device')),
        ('shardings.forms/list',)),
    crashed(
        'crash-in-compile',
        'operations.unary.alone/sin',
        'operations.unary.alone/cos',
        opcode='sine'),
    crashed(
        'crash-in-execute',
        'operations.unary.alone/sin',
        'operations.unary.alone/cos',
        opcode='sine'),
    Row('hang-in-compile',
        (Found('operations.unary.alone/sin', 'no end after 5 s', 'hung'),),
        ('operations.unary.alone/cos',), 'sine', 5),
    Row('hang-in-execute',
        (Found('operations.unary.alone/sin', 'no end after 5 s', 'hung'),),
        ('operations.unary.alone/cos',), 'sine', 5),
    failed(
        'refuses-opcode',
        'operations.unary.alone/sin',
        "I cannot compile 'sine'",
        'operations.unary.alone/cos',
        opcode='sine'),
    failed(
        'refuses-opcode',
        'start.formats',
        "is refused in HLO (UNIMPLEMENTED: I cannot compile 'add'",
        'start.devices',
        opcode='add'),
    failed(
        'imprecise-op',
        'operations.unary.alone/sin',
        'allowed 1e-05',
        'operations.unary.alone/cos',
        opcode='sine'),
    Row('wrong-op',
        (Found('readback.in_place', 'after update 0'),
         Found('layouts.results/whole', 'annotated, device 0'),
         Found('training.specs/cleared', 'its values have changed')),
        ('training.specs/annotated',), 'add'),
    Row('wrong-op',
        (Found('training.losses/sharded', 'differ from those of the CPU'),
         Found('training.losses_gspmd/replicated',
               'differ from those of the CPU'),
         Found('caching.retrace/lazy', 'step 0')),
        opcode='dot'),
    Row('wrong-op', (Found('donation.steps', 'the weight'),
                     Found('caching.apart', 'the product of differences')),
        ('training.specs/cleared',), 'subtract'),
    Row('wrong-op', (Found('shardings.uneven/7x16', 'computed'),),
        ('shardings.uneven_gspmd/7x16',), 'pad'),
    Row('wrong-op-last-device',
        (Found('shardings.meshes/straight', 'computed, device 7'),
         Found('shardings.meshes_gspmd/turned', 'computed, device 7')),
        opcode='multiply'),
)


def _operation(family: str,
               part: str,
               opcode: str = '',
               passes: str = '') -> Row:
  """An operation of each family that is wrong, and one that is not."""
  name = f'operations.{family}.alone'
  return failed(
      'wrong-op',
      f'{name}/{part}',
      'expected',
      *([f'{name}/{passes}'] if passes else []),
      opcode=opcode)


_OPERATIONS = (
    _operation('unary', 'sin', 'sine', 'cos'),
    _operation('arithmetic', 'remainder', 'remainder', 'add'),
    _operation('special_values', 'special_neg', 'negate', 'special_abs'),
    _operation('logic', 'bitwise_xor', 'xor', 'eq'),
    _operation('integers', 'shift_left_int32', 'shift-left', 'add_int32'),
    _operation('casts', 'float32_to_int32', 'convert'),
    _operation('reductions', 'sum', 'reduce'),
    _operation('scans', 'cumsum_dim_0', 'reduce-window', 'diff'),
    _operation('sorting', 'sort_dim_0', 'sort'),
    _operation('contractions', 'matmul', 'dot', 'outer'),
    _operation('convolutions', 'conv2d', 'convolution'),
    _operation('shapes', 'flip_dim_0', 'reverse', 'permute'),
    _operation('indexing', 'gather_dim_0', 'gather', 'slice'),
    _operation('scatters', 'scatter_add_dim_0', 'scatter', 'masked_fill'),
    _operation('activations', 'gelu_tanh', 'tanh', 'relu'),
    _operation('normalisation', 'layer_norm', 'rsqrt', 'local_response_norm'),
    _operation('losses', 'cross_entropy', 'log', 'mse_loss'),
    _operation('pooling', 'avg_pool2d', 'reduce-window', 'upsample_nearest'),
    _operation('gradients', 'softmax_gradient', 'exponential', 'relu_gradient'),
    _operation('factories', 'arange'),
    Row(
        'wrong-op-sharded',
        tuple(
            Found(f'operations.arithmetic.{split}/add', 'expected')
            for split in ('data_none', 'model_none', 'none_data', 'none_model',
                          'data_model', 'model_data', 'both_none',
                          'none_both')),
        ('operations.arithmetic.alone/add',
         'operations.arithmetic.replicated/add'), 'add'),
    failed(
        'wrong-op',
        'operations.arithmetic.replicated/add',
        'expected',
        'operations.arithmetic.replicated/maximum',
        opcode='add'),
)

_TOPOLOGY = 'v5e:2x2'
_AHEAD = (
    Row('topology-empty', (Found('ahead.devices', 'v5e:2x2 has no devices'),),
        ('start.version',),
        topology=_TOPOLOGY),
    Row('ahead-refused', (Found('ahead.compile/v2', 'UNIMPLEMENTED'),
                          Found('ahead.compile/shardy', 'UNIMPLEMENTED')),
        ('ahead.devices',),
        topology=_TOPOLOGY),
    Row('ahead-mlir-only', (), ('ahead.compile/v1', 'ahead.compile/v2',
                                'ahead.compile/shardy', 'ahead.damaged'),
        topology=_TOPOLOGY),
    Row('ahead-swallows-damage',
        (Found('ahead.damaged', 'a truncated program was compiled'),),
        ('ahead.devices',),
        topology=_TOPOLOGY),
)

ROWS = (*_WORKING, *_COLLECTIVES, *_GROUPS, *_ROUNDING, *_SHARDINGS, *_PROGRAMS,
        *_OPERATIONS, *_AHEAD)
