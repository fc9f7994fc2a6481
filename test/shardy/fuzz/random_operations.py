"""The operations that random programs are made of.

Each is a function that adds a step to a draft, and inputs that it needs, or
gives None where the draft has nothing that it could take. What grows is scaled
back, and what is not continuous takes only elements of inputs: torch and XLA
round in another order.
"""

from __future__ import annotations

from collections.abc import Callable
import math
from typing import Optional

from random_programs import Draft, Value

_Operation = Callable[[Draft], Optional[Value]]
_operations: list[_Operation] = []


def operation(weight: int = 1) -> Callable[[_Operation], _Operation]:
  """Registers a function, as often as `weight`."""

  def register(function: _Operation) -> _Operation:
    _operations.extend([function] * weight)
    return function

  return register


def add(draft: Draft) -> Optional[Value]:
  """Adds one step, if what was drawn can be done."""
  return draft.dice.choice(_operations)(draft)


@operation(3)
def unary(draft: Draft) -> Optional[Value]:
  v = draft.pick_float()
  forms = ('torch.tanh({})', 'torch.sin({})', 'torch.sigmoid({})', 'F.relu({})',
           'F.gelu({})', 'F.silu({})', '-{}', '{} * 0.5 + 1',
           'torch.exp(-{}.abs())', 'torch.rsqrt(1 + {} * {})',
           'torch.log1p({}.abs())', '{}.clamp(-1, 1)', 'torch.erf({})')
  return v and draft.emit(draft.dice.choice(forms).replace('{}', v.name), v)


@operation(3)
def binary(draft: Draft) -> Optional[Value]:
  a = draft.pick_float()
  if a is None:
    return None
  b = draft.pick(lambda v: v.is_float and v.name != a.name and _broadcasts(
      a.shape, v.shape))
  if b is None:
    b = draft.new_input(_narrowed(draft, a.shape))
  forms = ('{} + {}', '{} - {}', '{} * {}', 'torch.maximum({}, {})',
           'torch.minimum({}, {})', '{} / (1 + {}.abs())')
  return draft.emit(draft.dice.choice(forms).format(a.name, b.name), a, b)


@operation()
def integers(draft: Draft) -> Optional[Value]:
  v = draft.pick(lambda v: v.dtype.startswith(('int', 'uint')) and v.rank)
  if v is None:
    return None
  w = draft.pick(
      lambda w: w.dtype == v.dtype and _broadcasts(v.shape, w.shape)) or v
  axis = draft.axis(v)
  forms = (f'{v.name} + {w.name}', f'{v.name} * 3 - 1', f'{v.name} & 5',
           f'{v.name} ^ {w.name}', f'{v.name}.sum({axis})',
           f'{v.name}.cumsum({axis})', f'{v.name}.amax({axis})',
           f'torch.sort({v.name}, {axis})[0]', f'{v.name} > {w.name}',
           f'{v.name}.argmax({axis})', f'{v.name}.to(torch.int32)')
  return draft.emit(draft.dice.choice(forms), v, w, exact=True)


@operation()
def where(draft: Draft) -> Optional[Value]:
  v = draft.pick_float()
  if v is None:
    return None
  mask = draft.new_input(_narrowed(draft, v.shape), 'mask')
  other = draft.pick(
      lambda w: w.dtype == v.dtype and _broadcasts(v.shape, w.shape)) or v
  forms = (f'torch.where({mask.name}, {v.name}, {other.name} * 0.5)',
           f'{v.name}.masked_fill({mask.name}, 0.25)',
           f'{v.name} * {mask.name}')
  return draft.emit(draft.dice.choice(forms), v, mask, other)


@operation(2)
def reduction(draft: Draft) -> Optional[Value]:
  v = draft.pick_float()
  if v is None:
    return None
  dims = draft.dice.sample(range(v.rank), draft.dice.randint(1, v.rank))
  keep = draft.chance(0.4)
  count = math.prod(v.shape[d] for d in dims)
  forms = [
      f'{v.name}.mean({dims}, {keep})',
      f'{v.name}.sum({dims}, {keep}) * {count**-0.5:.4f}',
      f'torch.logsumexp({v.name}, {dims}, {keep})',
      f'{v.name}.abs().sum({dims}, {keep}) * {1 / count:.4f}',
      f'torch.sqrt(1 + {v.name}.square().mean({dims}, {keep}))'
  ]
  if count > 1:
    forms.append(f'{v.name}.var({dims}, keepdim={keep})')
  if v.exact and not draft.backward:
    forms += [
        f'{v.name}.amax({dims}, {keep})', f'{v.name}.amin({dims}, {keep})'
    ]
  return draft.emit(draft.dice.choice(forms), v)


