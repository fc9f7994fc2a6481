"""Programs made from a seed: values that can be run, printed and made smaller.

  >>> print(make(12))
  # program 12
  mesh_0 = Mesh([0, 1, 2, 3, 4, 5, 6, 7], (2, 4), ('a', 'b'))
  v0 = normal((8, 7), 'float32')  # placed: mark(v0, 0, ('a', None), (1, 0))
  ...
  v3 = torch.tanh(v0 @ v1)
  v3 = mark(v3, 0, (None, 'b'), None)
  results = v3, v2

The seed alone decides what a program is: no set or dict by hash is iterated,
and nothing is read of the process. A program's lines are Python that torch runs
on any device; `program_runs` says what the names in them mean.
"""

from __future__ import annotations

import dataclasses
import math
import random
from typing import Optional

import torch
import torch.nn.functional as F

_FLOATS = ('float32', 'float32', 'float32', 'bfloat16', 'float16', 'float64')
_INTEGERS = ('int64', 'int32', 'int16', 'int8', 'uint8')
# Each as one of a mesh's shapes for eight devices.
_MESH_SHAPES = ((8,), (2, 4), (4, 2), (1, 8), (8, 1), (2, 2, 2), (2, 1, 4),
                (4, 1, 2), (2, 2, 2, 1), (1, 2, 2, 2), (2, 1, 2, 2))
_EVEN_SIZES = (8, 8, 8, 16, 24, 4, 2)
_UNEVEN_SIZES = (1, 3, 5, 6, 7, 9, 10, 12, 13, 17)
_MOST_ELEMENTS = 4096
_MOST_RANK = 5


@dataclasses.dataclass(frozen=True)
class MeshShape:
  """Arguments of `xs.Mesh`."""
  device_ids: tuple[int, ...]
  shape: tuple[int, ...]
  axis_names: Optional[tuple[str, ...]]

  def __str__(self) -> str:
    return f'Mesh({list(self.device_ids)}, {self.shape}, {self.axis_names})'


@dataclasses.dataclass(frozen=True)
class Input:
  """A tensor with data that the program starts from.

  Attributes:
    kind: 'normal' deviates, 'integer', 'mask' or 'index'.
    dtype: of torch, by its name.
    below: what indices stay below.
    mark: the arguments of `mark`, as text; empty if nothing is said of it.
    weight: whether it is a `torch.nn.Parameter`.
    gradient: whether it takes part in the backward pass.
  """
  name: str
  kind: str
  shape: tuple[int, ...]
  dtype: str
  below: int = 0
  mark: str = ''
  weight: bool = False
  gradient: bool = False

  def __str__(self) -> str:
    below = f', below={self.below}' if self.below else ''
    says = [f'mark({self.name}, {self.mark})'] if self.mark else ['unmarked']
    says += ['weight'] * self.weight + ['requires_grad'] * self.gradient
    return (f'{self.name} = {self.kind}({self.shape}, {self.dtype!r}{below})'
            f'  # {", ".join(says)}')


@dataclasses.dataclass(frozen=True)
class Step:
  """One line: `text` sets or changes `name`, from what it `reads`."""
  text: str
  name: str
  reads: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Program:
  """A program; see the module's docstring.

  Attributes:
    results: names of tensors; there may be several.
    backward: whether the floating-point results are summed and differentiated.
    updates: steps that follow, of weights by their gradients.
    precision: the least precise floating-point dtype that occurs.
  """
  seed: int
  meshes: tuple[MeshShape, ...]
  inputs: tuple[Input, ...]
  steps: tuple[Step, ...]
  results: tuple[str, ...]
  backward: bool = False
  updates: tuple[Step, ...] = ()
  precision: str = 'float64'

  def __str__(self) -> str:
    lines = [f'# program {self.seed}']
    lines += [f'mesh_{i} = {mesh}' for i, mesh in enumerate(self.meshes)]
    lines += map(str, self.inputs)
    lines += [step.text for step in self.steps]
    lines.append(f'results = [{", ".join(self.results)}]')
    if self.backward:
      lines.append('backward(results)')
    lines += [step.text for step in self.updates]
    return '\n'.join(lines)


