"""Annotations in a program: the targets of custom calls.

`xs.mark_sharding` hands the runtime a placement and no more. The mesh's axis
names, the priorities and the rest travel inside the program, in calls that the lowering
takes out again:

- a *binding*, with the annotated tensors as operands, says which of them is
  which parameter of the program;
- a *tag*, between an intermediate tensor and its `Sharding` call, says the
  same of that tensor.

The target holds the whole text, because it is all that the graph's hash covers
and all that survives when the node is cloned.
"""

from __future__ import annotations

from collections.abc import Iterable
import functools
import json
from typing import Any

from .annotation import Annotation, UserMesh
from .constraint_words import check_propagate, check_unreduced
from .priority import check_priority

# The target of every call that must not leave this process begins so.
PREFIX = 'torch_xla.shardy.'
_BINDING = f'{PREFIX}bind '
_TAG = f'{PREFIX}tag '
_UPDATE = 'update'


class AnnotationTextError(ValueError):
  """The target of a binding or a tag that does not say what it should."""


def binding_target(annotations: Iterable[Annotation], label: str = '') -> str:
  """The target of the binding of tensors with these annotations, in order.

  Args:
    label: of the bound tensors; it tells bindings of one program apart.
  """
  return _BINDING + _dump(annotations, label)


def tag_target(annotation: Annotation) -> str:
  """The target of the tag of one tensor."""
  return _TAG + _dump([annotation])


def update_target(annotation: Annotation) -> str:
  """The target of the tag of a tensor's new value, which nobody marked."""
  return _TAG + _dump([annotation], _UPDATE)


def is_update(target: str) -> bool:
  """Tests whether a tag is that of a new value."""
  return target.startswith(f'{_TAG}{{"of":"{_UPDATE}"')


def is_binding(target: str) -> bool:
  return target.startswith(_BINDING)


def is_tag(target: str) -> bool:
  return target.startswith(_TAG)


def with_annotations(target: str, annotations: Iterable[Annotation]) -> str:
  """A binding's target with other annotations of the same tensors."""
  return binding_target(annotations, json.loads(target[len(_BINDING):])['of'])


@functools.lru_cache(maxsize=64)  # A program has many tags and few different.
def parse_target(target: str) -> tuple[Annotation, ...]:
  """The annotations in the target of a binding or a tag."""
  prefix = next((p for p in (_BINDING, _TAG) if target.startswith(p)), None)
  if prefix is None:
    raise AnnotationTextError(f'{target[:80]!r} is no binding and no tag')
  try:
    data = json.loads(target[len(prefix):])
    meshes = [
        UserMesh(
            tuple(shape), None if names is None else tuple(names),
            None if ids is None else tuple(ids))
        for shape, names, ids in data['meshes']
    ]
    annotations = []
    for index, spec, priority, *words in data['tensors']:
      if index not in range(len(meshes)):
        raise ValueError(f'there is no mesh {index}')
      propagate, unreduced = words or (None, None)
      mesh = meshes[index]
      spec = tuple(map(tuple, spec))
      priority = check_priority(priority, len(spec))
      annotation = Annotation(
          mesh, spec, priority, check_propagate(propagate, spec, priority),
          check_unreduced(unreduced, None, len(mesh.shape), spec))
      # Refuses axes and devices that are not there.
      annotation.sharding  # noqa: B018
      annotations.append(annotation)
  except (ValueError, TypeError, KeyError, IndexError) as e:
    raise AnnotationTextError(f'damaged annotations in a program: {e}') from e
  return tuple(annotations)


def _dump(annotations: Iterable[Annotation], label: str = '') -> str:
  meshes: dict[UserMesh, int] = {}
  tensors = [(meshes.setdefault(a.mesh, len(meshes)), a.partition_spec,
              a.priority, *_words(a)) for a in annotations]
  data = {
      'of': label,
      'meshes': [(m.shape, m.axis_names, m.device_ids) for m in meshes],
      'tensors': tensors,
  }
  return json.dumps(data, separators=(',', ':'))


def _words(annotation: Annotation) -> tuple[Any, ...]:
  """The options that most annotations lack: their text, and hash, omits them."""
  if annotation.propagate is None and not annotation.unreduced:
    return ()
  return annotation.propagate, annotation.unreduced
