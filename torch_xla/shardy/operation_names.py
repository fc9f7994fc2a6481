"""The module that made an operation, by the operation's name in a program.

`script_names` has a tool's script name its operations so.
"""

from __future__ import annotations

import re

# A scope of ours in the name of an operation, and the number of its use. MLIR's
# names end at an @. It begins with a character, by which it is found fast.
_SCOPE = re.compile(r'~(?<![^/"]~)([^/"]+)\.\d+(?=/)')
_NAMESPACE = re.compile(r'^[a-z]+__')


def module_of(op_name: str) -> str:
  """The module in an operation's name, or in a location of MLIR's; or ''."""
  scopes = _SCOPE.findall(op_name)
  return scopes[-1] if scopes else ''


def origin_of(op_name: str) -> str:
  """An operation and its module, where one is known: 'addmm of blocks.3.up'."""
  module = module_of(op_name)
  operation = _NAMESPACE.sub('', op_name.rpartition('/')[2])
  return f'{operation} of {module}' if module else op_name
