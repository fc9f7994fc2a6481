"""Numbers out of samples."""

import statistics
from typing import Any, Dict, List

from .processes import Samples


def medians(samples: Samples, key: str) -> Dict[str, float]:
  """The median of `key` over the rounds, for each variant."""
  return {
      name: statistics.median(report[key] for report in reports)
      for name, reports in samples.items()
  }


def nested_medians(samples: Samples, key: str) -> Dict[str, Dict[str, float]]:
  """The `medians` of each entry of the dict `key`, by entry and variant.

  An entry that a variant lacks is 0 there.
  """
  entries: List[str] = []
  for reports in samples.values():
    entries += [e for r in reports for e in r[key] if e not in entries]
  return {
      entry: {
          name: statistics.median(r[key].get(entry, 0.0)
                                  for r in reports)
          for name, reports in samples.items()
      } for entry in entries
  }


def ratios(samples: Samples, key: str, base: str) -> Dict[str, Dict[str, Any]]:
  """The ratio of each variant's `key` to that of `base`.

  Returns:
    By variant: the ratio of the medians, and the lowest and highest ratio
    within one round, which show how steady the machine was.
  """
  center = medians(samples, key)
  result = {}
  for name, reports in samples.items():
    by_round = [
        ours[key] / theirs[key] for ours, theirs in zip(reports, samples[base])
    ]
    result[name] = {
        'ratio': center[name] / center[base],
        'lowest': min(by_round),
        'highest': max(by_round),
    }
  return result


def spread(reports: List[Dict[str, Any]], key: str) -> Dict[str, float]:
  """The median of a ratio that each process reports, and the extremes."""
  values = [report[key] for report in reports]
  return {
      'ratio': statistics.median(values),
      'lowest': min(values),
      'highest': max(values),
  }


def verdict(ratio: float, limit: float, below: bool = False) -> Dict[str, Any]:
  """Compares `ratio` with `limit`: at most it, or `below` it."""
  return {
      'limit': limit,
      'below': below,
      'met': ratio < limit if below else ratio <= limit,
  }