@operation()
def ordered(draft: Draft) -> Optional[Value]:
  """What is not continuous: of elements of inputs, in a precise dtype."""
  v = draft.pick(lambda v: v.dtype in
                 ('float32', 'float64') and v.exact and v.rank)
  if v is None:
    return None
  axis = draft.axis(v)
  most = min(3, v.shape[axis])
  forms = (f'torch.sort({v.name}, {axis})[0]',
           f'torch.sort({v.name}, {axis}, descending=True)[0]',
           f'torch.topk({v.name}, {most}, {axis})[0]',
           f'{v.name}.argmax({axis})', f'torch.argsort({v.name}, {axis})',
           f'{v.name}.max({axis})[0]', f'{v.name} > 0.25')
  return draft.emit(draft.dice.choice(forms), v)


@operation()
def running(draft: Draft) -> Optional[Value]:
  v = draft.pick_float()
  if v is None:
    return None
  axis = draft.axis(v)
  forms = (f'{v.name}.cumsum({axis}) * {v.shape[axis]**-0.5:.4f}',
           f'torch.cumprod(torch.tanh({v.name}) + 0.5, {axis})',
           f'{v.name}.flip({axis})',
           f'torch.roll({v.name}, {draft.dice.randint(1, 3)}, {axis})')
  return draft.emit(draft.dice.choice(forms), v)