@dataclasses.dataclass(frozen=True)
class Value:
  """A tensor of a program in the making.

  Attributes:
    exact: whether its elements are an input's, so that what is not continuous,
      as an order or a comparison, is the same however sums are rounded.
    changeable: whether it may be updated in place.
  """
  name: str
  shape: tuple[int, ...]
  dtype: str
  exact: bool
  changeable: bool = False

  @property
  def rank(self) -> int:
    return len(self.shape)

  @property
  def is_float(self) -> bool:
    return self.dtype in _FLOATS


class Draft:
  """A program in the making, and the dice that make it."""

  def __init__(self, seed: int, backward: Optional[bool] = None):
    self.dice = random.Random(seed)
    self.seed = seed
    by_dice = self.dice.random() < 0.4
    self.backward = by_dice if backward is None else backward
    self.values: list[Value] = []
    self.inputs: list[Input] = []
    self.steps: list[Step] = []
    self.float_dtype = self.dice.choice(_FLOATS)
    self._evenness = self.dice.choice((1.0, 0.7, 0.3))
    self._marks = self.dice.choice((0.4, 0.8, 1.0))
    self._priorities = self.dice.choice((0.0, 0.5, 1.0, 1.0))
    self.meshes = [self._mesh()]
    if self.dice.random() < 0.1:
      self.meshes.append(self._mesh())
    self._names = 0
    self._meta: dict[str, torch.Tensor] = {}

  def chance(self, probability: float) -> bool:
    return self.dice.random() < probability

  def size(self) -> int:
    """The size of a dimension; in a program of even sizes it fits any axis."""
    even = self.chance(self._evenness)
    return self.dice.choice(_EVEN_SIZES if even else _UNEVEN_SIZES)

  def shape(self, ranks: tuple[int, ...] = (1, 2, 2, 3, 3, 4, 5)) -> tuple:
    shape = [self.size() for _ in range(self.dice.choice(ranks))]
    while math.prod(shape) > _MOST_ELEMENTS:
      shape[self.dice.randrange(len(shape))] = 2
    return tuple(shape)

  def new_input(self,
                shape: tuple[int, ...],
                kind: str = 'normal',
                below: int = 0,
                weight: Optional[bool] = None) -> Value:
    """Adds an input that a step needs, or the program starts with."""
    dtype = {
        'normal': self.float_dtype,
        'mask': 'bool',
        'index': 'int64'
    }.get(kind) or self.dice.choice(_INTEGERS)
    is_float = kind == 'normal'
    if weight is None:
      weight = self.chance(0.3)
    gradient = self.backward and is_float and (weight or self.chance(0.5))
    name = self._name()
    mark = self.mark(len(shape)) if self.chance(self._marks) else ''
    self.inputs.append(
        Input(name, kind, shape, dtype, below, mark, is_float and weight,
              gradient))
    value = Value(name, shape, dtype, True, not self.backward)
    self.values.append(value)
    self._meta[name] = torch.empty(
        shape, dtype=getattr(torch, dtype), device='meta')
    return value

  def mark(self, rank: int) -> str:
    """Arguments of `mark` for a tensor of this rank."""
    place = self.dice.randrange(len(self.meshes))
    mesh = self.meshes[place]
    axes = list(mesh.axis_names or range(len(mesh.shape)))
    self.dice.shuffle(axes)
    spec = []
    for _ in range(rank):
      count = min(self.dice.choice((0, 0, 1, 1, 2)), len(axes))
      taken = tuple(axes.pop() for _ in range(count))
      spec.append(None if not taken else taken[0] if count == 1 else taken)
    priority = None
    if self.chance(self._priorities):
      priority = tuple(
          self.dice.choice((None, 0, 1, 2, 5)) for _ in range(rank))
    return f'{place}, {tuple(spec)}, {priority}'

  def pick(self, accepts=lambda value: True) -> Optional[Value]:
    """A value that `accepts` takes, of the latest rather than the first."""
    found = [v for v in self.values if accepts(v)]
    if not found:
      return None
    return found[-1] if self.chance(0.7) else self.dice.choice(found)

  def pick_float(self, ranks=range(1, _MOST_RANK + 1)) -> Optional[Value]:
    return self.pick(lambda v: v.is_float and v.rank in ranks)

  def axis(self, value: Value) -> int:
    return self.dice.randrange(value.rank)

  def emit(self,
           expression: str,
           *operands: Value,
           exact: bool = False) -> Optional[Value]:
    """Adds `name = expression`, unless torch refuses it or it grows large."""
    try:
      result = eval(expression, {'torch': torch, 'F': F}, self._meta)  # pylint: disable=eval-used
    except (RuntimeError, IndexError, ValueError, TypeError):
      return None
    if (result.numel() > _MOST_ELEMENTS or result.dim() > _MOST_RANK or
        not result.numel()):
      return None
    value = Value(self._name(), tuple(result.shape),
                  str(result.dtype).removeprefix('torch.'), exact and
                  all(v.exact for v in operands))
    self._meta[value.name] = result
    self.steps.append(
        Step(f'{value.name} = {expression}', value.name,
             tuple(v.name for v in operands)))
    self.values.append(value)
    return value

  def change(self, text: str, value: Value, *operands: Value) -> None:
    """Adds a step that updates `value` in place."""
    self.steps.append(
        Step(text, value.name, (value.name, *(v.name for v in operands))))
    place = self.values.index(value)
    self.values[place] = dataclasses.replace(value, exact=False)

  def constrain(self, value: Value) -> None:
    """Adds a mark of a tensor in between."""
    text = f'{value.name} = mark({value.name}, {self.mark(value.rank)})'
    self.steps.append(Step(text, value.name, (value.name,)))

  def _name(self) -> str:
    self._names += 1
    return f'v{self._names - 1}'

  def _mesh(self) -> MeshShape:
    shape = self.dice.choice(_MESH_SHAPES)
    ids = list(range(8))
    order = self.dice.random()
    if order < 0.3:
      self.dice.shuffle(ids)
    elif order < 0.5:  # Every second one first, as on a torus.
      ids = ids[::2] + ids[1::2]
    names = tuple('abcd'[:len(shape)])
    return MeshShape(tuple(ids), shape, names if self.chance(0.9) else None)


