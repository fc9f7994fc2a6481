"""Programs as graphs for Model Explorer, with the sharding of each tensor.

The fields are those of model_explorer/graph_builder.py of ai-edge-model-explorer
0.1.34.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Optional

from . import Explanation, text
from .propagation import Propagation


def collection(explained: Sequence[Explanation]) -> dict[str, Any]:
  """All programs; Model Explorer opens it as a JSON file."""
  return dict(
      label='sharding',
      graphs=[
          dict(id=f'{number}. {one.name}', nodes=list(_nodes(one.propagation)))
          for number, one in enumerate(explained, 1)
      ])


def _nodes(propagation: Propagation) -> Iterator[dict[str, Any]]:
  """Arguments, constants and operations, layered by the users' names.

  What is of no module is in the layer of the first tensor that it is computed
  from.
  """
  makers = {
      tensor: (number, place)
      for number, operation in enumerate(propagation.operations)
      for place, tensor in enumerate(operation.tensors[operation.num_operands:])
  }
  layers: dict[int, str] = {}
  for number, tensor in enumerate(propagation.tensors):
    if number not in makers:
      layers[number] = '/'.join(_owner(tensor.name).split('.')[:-1])
      yield _node(propagation, f't{number}', tensor.name, layers[number],
                  [number])
  for number, operation in enumerate(propagation.operations):
    sources = operation.tensors[:operation.num_operands]
    results = operation.tensors[operation.num_operands:]
    layer = _owner(operation.name, '').replace('.', '/') or next(
        filter(None, (layers.get(s) for s in sources)), '')
    layers.update((result, layer) for result in results)
    edges = []
    for place, source in enumerate(sources):
      maker, output = makers.get(source, (None, 0))
      edges.append(
          dict(
              sourceNodeId=f't{source}' if maker is None else f'o{maker}',
              sourceNodeOutputId=str(output),
              targetNodeInputId=str(place)))
    yield dict(
        _node(propagation, f'o{number}', operation.name, layer, results),
        incomingEdges=edges)


def _owner(name: str, without: Optional[str] = None) -> str:
  """The module or the weight that something is of, as its name says it."""
  what, is_of, owner = name.partition(' of ')
  return owner if is_of else what if without is None else without


def _node(propagation: Propagation, name: str, label: str, layer: str,
          tensors: Sequence[int]) -> dict[str, Any]:
  outputs = []
  for place, number in enumerate(tensors):
    tensor = propagation.tensors[number]
    attributes = dict(shape=str(tensor.shape), sharding=text.spec_text(tensor))
    if tensor.where:
      attributes['line'] = tensor.where
    for axis in dict.fromkeys(tensor.axes):
      origin = propagation.origins.get(tensor.origin_of(axis))
      if origin is not None:
        attributes[f'{axis} of'] = origin.name
    outputs.append(dict(id=str(place), attrs=_attributes(attributes)))
  first = outputs[0]['attrs'] if outputs else []
  return dict(
      id=name,
      label=label,
      namespace=layer,
      attrs=first,
      outputsMetadata=outputs)


def _attributes(said: dict[str, str]) -> list[dict[str, str]]:
  return [dict(key=key, value=value) for key, value in said.items()]
