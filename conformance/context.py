"""The context of a case: the means to try a plugin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
import contextlib
import dataclasses
import functools
from typing import Any, TYPE_CHECKING

from .case import NotApplicable
from .pjrt.client import Client
from .pjrt.graph import Graph
from .pjrt.programs import MLIR, Program
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

  @contextlib.contextmanager
  def client(self) -> Iterator[Client]:
    with Client.start(self.table, self.options) as client:
      yield self._as_known(client)

  @functools.cached_property
  def _kept_client(self) -> Client:
    return self._clients.enter_context(Client.start(self.table, self.options))

  def kept_client(self) -> Client:
    """One for all parts of a process: some plugins start but once."""
    return self._as_known(self._kept_client)

  def close(self) -> None:
    """Ends the kept client."""
    self._clients.close()

  def _as_known(self, client: Client) -> Client:
    return dataclasses.replace(
        client, artifact_version=self.capabilities.get('artifact_version'))

  @functools.cached_property
  def _torch(self) -> TorchSession:
    from .torch_session import TorchSession
    _ = self.plugin  # It registers.
    return TorchSession(self.subject.device)

  def torch(self) -> TorchSession:
    """torch_xla on the plugin, in SPMD."""
    return self._torch

  @property
  def format(self) -> str:
    """The format in which the plugin takes programs: HLO where it does.

    Raises:
      NotApplicable: it takes none.
    """
    form = self.capabilities.get('format')
    if form is None:
      raise NotApplicable('it takes programs neither in HLO nor in MLIR')
    return form

  def program(self, graph: Graph, client: Client) -> Program:
    """A program for the first device."""
    return graph.program(self.format, client.ids[:1])

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
