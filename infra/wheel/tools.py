"""The distributions that lie beside the wheel: tools that need no torch_xla."""

from collections.abc import Mapping

from infra.wheel import pins
from infra.wheel.pure_wheel import PureWheel


def _copies(place: str, files: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
  """The files below `place`: those of some folders of the checkout.
  """
  return {
      f'{place}/{name}': f'{folder}/{name}' for folder, names in files.items()
      for name in names
  }


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
        **_copies(f'{_CONFORMANCE}/shared', _SHARED)
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
        _BEHAVIOUR:
            'behaviour',
        f'{_BEHAVIOUR}/lines.py':
            'conformance/lines.py',
        _TESTS:
            'test/behaviour',
        **_copies(_TESTS, {
            'test': ('children.py', 'fork_server.py', 'processes.py')
        }),
    },
    entry_points={
        pins.SCRIPT_GROUP: {
            'torch-xla-behaviour': f'{_BEHAVIOUR}.__main__:main'
        }
    })

TOOLS: tuple[PureWheel, ...] = (CONFORMANCE, BEHAVIOUR)
