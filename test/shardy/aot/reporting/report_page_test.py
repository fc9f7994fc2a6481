"""The page of one report and of several, in a real browser."""

from __future__ import annotations

import dataclasses
from pathlib import Path
import subprocess

import aot_reports as make
import browsing
import pytest
from torch_xla.shardy.aot.reporting import page, wording


@pytest.fixture(scope='module')
def browser() -> str:
  return browsing.find()


def written(folder: Path, *reports) -> Path:
  path = folder / 'aot.html'
  path.write_text(
      page.html([(f'report <{i}>', r) for i, r in enumerate(reports)]),
      encoding='utf-8')
  return path


@pytest.fixture(scope='module')
def one(tmp_path_factory) -> Path:
  return written(tmp_path_factory.mktemp('one'), make.report())


@pytest.fixture(scope='module')
def several(tmp_path_factory) -> Path:
  return written(
      tmp_path_factory.mktemp('several'), make.report(), make.awkward(),
      make.empty())


@pytest.fixture(scope='module')
def shown(browser: str, several: Path) -> subprocess.CompletedProcess:
  return browsing.dump(browser, several)


def test_a_page_of_one_report_compares_nothing(one: Path) -> None:
  source = one.read_text(encoding='utf-8')
  assert 'Side by side' not in source
  assert '<p class="verdict ok">fits: the largest peak is 9.50 GiB' in source
  assert browsing.needs_nothing(source)


def test_what_does_not_fit_is_marked(one: Path, several: Path) -> None:
  bad = '<p class="verdict bad">does not fit: the compiler refused'
  assert bad in several.read_text(encoding='utf-8')
  assert 'differs' not in one.read_text(encoding='utf-8').split('<body>')[1]
  topology = dataclasses.replace(make.TOPOLOGY, memory=make.GIB)
  source = page.html([('small', make.report(topology=topology))])
  assert ('<td class="num differs" data-label="of memory"><span>950.0 %'
          '</span>') in source


@pytest.mark.slow
def test_the_page_holds_the_reports(shown: subprocess.CompletedProcess) -> None:
  assert 'CONSOLE' not in shown.stderr
  text = browsing.text_of(shown.stdout)
  for report in make.report(), make.awkward(), make.empty():
    for told in (wording.verdict(report), wording.run_text(report),
                 wording.topology_text(report), *wording.remarks(report),
                 wording.printable(report.script[0]), report.traceback):
      assert told in text
    for program in report.programs:
      assert wording.printable(program.name) in text
      for told in (program.note, program.error, *program.called_from,
                   *(t.name for t in program.heaviest)):
        assert told in text
      if not program.error:
        assert wording.cycles_text(program.cycles) in text
        assert all(wording.over_text(u) in text for u in program.collectives)
  assert 'report <2>' in text
  assert 'only in report <0>: SyncTensorsGraph.9' in text
  assert '<title>Ahead of time</title>' in shown.stdout


@pytest.mark.slow
def test_the_page_fits_a_desk_a_phone_and_the_dark(browser: str,
                                                   several: Path) -> None:
  assert browsing.needs_nothing(several.read_text(encoding='utf-8'))
  desk = browsing.probed(browser, several, '--window-size=1280,900')
  assert desk['links'] == 'true'
  assert 1200 < int(desk['client']) <= 1280
  assert desk['scroll'] == desk['client']
  assert desk['background'] == 'rgb(255, 255, 255)'
  phone = browsing.probed_on_a_phone(browser, several)
  assert 350 < int(phone['client']) <= 390
  assert phone['scroll'] == phone['client']
  dark = browsing.probed(browser, several,
                         '--blink-settings=preferredColorScheme=0')
  assert dark['background'] == 'rgb(20, 23, 27)'
