"""The pictures of the pages are of the project as it is."""

from pathlib import Path
import re
import struct
import xml.etree.ElementTree as ElementTree

from layer_table import MAY_IMPORT
import page_pictures
import pytest


def test_each_layer_is_drawn_once_with_what_it_imports():
  drawn = (page_pictures.PICTURES / 'program.svg').read_text()
  names = [
      text.text
      for text in ElementTree.fromstring(drawn).iter()
      if text.get('class', '') in ('name ink', 'chip ink')
  ]
  assert sorted(n for n in names if n in MAY_IMPORT) == sorted(MAY_IMPORT)
  for layer, imports in re.findall('<title>(.+) imports (.+)</title>', drawn):
    assert imports == (', '.join(MAY_IMPORT[layer][0]) or 'nothing'), layer


def _size(picture: Path) -> tuple[int, int]:
  """Width and height of a PNG, by its header."""
  start = picture.read_bytes()[:24]
  assert start.startswith(b'\x89PNG')
  return struct.unpack('>II', start[16:])


def _is_of(picture: Path, run: page_pictures.Run) -> bool:
  return (_size(picture) == page_pictures.size(run) and
          picture.stat().st_size < 100_000)


@pytest.mark.parametrize('name, run', page_pictures.RUNS.items())
def test_each_tool_has_its_picture_on_a_page(name, run):
  picture = page_pictures.PICTURES / f'{name}.png'
  assert _is_of(picture, run)
  pages = picture.parents[1].glob('*.md')
  link = f'](pictures/{name}.png)'
  assert sum(link in page.read_text() for page in pages) == 1


@pytest.mark.nightly
@pytest.mark.parametrize('name, run', page_pictures.RUNS.items())
def test_the_pictures_can_be_taken_again(name, run, tmp_path):
  assert _is_of(page_pictures.take(name, tmp_path), run)
