"""The context of a case: the means to try a plugin."""

from __future__ import annotations

from collections.abc import Mapping
import contextlib
import functools
from typing import Any, Optional, TYPE_CHECKING

from .case import NotApplicable
from .pjrt.client import Client
from .pjrt.formats import Format
from .pjrt.programs import MLIR
from .pjrt.table import Table
from .subject import Subject

if TYPE_CHECKING:
  from .torch_session import TorchSession


class Context:
  """A plugin in one process, reached by its table or through torch_xla.

  Attributes:
    capabilities: what was measured of the plugin; empty while that is done.
    seed: of random numbers.
  """

  def __init__(self, subject: Subject, capabilities: Mapping[str, Any]):
    self.subject = subject
    self.capabilities = capabilities
    self.seed = 17
    self._clients = contextlib.ExitStack()

  @functools.cached_property
  def plugin(self) -> Any:
    """The DevicePlugin of the plugin under test."""
    from . import device_plugin
    return device_plugin.register(self.subject,
                                  self.capabilities.get('format') == MLIR)

  @functools.cached_property
  def library(self) -> str:
    return self.subject.library or self.plugin.library_path()

  @functools.cached_property
  def table(self) -> Table:
    return Table.open(self.library)

  @property
  def options(self) -> Mapping[str, Any]:
    """The options that a client is created with."""
    if self.subject.library:
      return self.subject.options
    return self.plugin.client_create_options()

  def client(self) -> contextlib.AbstractContextManager[Client]:
    return Client.start(self.table, self.options, self.format)

  @functools.cached_property
  def _kept_client(self) -> Client:
    return self._clients.enter_context(self.client())

  def kept_client(self) -> Client:
    """One for all parts of a process: some plugins start but once.

    What an earlier use of it has left is destroyed.
    """
    self._kept_client.release()
    self._kept_client.format = self.format
    return self._kept_client

  def release(self) -> None:
    """Destroys what a part has left on the kept client."""
    if '_kept_client' in vars(self):
      self._kept_client.release()

  def close(self) -> None:
    """Ends the kept client."""
    self._clients.close()

  @functools.cached_property
  def _torch(self) -> TorchSession:
    from .torch_session import TorchSession
    _ = self.plugin  # It registers.
    return TorchSession(self.subject.device)

  def torch(self) -> TorchSession:
    """torch_xla on the plugin, in SPMD."""
    return self._torch

  @property
  def format(self) -> Optional[Format]:
    """The format in which the plugin takes programs: HLO where it does."""
    name = self.capabilities.get('format')
    return name and Format(name, self.capabilities.get('artifact_version'))

  def needs_serialization(self) -> None:
    """Checks that the plugin stores and loads programs.

    Raises:
      NotApplicable: it does not.
    """
    if not self.capabilities.get('serialization'):
      raise NotApplicable('the plugin does not serialise programs')

  def needs(self, function: str) -> None:
    """Checks that the plugin has a function.

    Raises:
      NotApplicable: the plugin has no such function.
    """
    if not self.table.has(function):
      raise NotApplicable(f'the plugin has no PJRT_{function}')
