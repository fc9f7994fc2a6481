"""Looks at a page of a report in a real browser."""

from __future__ import annotations

import html
from pathlib import Path
import re
import shutil
import subprocess

import pytest

# What the tests add to a copy of a page: the page itself has no script.
_PROBE = '''<script>addEventListener('load', () => {
  const say = (name, value) => document.body.setAttribute('data-' + name, value)
  const root = document.documentElement
  say('scroll', root.scrollWidth)
  say('client', root.clientWidth)
  say('background', getComputedStyle(document.body).backgroundColor)
  say('links', [...document.querySelectorAll('a')].every(
      a => document.querySelector(a.getAttribute('href'))))
  %s
})</script></body>'''


def find() -> str:
  """The browser; without one, the test is skipped."""
  found = shutil.which('chromium')
  if not found:
    pytest.skip("no browser: install Debian's chromium")
  return found


def dump(browser: str, path: Path, *options:
         str) -> subprocess.CompletedProcess:
  """The page as the browser holds it, and what it logged."""
  return subprocess.run([
      browser, '--headless=new', '--no-sandbox', '--disable-gpu',
      '--enable-logging=stderr', '--virtual-time-budget=3000', '--dump-dom',
      *options,
      path.as_uri()
  ],
                        stdout=subprocess.PIPE,
                        stderr=subprocess.PIPE,
                        text=True,
                        timeout=120,
                        check=True)


def photograph(browser: str, page: Path, picture: Path, window: tuple[int, int],
               scale: float) -> None:
  """Writes a PNG of the upper part of a page.

  Args:
    window: width and height of that part, in pixels of the page.
    scale: pixels of the picture for one of the page.
  """
  subprocess.run([
      browser, '--headless=new', '--no-sandbox', '--disable-gpu',
      '--hide-scrollbars', f'--force-device-scale-factor={scale}',
      f'--window-size={window[0]},{window[1]}', f'--screenshot={picture}',
      page.as_uri()
  ],
                 stderr=subprocess.DEVNULL,
                 timeout=120,
                 check=True)


def probed(browser: str,
           page: Path,
           *options: str,
           more: str = '') -> dict[str, str]:
  """What a copy of the page with the probe says of itself.

  Its 'scroll' and 'client' width, whether all 'links' lead anywhere, and its
  'background'.

  Args:
    more: a script that says more, `say(name, value)`.
  """
  path = page.with_name('probe.html')
  path.write_text(
      page.read_text(encoding='utf-8').replace('</body>', _PROBE % more))
  return _said(dump(browser, path, *options).stdout)


def probed_on_a_phone(browser: str, page: Path) -> dict[str, str]:
  """'scroll' and 'client' of a page that is 390 pixels wide."""
  # A window cannot be as narrow, a frame can.
  path = page.with_name('phone.html')
  inner = html.escape(
      page.read_text(encoding='utf-8').replace('</body>', _PROBE % ''),
      quote=True)
  path.write_text(
      '<!DOCTYPE html><body><iframe id="f" style="width:390px;height:800px;'
      f'border:0" srcdoc="{inner}"></iframe><script>setTimeout(() => {{'
      "const b = document.getElementById('f').contentDocument.body;"
      "for (const n of ['scroll', 'client'])"
      "document.body.setAttribute('data-' + n, b.getAttribute('data-' + n))"
      '}, 1000)</script></body>')
  return _said(dump(browser, path).stdout)


def needs_nothing(source: str) -> bool:
  """Whether a page runs no script and loads nothing."""
  return not re.search(
      r'<script|<link rel="stylesheet|@import|url\(|https?:|'
      r'\ssrc=', source)


def text_of(dom: str) -> str:
  """What a page shows, without its markup."""
  return html.unescape(re.sub(r'<style>.*?</style>|<[^>]*>', '', dom))


def _said(dom: str) -> dict[str, str]:
  body = dom.split('<body')[1].split('>')[0]
  return {
      n: html.unescape(v) for n, v in re.findall(r'data-(\w+)="([^"]*)"', body)
  }
