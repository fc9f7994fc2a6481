"""docs/upstream.md: what the words of a mark mean, and the tests that say so."""

import ast
import re

from infra_project import ROOT


def test_each_word_has_a_row_and_each_row_tests():
  text = (ROOT / 'docs/upstream.md').read_text(encoding='utf-8')
  section = text.split('## What the words mean')[1].split('\n## ')[0]
  rows = [line.split('|') for line in section.splitlines() if '|' in line][2:]
  for _, rule, wheel, source, tested, _ in rows:
    names = re.findall(r'`(\w+)::(\w+)`', tested)
    # What both have, both are tested for.
    assert bool(names) == (wheel.strip() == source.strip() == 'yes'), rule
    for module, test in names:
      file, = (ROOT / 'test/behaviour').rglob(f'{module}.py')
      assert f'\ndef {test}(' in file.read_text(encoding='utf-8'), test
  source = ROOT / 'torch_xla/shardy/annotate/annotation.py'
  annotation, = (
      node for node in ast.parse(source.read_text(encoding='utf-8')).body
      if isinstance(node, ast.ClassDef) and node.name == 'Annotation')
  words = {
      field.target.id
      for field in annotation.body
      if isinstance(field, ast.AnnAssign)
  } - {'mesh', 'partition_spec'}
  assert words == {w for w in words if any(f'`{w}`' in row[1] for row in rows)}
