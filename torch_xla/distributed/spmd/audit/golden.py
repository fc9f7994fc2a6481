"""A report as the sections of a golden file."""

from __future__ import annotations

from collections.abc import Mapping
import json
from typing import Any

from .report import OTHER
from torch_xla.shardy.gate.golden import (Golden, numbered, steady)

TOOL = 'audit'
_WHOLE = ('mode', 'policy', 'mesh', 'devices')
_OF_TENSOR = ('kind', 'rule', 'dtype', 'form')


def of_report(data: Mapping[str, Any]) -> Golden:
  """What a golden file of a report holds.

  Of programs these are partitioners and forms of shardings, but neither how many
  instructions have one nor names that number them, nor bytes, which any constant
  changes.

  Args:
    data: of `AuditReport.to_dict`, maybe read from JSON.
  """
  programs = data['programs'] or ()
  named = list(zip(numbered(p['name'] for p in programs), programs))
  memory = {
      'all tensors': {
          k: v for k, v in data['totals'].items() if k != 'tensors'
      },
      # What else a script leaves alive is not the model's.
      **{
          held['what']: {
              k: v for k, v in held.items() if k != 'what'
          } for held in data['held'] if held['what'] != OTHER
      },
  }
  return Golden(
      TOOL, {
          'placements': {
              'the model': {
                  name: json.dumps(data[name]).strip('"') for name in _WHOLE
              },
              **{
                  name: _tensor(row) for name, row in data['tensors'].items()
              },
              **dict(map(_boundary, data['boundaries'])),
          },
          'programs': {
              'all programs': {
                  'programs':
                      'not known' if data['programs'] is None else len(programs)
              },
              **{
                  name: _program(row) for name, row in named
              },
          },
          'collectives': {
              name: ({
                  f'{one["kind"]} {title}': one[key]
                  for one in row['collectives']
                  for title, key in (('count', 'count'), ('bytes', 'nbytes'),
                                     ('smallest bytes', 'smallest'))
              } if row['collectives'] is not None else {
                  'collectives': 'not known'
              }) for name, row in named
          },
          'memory': memory,
          'counts': {
              'counts': data['counts']
          },
      })


def _tensor(row: Mapping[str, Any]) -> dict[str, Any]:
  fields = {name: row[name] for name in _OF_TENSOR}
  return fields | {
      'aliases': ', '.join(row['aliases']),
      'shape': json.dumps(row['shape']),
      'spec': row['spec'] + _priority(row['policy']),
      'marked': _seen(row['annotation']),
      'stored': _seen(row['stored']),
      'compiled': ' and '.join(dict.fromkeys(map(_seen, row['compiled']))),
      'why not V2': steady(row['why_not_v2']),
  }


def _seen(seen: Mapping[str, Any]) -> str:
  if seen['sharding'] is None:
    return f'not known: {seen["unknown"]}'
  return seen['sharding'] + _priority(seen)


def _priority(seen: Mapping[str, Any]) -> str:
  return f' priority {json.dumps(seen["priority"])}' if seen['priority'] else ''


def _boundary(row: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
  output = '' if row['output'] is None else f' [{row["output"]}]'
  marked = []
  for one in row['activations']:
    text = f'{json.dumps(one["shape"])}, {json.dumps(one["local_shape"])}'
    # How many are is of instructions, and whether any is of the policy.
    marked.append(text +
                  (', not constrained' if one['constrained'] == 0 else ''))
  return f'boundary {row["module"]}{output}', {
      'spec': row['spec'],
      'priority': json.dumps(row['priority']),
      'hooked': row['hooked'],
      'activations': '; '.join(sorted(marked)),
  }


def _program(row: Mapping[str, Any]) -> dict[str, Any]:
  return {
      'partitioner':
          row['partitioner'],
      'partitions':
          row['partitions'],
      'forms':
          ' and '.join(f for f in ('V2', 'V1') if row[f.lower()]),
      'why not V2':
          '; '.join(sorted(steady(why) for why, _ in row['why_not_v2'])),
      'note':
          steady(row['note']),
  }
