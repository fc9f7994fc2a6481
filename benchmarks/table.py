"""Figures as text."""

from typing import Any, Callable, Dict, List, Sequence

Data = Dict[str, Any]
_LABEL, _CELL = 26, 25


class _Table:
  """Rows under the variants' names."""

  def __init__(self, title: str, columns: Sequence[str]):
    self._columns = columns
    self.lines = [title, '']
    self._add('', columns)

  def _add(self, label: str, cells: Sequence[str]) -> None:
    text = ''.join(cell.rjust(_CELL) for cell in cells)
    self.lines.append(f'{label:{_LABEL}}{text}'.rstrip())

  def row(self,
          label: str,
          values: Dict[str, Any],
          form: Callable[[Any], str] = '{:.2f}'.format) -> None:
    self._add(label, [form(values[name]) for name in self._columns])

  def note(self, text: str) -> None:
    self.lines.append(text)


def _spread(ratio: Dict[str, float]) -> str:
  return f'{ratio["ratio"]:.3f} ({ratio["lowest"]:.2f}-{ratio["highest"]:.2f})'


def _target(what: str, target: Data) -> str:
  relation = 'below' if target['below'] else 'at most'
  met = 'met' if target['met'] else 'MISSED'
  return f'target: {what} {relation} {target["limit"]}: {met}'


def _times(table: _Table, data: Data, label: str) -> None:
  table.row(label, data['ms'])
  table.row('  over official (rounds)', data['over_official'], _spread)
  table.row('CPU ms, all threads', data['cpu_ms'])
  table.row('  over official (rounds)', data['cpu_over_official'], _spread)


def _breakdown(table: _Table, entries: Dict[str, Dict[str, float]]) -> None:
  for name, values in entries.items():
    table.row(f'  {name}', values)


def _retrace(results: List[Data]) -> List[str]:
  lines = []
  for data in results:
    table = _Table(
        f'1. torch.compile loop of pytorch/xla#9755, {data["layers"]} sharded '
        'linear layer(s)', list(data['ms']))
    table.row(f'traces in {data["steps"]} steps', data['traces'],
              '{:.0f}'.format)
    _times(table, data, 'ms per step')
    table.note('where a step goes, ms:')
    _breakdown(table, data['breakdown'])
    table.note("torch_xla's metrics, ms per step (they overlap the above):")
    _breakdown(table, data['metrics'])
    table.note('without the check over with it, in turn in one process: '
               f'{_spread(data["without_check"])}')
    table.note(_target('ours over official', data['target']))
    lines += [*table.lines, '']
  return lines


def _demo_step(data: Data) -> List[str]:
  table = _Table('2. training step of examples/train_sharded.py',
                 list(data['ms']))
  _times(table, data, 'ms per step')
  table.note('where a step goes, ms (medians, so the sum is not exact):')
  _breakdown(table, data['breakdown'])
  table.note(_target('ours, shim over official', data['target']))
  return [*table.lines, '']


def _read(data: Data) -> List[str]:
  table = _Table('3. reading a sharded tensor', list(data['ms']))
  _times(table, data, 'ms per read')
  table.note(_target('ours, Shardy over official', data['target']))
  return [*table.lines, '']


_RENDER = {'retrace': _retrace, 'demo-step': _demo_step, 'read': _read}


def text(results: Data) -> str:
  """The figures of `results`, by name, as one text."""
  lines: List[str] = []
  for name, data in results.items():
    lines += _RENDER[name](data)
  return '\n'.join(lines)
