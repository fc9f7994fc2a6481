"""The pictures of the pages are what their commands make of the project."""

import xml.etree.ElementTree as ElementTree

from layer_table import MAY_IMPORT
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
