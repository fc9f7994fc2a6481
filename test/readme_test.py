"""The README's example runs, and names commands and files that exist."""

from pathlib import Path
import re

from processes import output_of

ROOT = Path(__file__).parents[1]
README = (ROOT / 'README.md').read_text()


def test_example_runs():
  script, = re.findall(r'```python\n(.*?)```', README, re.DOTALL)
  output = output_of(script, PJRT_DEVICE='CPU', CPU_NUM_DEVICES='8')
  assert re.match(r'SyncTensorsGraph\S* Partitioner\.GSPMD ', output)


def test_scripts_exist():
  scripts = set(
      re.findall(r'(?:infra|benchmarks|examples)/\w+\.(?:py|sh)', README))
  assert 'infra/demo.sh' in scripts
  assert [s for s in scripts if not (ROOT / s).is_file()] == []
