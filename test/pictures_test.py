"""The pictures of the pages are what their commands make of the project."""

from pathlib import Path
import struct
import xml.etree.ElementTree as ElementTree

import browsing
from layer_table import MAY_IMPORT
import page_pictures
import program_picture
import pytest


def test_the_committed_picture_is_what_the_table_gives():
  assert program_picture.PICTURE.read_text() == program_picture.drawn(
      MAY_IMPORT), 'run: python test/program_picture.py'


def test_each_layer_is_drawn_once():
  names = [
      text.text
      for text in ElementTree.fromstring(program_picture.drawn(
          MAY_IMPORT)).iter()
      if text.get('class', '') in ('name ink', 'chip ink')
  ]
  assert sorted(n for n in names if n in MAY_IMPORT) == sorted(MAY_IMPORT)


def test_a_layer_without_a_place_is_an_error():
  with pytest.raises(program_picture.PictureError, match='place.*: linker'):
    program_picture.drawn({**MAY_IMPORT, 'linker': ((), ())})


def test_a_place_without_a_layer_is_an_error():
  table = {name: may for name, may in MAY_IMPORT.items() if name != 'gate'}
  with pytest.raises(program_picture.PictureError, match='not in .*: gate'):
    program_picture.drawn(table)


def test_a_step_between_strangers_is_an_error():
  with pytest.raises(program_picture.PictureError, match='annotate to bind'):
    program_picture.drawn({**MAY_IMPORT, 'bind': ((), ())})


def test_an_import_that_another_implies_is_not_drawn():
  table = {
      'top': (('middle', 'base'), ()),
      'middle': (('base',), ()),
      'base': ((), ()),
  }
  assert program_picture.reduced(table, table) == {('top', 'middle'),
                                                   ('middle', 'base')}


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


@pytest.mark.slow
def test_a_picture_is_taken(tmp_path):
  page = tmp_path / 'page.html'
  page.write_text('<!DOCTYPE html><h1>A page</h1>')
  picture = tmp_path / 'page.png'
  browsing.photograph(browsing.find(), page, picture, (500, 250), 0.8)
  assert _size(picture) == (400, 200)


@pytest.mark.nightly
@pytest.mark.parametrize('name, run', page_pictures.RUNS.items())
def test_the_pictures_can_be_taken_again(name, run, tmp_path):
  assert _is_of(page_pictures.take(name, tmp_path), run)
