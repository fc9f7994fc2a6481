"""The cost of torch_xla: import time and installed size."""

import importlib.metadata
import time

from sections import report


def main() -> None:
  # torch first: torch_xla imports it anyhow, and it takes most of the time.
  cpu = time.process_time()
  start = time.perf_counter()
  importlib.import_module('torch')
  between = time.perf_counter()
  import torch_xla
  end = time.perf_counter()
  cpu = time.process_time() - cpu
  # Bytecode has no size in RECORD: it is made on installing.
  files = importlib.metadata.files('torch_xla') or ()
  report(
      version=torch_xla.__version__,
      ms=1e3 * (end - start),
      cpu_ms=1e3 * cpu,
      own_ms=1e3 * (end - between),
      size=sum(file.size or 0 for file in files))


if __name__ == '__main__':
  main()
