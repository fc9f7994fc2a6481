"""How many examples a property test tries."""

import hypothesis

# Of the profile that tries as many as a test names.
_FULL = 100


def register_profiles() -> None:
  """`full` tries what each test names, `core` a twentieth (infra/test.sh)."""
  hypothesis.settings.register_profile(
      'full', max_examples=_FULL, deadline=None)
  hypothesis.settings.register_profile(
      'core', max_examples=_FULL // 20, deadline=None)
  hypothesis.settings.load_profile('full')


def examples(count: int, **options) -> hypothesis.settings:
  """Settings for `count` examples, scaled to the profile of this session."""
  scale = hypothesis.settings.default.max_examples / _FULL
  return hypothesis.settings(
      max_examples=max(1, round(count * scale)), deadline=None, **options)
