"""A report as the sections of a golden file."""

from __future__ import annotations

from collections.abc import Mapping
import json
from typing import Any

from torch_xla.shardy.gate.golden import (Golden, numbered, SECTIONS, steady)

from .report import OTHER

TOOL = 'audit'


def of_report(data: Mapping[str, Any]) -> Golden:
  """The contents of a golden file of a report.

  Of programs these are partitioners and forms of shardings, but neither how many
  instructions have one nor names that number them, nor bytes, which any constant
  changes.

  Args:
    data: of `AuditReport.to_dict`, maybe read from JSON.
  """
  whole = {key: data[key] for key in ('mode', 'policy', 'mesh', 'devices')}
  placements = {'the model': {k: json.dumps(v) for k, v in whole.items()}}
  placements.update((n, _tensor(row)) for n, row in data['tensors'].items())
  placements.update(map(_boundary, data['boundaries']))
  rows = data['programs'] or ()
  programs = dict(zip(numbered(row['name'] for row in rows), rows))
  count = 'not known' if data['programs'] is None else len(rows)
  memory = {'all tensors': dict(data['totals'])}
  del memory['all tensors']['tensors']
  for held in data['held']:
    # What else a script leaves alive is not the model's.
    if held['sort'] != OTHER:
      memory[held['sort']] = {k: v for k, v in held.items() if k != 'sort'}
  sections = (placements, {
      'all programs': dict(programs=count),
      **{
          name: _program(row) for name, row in programs.items()
      }
  }, {
      name: _moved(row['collectives']) for name, row in programs.items()
  }, memory, dict(counts=data['counts']))
  return Golden(TOOL, dict(zip(SECTIONS, sections)))


def _tensor(row: Mapping[str, Any]) -> dict[str, Any]:
  return {
      **{
          name: row[name] for name in ('kind', 'rule', 'dtype', 'form')
      },
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
  return f'boundary {row["module"]}{output}', {
      'spec':
          row['spec'] + _priority(row),
      'hooked':
          row['hooked'],
      # How many instructions are constrained is none of a golden file's.
      'activations':
          '; '.join(
              sorted(
                  json.dumps(one['shape']) + ', not constrained' *
                  (one['constrained'] == 0) for one in row['activations'])),
  }


def _program(row: Mapping[str, Any]) -> dict[str, Any]:
  return {
      'partitioner': row['partitioner'],
      'partitions': row['partitions'],
      'forms': ' and '.join(f for f in ('V2', 'V1') if row[f.lower()]),
      'why not V2': '; '.join(sorted(steady(w) for w, _ in row['why_not_v2'])),
      'note': steady(row['note']),
  }


def _moved(rows: Any) -> dict[str, Any]:
  if rows is None:
    return {'collectives': 'not known'}
  return {
      f'{row["kind"]} {title}': row[key] for row in rows
      for title, key in (('count', 'count'), ('bytes', 'nbytes'))
  }
