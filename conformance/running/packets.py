"""Messages between a run, its servers and their workers: pickled, one a packet."""

from __future__ import annotations

from collections.abc import Mapping
import pickle
import socket
from typing import Any, Optional

_LARGEST = 1 << 20


def send(connection: socket.socket,
         message: Mapping[str, Any],
         files: tuple[int, ...] = ()) -> None:
  """Sends a message, and copies of open files with it.

  Args:
    files: descriptors that the other side gets copies of.
  """
  socket.send_fds(connection, [pickle.dumps(message)], list(files))


def receive(
    connection: socket.socket) -> tuple[Optional[dict[str, Any]], list[int]]:
  """A message and the files with it; None at the end of the connection."""
  data, files, _, _ = socket.recv_fds(connection, _LARGEST, 2)
  return (pickle.loads(data) if data else None), files
