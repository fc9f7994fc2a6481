"""Names of bound tensors, by the targets of their bindings."""

from torch_xla.shardy.bind.names import BoundNames


def test_names_are_asked_for_when_they_are_needed():
  names, tensors = BoundNames(), ['w']
  names.remember('bind 1', lambda: tuple(tensors))
  tensors.append('v')
  assert names.get('bind 1') == ('w', 'v')


def test_the_later_of_two_with_one_target_counts():
  names = BoundNames()
  names.remember('bind 1', lambda: ('old',))
  names.remember('bind 2', lambda: ('other',))
  names.remember('bind 1', lambda: ('new',))
  assert names.get('bind 1') == ('new',)
  assert names.get('bind 2') == ('other',)


def test_the_latest_are_kept():
  """A process binds at every step; those of before hold on to its tensors."""
  names = BoundNames()
  for step in range(1000):
    names.remember('bind 0', lambda: ('again',))
    names.remember(f'bind {step + 1}', lambda: (f'{step}',))
    assert names.get('bind 0') == ('again',)
  kept = [t for t in range(1, 1001) if names.get(f'bind {t}')]
  assert 8 <= len(kept) <= 100
  assert kept == list(range(1001 - len(kept), 1001))
