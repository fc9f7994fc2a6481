"""How many examples a property test tries."""

import hypothesis

# By tier; a test says how many of all it wants.
_PERCENT = {'core': 5, 'whole': 10, 'all': 100}


def load_profile(tier: str) -> None:
  """Has what is decorated from now on try as much as the tier does."""
  hypothesis.settings.register_profile(
      tier, max_examples=_PERCENT[tier], deadline=None)
  hypothesis.settings.load_profile(tier)


def examples(count: int, **options) -> hypothesis.settings:
  """Settings for `count` examples, scaled to the tier of this session."""
  scale = hypothesis.settings.default.max_examples / 100
  return hypothesis.settings(
      max_examples=max(1, round(count * scale)), deadline=None, **options)
