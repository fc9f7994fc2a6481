"""Annotations of tensors, bound to programs.

`binder` is this process's; patches to torch_xla call it.
"""

from __future__ import annotations

from .binding import Binder

__all__ = ['Binder', 'binder']

binder = Binder()
