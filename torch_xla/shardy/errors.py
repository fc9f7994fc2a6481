"""Exceptions of the path between torch_xla and the backend's compiler."""


class DoorError(RuntimeError):
  """The door could not be put before the backend's plugin."""


class TooLateError(DoorError):
  """The mode was asked for when the runtime already existed."""


class DeviceCountError(AssertionError):
  """A mesh, or who asks for virtual devices, wants others than there can be.

  An AssertionError, as upstream's of meshes is.
  """


class BackendCompileError(RuntimeError):
  """The backend refused a program.

  Attributes:
    code: the PJRT_Error_Code that the backend gave.
  """

  def __init__(self, code: int, message: str):
    super().__init__(message)
    self.code = code


class LayoutError(RuntimeError):
  """A backend lays tensors out otherwise than torch_xla relies on.

  Nothing is left to compile the program with, and to run it could give wrong
  numbers.
  """