def make(seed: int) -> Program:
  """The program of a seed."""
  import random_operations
  draft = Draft(seed)
  for _ in range(draft.dice.choice((1, 2, 2, 3))):
    kind = draft.dice.choice(('normal',) * 5 + ('integer',))
    draft.new_input(draft.shape(), kind)
  wanted = draft.dice.choice((1, 2, 3, 4, 6))
  for _ in range(4 * wanted):
    if wanted and random_operations.add(draft):
      wanted -= 1
      if draft.chance(0.25):
        draft.constrain(draft.values[-1])
  return finished(draft)


def finished(draft: Draft) -> Program:
  """The program of a draft: what no step reads is a result."""
  read = {r for step in draft.steps for r in step.reads if r != step.name}
  made = dict.fromkeys(step.name for step in draft.steps)
  # What nothing else reads; and at times what something does.
  results = [name for name in made if name not in read or draft.chance(0.15)
            ] or [draft.values[0].name]
  by_name = {v.name: v for v in draft.values}
  # Of what is not floating point there is no gradient.
  backward = draft.backward and any(by_name[r].is_float for r in results)
  inputs = tuple(
      dataclasses.replace(i, gradient=i.gradient and backward)
      for i in draft.inputs)
  updates = ()
  if backward and draft.chance(0.4):
    updates = tuple(
        Step(f'update({i.name})', i.name, (i.name,))
        for i in inputs
        if i.gradient)
  dtypes = {v.dtype for v in draft.values if v.is_float}
  precision = next(
      (d for d in ('bfloat16', 'float16', 'float32') if d in dtypes), 'float64')
  return Program(draft.seed, tuple(draft.meshes), inputs, tuple(draft.steps),
                 tuple(results), backward, updates, precision)
