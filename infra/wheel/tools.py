"""The distributions that lie beside the wheel: tools that need no torch_xla."""

from infra.wheel import pins
from infra.wheel.pure_wheel import PureWheel

# What the conformance suite shares with torch_xla, which it can do without: it
# has copies, which import nothing of torch.
_SHARED = {
    'torch_xla/shardy':
        ('door/extras.py', 'ended_process.py', 'errors.py', 'gate/junit.py',
         'hlo/array_shape.py', 'hlo/compile_options.py', 'hlo/messages.py',
         'hlo/op_sharding.py', 'hlo/protos.py', 'late_module.py', 'mode.py',
         'pjrt_abi.inc', 'sharding/hlo_sharding.py', 'sharding/text.py',
         'sharding/tile_assignment.py', 'stablehlo/dialects.py',
         'stablehlo/mlir.py', 'web_page.py'),
    pins.COMMAND_PACKAGE: ('parser.py', 'terminal.py'),
}
_CONFORMANCE = 'torch_xla_conformance'

CONFORMANCE = PureWheel(
    name='torch-xla-conformance',
    summary='A suite that says whether a PJRT plugin is right',
    page='docs/judging.md',
    requires=('numpy', *pins.REQUIRES),
    sources={
        _CONFORMANCE: 'conformance',
        **{
            f'{_CONFORMANCE}/shared/{name}': f'{folder}/{name}' for folder, names in _SHARED.items(
            ) for name in names
        }
    },
    extras={'stablehlo': pins.EXTRAS['stablehlo']},
    entry_points={
        pins.SCRIPT_GROUP: {
            'torch-xla-conformance': f'{_CONFORMANCE}.main:main'
        }
    })

_BEHAVIOUR = 'torch_xla_behaviour'
_TESTS = f'{_BEHAVIOUR}/tests'

BEHAVIOUR = PureWheel(
    name='torch-xla-behaviour',
    summary='A suite that says what a torch_xla lacks, and what is wrong in it',
    page='docs/judging.md',
    # With rich, upstream draws what some tests look at.
    requires=('numpy', 'pytest>=8', 'rich'),
    sources={
        _BEHAVIOUR: 'behaviour',
        f'{_BEHAVIOUR}/lines.py': 'conformance/lines.py',
        _TESTS: 'test/behaviour',
        **{
            f'{_TESTS}/{name}': f'test/{name}' for name in ('children.py', 'fork_server.py', 'processes.py')
        },
    },
    entry_points={
        pins.SCRIPT_GROUP: {
            'torch-xla-behaviour': f'{_BEHAVIOUR}.__main__:main'
        }
    })

TOOLS: tuple[PureWheel, ...] = (CONFORMANCE, BEHAVIOUR)