@operation(4)
def layout(draft: Draft) -> Optional[Value]:
  v = draft.pick(lambda v: v.rank)
  if v is None:
    return None
  axis, n = draft.axis(v), v.name
  order = draft.dice.sample(range(v.rank), v.rank)
  size = v.shape[axis]
  low = draft.dice.randrange(size)
  factors = [f for f in range(1, size + 1) if size % f == 0]
  factor = draft.dice.choice(factors)
  split = (*v.shape[:axis], factor, size // factor, *v.shape[axis + 1:])
  forms = [
      f'{n}.permute({order})', f'{n}.reshape({split})',
      f'{n}.unsqueeze({axis})', f'{n}.narrow({axis}, {low}, {size - low})',
      f'{n}.select({axis}, {low})',
      f'torch.cat([{n}, {n}.flip({axis})], {axis})',
      f'torch.stack([{n}, {n}], {axis})'
  ]
  if v.rank > 1:
    first = draft.dice.randrange(v.rank - 1)
    forms += [f'{n}.flatten({first}, {first + 1})'] * 2
    forms.append(f'{n}.transpose({axis}, {order[0]})')
    if not draft.backward:  # Upstream's gradient has another shape.
      forms.append(f'{n}.diagonal(0, {order[0]}, {order[1]})')
  if v.rank < 5:
    forms.append(f'{n}.expand({draft.dice.randint(2, 4)}, {_sizes(v.shape)})')
  if size > 2:
    forms.append(f'{n}[{":, " * axis}::2]')
    forms.append(f'torch.chunk({n}, 2, {axis})[1]')
  if v.is_float:
    forms.append(f'F.pad({n}, (1, 2), value=0.5)')
    if v.rank > 1:
      forms += [f'{n}.tril()', f'{n}.triu(1)']
  if v.rank and draft.chance(0.3):
    repeats = [draft.dice.choice((1, 1, 2, 3)) for _ in v.shape]
    forms.append(f'{n}.repeat({repeats})')
  return draft.emit(draft.dice.choice(forms), v, exact=True)


@operation(3)
def matmul(draft: Draft) -> Optional[Value]:
  v = draft.pick_float(range(2, 5))
  if v is None:
    return None
  inner = v.shape[-1]
  scale = f'{inner**-0.5:.4f}'
  form = draft.dice.randrange(5)
  if form == 0:
    return draft.emit(f'({v.name} @ {v.name}.transpose(-1, -2)) * {scale}', v)
  if form == 1:
    w = draft.new_input((draft.size(), inner), weight=True)
    bias = draft.new_input((w.shape[0],), weight=True)
    return draft.emit(f'F.linear({v.name} * {scale}, {w.name}, {bias.name})', v,
                      w, bias)
  if form == 2 and v.rank == 3:
    w = draft.new_input((inner, 2, draft.size()), weight=True)
    return draft.emit(
        f"torch.einsum('bse,ehd->bhsd', {v.name}, {w.name}) * {scale}", v, w)
  if form == 3 and v.rank == 3:
    w = draft.new_input((v.shape[0], inner, draft.size()))
    return draft.emit(f'torch.bmm({v.name}, {w.name}) * {scale}', v, w)
  w = draft.new_input((inner, draft.size()))
  return draft.emit(f'({v.name} @ {w.name}) * {scale}', v, w)


@operation()
def attention(draft: Draft) -> Optional[Value]:
  v = draft.pick_float((3, 4))
  if v is None:
    return None
  n = v.name
  if v.rank == 4:
    k = draft.new_input(v.shape)
    causal = draft.chance(0.5)
    return draft.emit(
        f'F.scaled_dot_product_attention({n}, {k.name}, {n}, '
        f'is_causal={causal})', v, k)
  if v.shape[-1] % 2:
    return None
  heads = f'{n}.unflatten(-1, (2, {v.shape[-1] // 2})).transpose(1, 2)'
  text = (f'F.scaled_dot_product_attention({heads}, {heads}, {heads})'
          '.transpose(1, 2).flatten(2)')
  return draft.emit(text, v)


@operation(2)
def normalisation(draft: Draft) -> Optional[Value]:
  v = draft.pick_float(range(2, 6))
  if v is None or v.shape[-1] < 2:
    return None
  n, last = v.name, v.shape[-1]
  form = draft.dice.randrange(6)
  if form == 0:
    return draft.emit(
        f'F.{draft.dice.choice(("softmax", "log_softmax"))}({n}, '
        f'{draft.axis(v)})', v)
  if form in (1, 2):
    w, b = (draft.new_input((last,), weight=True) for _ in range(2))
    return draft.emit(f'F.layer_norm({n}, ({last},), {w.name}, {b.name}, 0.1)',
                      v, w, b)
  if form == 3:
    return draft.emit(f'F.rms_norm({n}, ({last},), eps=0.1)', v)
  channels = v.shape[1]
  if form == 4 and v.rank > 2:
    groups = draft.dice.choice([g for g in (1, 2, 4) if channels % g == 0])
    return draft.emit(f'F.group_norm({n}, {groups}, eps=0.1)', v)
  if v.rank == 2 or v.shape[0] == 1:
    return None
  mean = draft.new_input((channels,), weight=False)
  training = draft.chance(0.6)
  if training:
    return draft.emit(
        f'F.batch_norm({n}, None, None, None, None, True, 0.1, '
        '0.1)', v)
  return draft.emit(
      f'F.batch_norm({n}, {mean.name}.detach(), '
      f'1 + {mean.name}.detach().square(), None, None, False, 0.1, 0.1)', v,
      mean)


@operation()
def convolution(draft: Draft) -> Optional[Value]:
  # Over a mesh with further axes XLA sums what is partitioned over all devices,
  # with GSPMD as well: results are as many times too large.
  v = draft.pick_float((3, 4))
  if (v is None or min(v.shape[2:]) < 3 or
      any(8 not in mesh.shape for mesh in draft.meshes)):
    return None
  n, channels = v.name, v.shape[1]
  form = draft.dice.randrange(4)
  spatial = v.rank - 2
  if form == 0:
    return draft.emit(f'F.avg_pool{spatial}d({n}, 2)', v)
  if form == 1 and v.exact:
    return draft.emit(f'F.max_pool{spatial}d({n}, 2)', v)
  groups = channels if form == 2 else 1
  out = channels if form == 2 else draft.size()
  w = draft.new_input((out, channels // groups) + (3,) * spatial, weight=True)
  scale = (3**spatial * channels // groups)**-0.5
  stride, padding = draft.dice.choice(((1, 1), (1, 0), (2, 1)))
  return draft.emit(
      f'F.conv{spatial}d({n} * {scale:.4f}, {w.name}, None, {stride}, '
      f'{padding}, 1, {groups})', v, w)


@operation(2)
def lookup(draft: Draft) -> Optional[Value]:
  """Rows and elements by index."""
  v = draft.pick_float()
  if v is None:
    return None
  n, axis = v.name, draft.axis(v)
  size = v.shape[axis]
  form = draft.dice.randrange(5)
  if form == 0:
    table = draft.new_input((draft.size(), draft.size()), weight=True)
    index = draft.new_input(draft.shape((1, 2)), 'index', below=table.shape[0])
    return draft.emit(f'F.embedding({index.name}, {table.name})', table, index)
  if form == 1:
    index = draft.new_input((draft.size(),), 'index', below=size)
    return draft.emit(
        f'{n}.index_select({axis}, {index.name})', v, index, exact=True)
  if form == 2:
    shape = (*v.shape[:axis], draft.size(), *v.shape[axis + 1:])
    index = draft.new_input(shape, 'index', below=size)
    return draft.emit(
        f'torch.gather({n}, {axis}, {index.name})', v, index, exact=True)
  if form == 3 and v.rank > 1:
    first = draft.new_input((draft.size(),), 'index', below=v.shape[0])
    second = draft.new_input(first.shape, 'index', below=v.shape[1])
    return draft.emit(
        f'{n}[{first.name}, {second.name}]', v, first, second, exact=True)
  if v.rank == 2 and v.shape[1] > 1:
    target = draft.new_input(v.shape[:1], 'index', below=v.shape[1])
    return draft.emit(f'F.cross_entropy({n}, {target.name})', v, target)
  index = draft.new_input(draft.shape((1, 2)), 'index', below=v.shape[0])
  return draft.emit(f'{n}[{index.name}]', v, index, exact=True)


@operation(2)
def scatter(draft: Draft) -> Optional[Value]:
  """Sums and replacements by index, without doubles where the order counts."""
  v = draft.pick_float()
  if v is None:
    return None
  n, axis = v.name, draft.axis(v)
  form = draft.dice.randrange(5)
  if form == 0:
    index = draft.new_input(v.shape, 'index', below=v.shape[axis])
    return draft.emit(
        f'torch.zeros_like({n}).scatter_add({axis}, {index.name}, {n})', v,
        index)
  if form == 1:
    index = draft.new_input((draft.size(),), 'index', below=v.shape[axis])
    source = draft.new_input(
        (*v.shape[:axis], *index.shape, *v.shape[axis + 1:]))
    return draft.emit(f'{n}.index_add({axis}, {index.name}, {source.name})', v,
                      index, source)
  if form == 2:
    index = draft.new_input((draft.size(),), 'index', below=v.shape[0])
    source = draft.new_input((*index.shape, *v.shape[1:]))
    return draft.emit(
        f'torch.index_put({n}, ({index.name},), {source.name}, True)', v, index,
        source)
  index = draft.new_input((1,), 'index', below=v.shape[0])
  if form == 3:
    return draft.emit(
        f'torch.index_put({n}, ({index.name},), '
        f'{n}[:1] * 0.5)', v, index)
  return draft.emit(f'{n}.index_copy(0, {index.name}, {n}[-1:])', v, index)


@operation(2)
def in_place(draft: Draft) -> Optional[Value]:
  if draft.backward:
    return None
  v = draft.pick(lambda v: v.is_float and v.changeable and v.rank)
  if v is None:
    return None
  other = draft.pick(
      lambda w: w.is_float and w.name != v.name and w.shape == v.shape)
  if other is None:
    other = draft.new_input(_narrowed(draft, v.shape))
  forms = (f'{v.name}.add_({other.name})', f'{v.name}.mul_(0.5)',
           f'{v.name}.sub_({other.name}).mul_(0.5)',
           f'{v.name}[0] = {other.name}[0] * 0.5', f'{v.name}[..., -1:] = 0.5',
           f'{v.name}.lerp_({other.name}, 0.25)')
  draft.change(draft.dice.choice(forms), v, other)
  return v


@operation(2)
def cast(draft: Draft) -> Optional[Value]:
  v = draft.pick()
  dtypes = ('float32', 'bfloat16', 'float64') if v.is_float else ('float32',
                                                                  'int64')
  return _to(draft, v, draft.dice.choice(dtypes))


@operation(2)
def autocast(draft: Draft) -> Optional[Value]:
  """A layer that computes in another dtype than its input and weights have."""
  v = draft.pick_float(range(2, 5))
  if v is None:
    return None
  inner = v.shape[-1]
  w = draft.new_input((draft.size(), inner), weight=True)
  bias = draft.new_input((w.shape[0],), weight=True)
  dtype = draft.dice.choice(('bfloat16', 'bfloat16', 'float16', 'float64'))
  a, b, c = (_to(draft, t, dtype) for t in (v, w, bias))
  made = draft.emit(
      f'F.linear({a.name} * {inner**-0.5:.4f}, {b.name}, {c.name})', a, b, c)
  return made and _to(draft, made, v.dtype)


def _to(draft: Draft, v: Value, dtype: str) -> Value:
  return draft.emit(f'{v.name}.to(torch.{dtype})', v) or v


def _sizes(shape: tuple[int, ...]) -> str:
  return ', '.join(map(str, shape))


def _broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
  """Whether `to` broadcasts to `shape`, which stays as it is."""
  if len(to) > len(shape):
    return False
  return all(b in (1, a) for a, b in zip(shape[::-1], to[::-1]))


def _narrowed(draft: Draft, shape: tuple[int, ...]) -> tuple[int, ...]:
  """A shape that broadcasts to `shape`."""
  dropped = draft.dice.choice((0, 0, 1)) if len(shape) > 1 else 0
  return tuple(1 if draft.chance(0.15) else size for size in shape[dropped:])
