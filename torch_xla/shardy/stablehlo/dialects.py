"""MLIR by way of jaxlib's bindings: parse, print, portable artifacts.

All that depends on jaxlib's own API is here. It is imported when a program
needs it and not before. A context is made for each program: what types and
attributes a context once held stays in memory as long as the context does.
"""

from __future__ import annotations

from collections.abc import Iterator
import contextlib
import importlib.util
import io
import re
from typing import Any, Optional, Union

from ..door import extras
from ..errors import DoorError
from .mlir import (_jax, _jax_mlir_ext, chlo, ir, jaxlib, mhlo, passmanager,
                   sdy, stablehlo)

# MLIR's own magic number, and the version of its bytecode, which old versions
# of StableHLO write another of.
_ARTIFACT = re.compile(rb'ML\xefR.StableHLO_v(\d+\.\d+\.\d+)\0', re.DOTALL)

Version = tuple[int, ...]


class ProgramTextError(ValueError):
  """A program in MLIR that cannot be read, or not be written as asked."""


def check_installed(why: str) -> None:
  """Checks that jaxlib is installed."""
  if importlib.util.find_spec('jaxlib') is None:
    raise DoorError(
        f'{why}, and jaxlib reads and writes it: it is not installed. '
        f'Install it with {extras.command("stablehlo")}')


def _context() -> ir.Context:
  check_installed('a program is to be StableHLO')
  registry = ir.DialectRegistry()
  _jax_mlir_ext.register_dialects(registry)
  context = ir.Context()
  context.append_dialect_registry(registry)  # Loaded as programs have them.
  for dialect in (chlo, sdy, stablehlo):
    dialect.register_dialect(context)
  mhlo.register_mhlo_dialect(context)
  return context


@contextlib.contextmanager
def scope(module: ir.Module) -> Iterator[None]:
  """Makes operations and attributes in the module's context meanwhile."""
  with module.context, ir.Location.unknown():
    yield


def artifact_version(program: bytes) -> Optional[Version]:
  """The version that a portable artifact is written in; None for others."""
  match = _ARTIFACT.match(program)
  return None if match is None else parse_version(match[1].decode())


def parse_version(text: str) -> Version:
  return tuple(map(int, text.split('.')))


def version_text(version: Version) -> str:
  return '.'.join(map(str, version))


def current_version() -> Version:
  """The newest version that jaxlib writes."""
  return parse_version(stablehlo.get_current_version())


def oldest_version() -> Version:
  """The oldest version that jaxlib writes."""
  return parse_version(stablehlo.get_minimum_version())


def cautious_version() -> Version:
  """The version that plugins of the last twelve weeks read, as XLA assumes."""
  return parse_version(
      stablehlo.get_version_from_compatibility_requirement(
          stablehlo.StablehloCompatibilityRequirement.WEEK_12))


def read(program: bytes, allow_unknown: bool = False) -> ir.Module:
  """The module of a portable artifact, of bytecode, or of text.

  Args:
    allow_unknown: whether operations of dialects that jaxlib does not know are
      taken, in MLIR's generic form.

  Raises:
    ProgramTextError: it cannot be read.
    DoorError: jaxlib is missing.
  """
  context = _context()
  context.allow_unregistered_dialects = allow_unknown
  with context, raising(context, 'cannot read a program in MLIR'):
    if artifact_version(program) is not None:
      module: ir.Module = stablehlo.deserialize_portable_artifact(
          context, program)
      return module
    return ir.Module.parse(program)


def to_hlo(module: ir.Module) -> bytes:
  """The serialised HloModuleProto that a module is converted to.

  Raises:
    ProgramTextError: it cannot be.
  """
  code = io.BytesIO()
  with module.context, raising(module.context,
                               'cannot convert a program to HLO'):
    module.operation.write_bytecode(code)
    computation = _jax.mlir.mlir_module_to_xla_computation(
        code.getvalue(), use_tuple_args=False, return_tuple=False)
  return bytes(computation.as_serialized_hlo_module_proto())


def from_hlo(program: bytes) -> ir.Module:
  """The module that a serialised HloModuleProto is converted to.

  Raises:
    ProgramTextError: it cannot be.
    DoorError: jaxlib is missing.
  """
  context = _context()
  with context, raising(context, 'cannot convert a program in HLO'):
    return ir.Module.parse(_jax.mlir.hlo_to_stablehlo(program))


def write(module: ir.Module, version: Version) -> bytes:
  """A portable artifact; other dialects, such as sdy, stay in it as they are.

  Uses the module up: it is turned into the versioned dialect, in place.

  Raises:
    ProgramTextError: the module is not valid, or has what `version` has not.
  """
  target = version_text(version)
  with raising(module.context, f'cannot write a program as StableHLO {target}'):
    module.operation.verify()
    return bytes(stablehlo.serialize_portable_artifact(module, target, True))


@contextlib.contextmanager
def raising(context: ir.Context, task: str) -> Iterator[None]:
  """Moves MLIR's errors from stderr into the exception."""
  messages: list[str] = []

  def keep(diagnostic: ir.Diagnostic) -> bool:
    messages.append(diagnostic.message)
    return True

  handler: Any = context.attach_diagnostic_handler(keep)
  try:
    yield
  except (ir.MLIRError, ValueError, RuntimeError) as e:
    message = ' '.join('; '.join(messages or [str(e)]).split())
    raise ProgramTextError(
        f'jaxlib {jaxlib.__version__} {task}: {message[:400]}') from e
  finally:
    handler.detach()


def run(passes: str, module: ir.Module, task: str) -> None:
  """Runs a pipeline of MLIR's passes on a module, in place.

  What they give is not verified: `write` does it once, and Shardy says of
  results of loops what its own verifier refuses.

  Args:
    task: what the error says, as in 'cannot convert a program'.

  Raises:
    ProgramTextError: a pass fails.
  """
  stablehlo.register_stablehlo_passes()
  mhlo.register_mhlo_passes()
  with module.context, raising(module.context, task):
    manager = passmanager.PassManager.parse(passes)
    manager.enable_verifier(False)
    manager.run(module.operation)


def text(module: ir.Module) -> str:
  """The module as people and tools such as sdy_opt read it."""
  return str(module)


def is_a(value: Any, kind: Any) -> bool:
  """Tests the kind of a type or attribute; older bindings have `isinstance`."""
  ask = getattr(kind, 'isinstance', None)
  return isinstance(value, kind) if ask is None else ask(value)


def operations_of(root: Union[ir.Module, ir.Operation]) -> list[ir.Operation]:
  """All operations of a module or of another operation, inner ones first.

  They may be changed and erased meanwhile, which a walk of MLIR's own forbids.
  """
  operations = []

  def look(operation: ir.Operation) -> ir.WalkResult:
    operations.append(operation.operation)
    return ir.WalkResult.ADVANCE

  root.operation.walk(look)
  return operations


def children_of(module: ir.Module) -> list[ir.Operation]:
  """The operations of a module, without inner ones.

  MLIR's own list makes objects of each dialect's classes, and imports these.
  """
  children = []

  def look(operation: ir.Operation) -> ir.WalkResult:
    if operation.operation == module.operation:
      return ir.WalkResult.ADVANCE
    children.append(operation.operation)
    return ir.WalkResult.SKIP

  module.operation.walk(look, ir.WalkOrder.PRE_ORDER)
  return children
