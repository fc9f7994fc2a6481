"""A table on stdout."""

from collections.abc import Sequence


def print_table(title: str, head: Sequence[str],
                rows: Sequence[Sequence]) -> None:
  widths = [
      max(len(str(row[i])) for row in [head, *rows]) for i in range(len(head))
  ]
  print(f'\n{title}')
  for row in [head, *rows]:
    print('  ' + '  '.join(str(c).rjust(w) for c, w in zip(row, widths)))
