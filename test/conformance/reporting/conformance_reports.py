"""Reports for tests."""

from __future__ import annotations

from torch_xla_conformance.result import ConformanceReport, Result, Status

_CAPABILITIES = {
    'library': 'libacme.so',
    'devices': list(range(16)),
    'hlo': True,
    'mlir': 'UNIMPLEMENTED: no <mlir>',
    'memory_statistics': False,
    'attributes': {
        'stablehlo_current_version': [1, 13, 3]
    },
}
_RESULTS = (
    Result('start.version', '', Status.PASSED, 'PJRT API 0.81', .04),
    Result('transfers.types', 'F32', Status.PASSED, '7 shapes', 1.),
    Result('transfers.types', 'F64', Status.SKIPPED, 'no F64', 0.),
    Result('donation.real', 'taken', Status.FAILED,
           'the argument <lives> on\x1b', 2.),
    Result('threads.together', '', Status.CRASHED, 'ended by SIGSEGV', 3.),
    Result('endurance.steps', '', Status.HUNG, 'no end after 9 s', 9.),
    Result('ahead.compile', 'v1', Status.EXPECTED, 'known (failed: x)', .1),
    Result('ahead.compile', 'ahead.*', Status.STALE, 'f:1: take it out', 0.),
)


def of(*results: Result,
       interrupted: bool = False,
       **capabilities) -> ConformanceReport:
  return ConformanceReport('libacme.so devices=16', {
      **_CAPABILITIES,
      **capabilities
  }, results, {result.case: f'{result.case} is wrong' for result in results},
                           interrupted, 15.25)


def with_all() -> ConformanceReport:
  """One with results of each status."""
  return of(*_RESULTS)


def with_issues() -> ConformanceReport:
  """One of failures that are expected, most of them by an issue."""
  issues = ('acme#17', 'https://acme.example/21', 'acme#17', '')
  return of(
      *_RESULTS[:1],
      *(Result('ahead.compile', str(n), Status.EXPECTED, 'known (failed: x)',
               .1, issue) for n, issue in enumerate(issues)))


def right() -> ConformanceReport:
  return of(*_RESULTS[:3])


def without_device() -> ConformanceReport:
  return of(
      Result('donation.real', 'taken', Status.SKIPPED, 'no device: none', 0.),
      devices=[],
      start_error='NOT_FOUND: none')
