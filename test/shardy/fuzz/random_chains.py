"""Programs of convolutions, norms and activations, made from a seed.

Their meshes have devices in any order, their sizes divide evenly or not, and
all have gradients, of a loss that does not shrink with the number of elements: a
gradient that is summed over wrong devices is far off.
"""

from __future__ import annotations

import math
from typing import Optional

from random_programs import Draft, finished, MeshShape, Program, Value

_SHAPES = ((4, 2), (2, 4), (2, 2, 2), (8,))
_BATCHES = (8, 8, 16, 6, 4, 3)
_CHANNELS = (8, 16, 4, 6, 3, 5, 10, 12)
_PLACES = {1: (8, 9, 5, 16), 2: (4, 5, 7)}
_MOST = 4096


def make(seed: int) -> Program:
  """The program of a seed."""
  draft = Draft(seed, backward=True)
  draft.meshes = [_mesh(draft)]
  draft.float_dtype = draft.dice.choice(('float32',) * 5 + ('float64',))
  v = _input(draft)
  for _ in range(draft.dice.choice((1, 2, 2, 3))):
    for step in (_convolution, _norm, _activation):
      v = step(draft, v) or v
    if draft.chance(0.1):
      draft.constrain(v)
    if draft.chance(0.1):
      v = draft.emit(f'{v.name}.to(torch.bfloat16).to(torch.float32)', v) or v
      draft.float_dtype = v.dtype
  if draft.chance(0.4):
    v = _linear(draft, v) or v
  scale = math.prod(v.shape)**0.5
  draft.emit(f'torch.sin({v.name} + 0.5) * {scale:.4f}', v)
  return finished(draft)


def _mesh(draft: Draft) -> MeshShape:
  shape = draft.dice.choice(_SHAPES)
  ids = list(range(8))
  order = draft.dice.random()
  if order < 0.6:
    draft.dice.shuffle(ids)
  elif order < 0.75:  # Back and forth, as round a ring.
    ids = [*ids[:4], *ids[:3:-1]]
  return MeshShape(tuple(ids), shape, tuple('abc'[:len(shape)]))


def _input(draft: Draft) -> Value:
  places = draft.dice.choice(_PLACES[spatial := draft.dice.choice((1, 2))])
  shape = [draft.dice.choice(_BATCHES), draft.dice.choice(_CHANNELS)]
  shape += [places] * spatial
  if math.prod(shape) > _MOST:
    shape[0] = 3
  return draft.new_input(tuple(shape))


def _convolution(draft: Draft, v: Value) -> Optional[Value]:
  spatial, channels = v.rank - 2, v.shape[1]
  size = draft.dice.choice((3, 3, 1))
  dilation = draft.dice.choice((1, 1, 1, 2))
  stride = draft.dice.choice((1, 1, 2))
  padding = draft.dice.choice((0, size // 2 * dilation))
  groups = draft.dice.choice(
      [1, 1, channels, *(g for g in (2, 3, 4) if channels % g == 0)])
  out = groups * draft.dice.choice(
      [n for n in (1, 2, 3, 4, 6, 8, 12) if groups * n <= 24])
  window = (size,) * spatial
  scale = (size**spatial * channels / groups)**-0.5
  operands, bias = [v], None
  if draft.chance(0.5):
    operands.append(draft.new_input((out,), weight=True))
    bias = operands[-1].name
  if draft.chance(0.2):
    w = draft.new_input((channels, out // groups, *window), weight=True)
    return draft.emit(
        f'F.conv_transpose{spatial}d({v.name} * {scale:.4f}, {w.name}, {bias}, '
        f'{stride}, {padding}, 0, {groups}, {dilation})', *operands, w)
  w = draft.new_input((out, channels // groups, *window), weight=True)
  return draft.emit(
      f'F.conv{spatial}d({v.name} * {scale:.4f}, {w.name}, {bias}, {stride}, '
      f'{padding}, {dilation}, {groups})', *operands, w)


def _norm(draft: Draft, v: Value) -> Optional[Value]:
  channels = v.shape[1]
  kind = draft.dice.choice(('batch', 'batch', 'group', 'instance', 'layer', ''))
  if not kind or math.prod(v.shape[2:]) < 2:
    return None
  shape = (channels, *v.shape[2:]) if kind == 'layer' else (channels,)
  w, b = (draft.new_input(shape, weight=True) for _ in range(2))
  if kind == 'layer':
    text = f'F.layer_norm({v.name}, {shape}, {w.name}, {b.name}, 0.1)'
  elif kind == 'group':
    groups = draft.dice.choice([g for g in (1, 2, 3, 4) if channels % g == 0])
    text = f'F.group_norm({v.name}, {groups}, {w.name}, {b.name}, 0.1)'
  elif kind == 'instance':
    text = f'F.instance_norm({v.name}, None, None, {w.name}, {b.name}, True, ' \
        '0.1, 0.1)'
  else:
    text = f'F.batch_norm({v.name}, None, None, {w.name}, {b.name}, True, ' \
        '0.1, 0.1)'
  return draft.emit(text, v, w, b)


def _activation(draft: Draft, v: Value) -> Optional[Value]:
  forms = ('F.relu({})', 'F.gelu({})', 'F.silu({})', 'torch.tanh({})')
  return draft.emit(draft.dice.choice(forms).format(v.name), v)


def _linear(draft: Draft, v: Value) -> Optional[Value]:
  inner = math.prod(v.shape[1:])
  w = draft.new_input((draft.dice.choice(_CHANNELS), inner), weight=True)
  return draft.emit(
      f'F.linear({v.name}.flatten(1) * {inner**-0.5:.4f}, {w.name})', v, w)
