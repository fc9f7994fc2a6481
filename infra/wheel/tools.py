"""The distributions that lie beside the wheel: tools that need no torch_xla."""

from infra.wheel.pure_wheel import PureWheel

TOOLS: tuple[PureWheel, ...] = ()
