"""A compiler on each C++ file that the series touch, all of them together.

Its headers are packages': torch's own; those of XLA, MLIR, StableHLO, Shardy, absl
and protobuf of the tf-nightly-cpu three days behind the pin of XLA; LLVM's. The
variable UPSTREAM_CLONE names a clone of pytorch/xla, tags and all.
"""

import importlib.util
import os
from pathlib import Path
import subprocess
import sys
import sysconfig
import zipfile

from infra_project import ROOT
import pytest

from infra.patchset import git
from infra.patchset.worktree import work_tree, Worktree
from infra.patchset.manifest import ALL, load_manifest

# Found without an import of torch.
_SITE = Path(importlib.util.find_spec('torch').origin).parents[1]
_CLONE = os.environ.get('UPSTREAM_CLONE', '')
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(not _CLONE, reason='UPSTREAM_CLONE names no clone')
]
# With torch 2.9.0; r2.10 and master want torch 2.11.
_BASE = 'v2.9.0+0fa6e3129e'
# Of the pin 92f7b5952d, 2025-08-15, and LLVM's of its time.
_PACKAGES = 'tf-nightly-cpu==2.21.0.dev20250818', 'xtc-llvm-dev==22.1.8.2'
_FOLDERS = ('', 'external/farmhash_archive/src', 'external/shardy',
            'external/stablehlo', 'external/llvm-project/mlir/include',
            'xla/mlir_hlo')
# Of things that the series do not touch, and headers that are in no package.
_STAND_INS = {
    'xla/hlo/builder/lib/logdet.h':
        """#include "xla/hlo/builder/xla_builder.h"
namespace xla { struct SignAndLogDet { XlaOp sign, logdet; };
SignAndLogDet SLogDet(XlaOp); }""",
    'xla/pjrt/distributed/distributed.h':
        """namespace xla { class DistributedRuntimeService {};
class DistributedRuntimeClient {}; }""",
    'xla/tsl/distributed_runtime/preemption/preemption_sync_manager.h':
        'namespace tsl { class PreemptionSyncManager {}; }',
    'xla/python/profiler/internal/traceme_wrapper.h':
        """#include <pybind11/pybind11.h>
namespace xla::profiler { struct TraceMeWrapper {
TraceMeWrapper(const pybind11::str&, const pybind11::kwargs&);
void SetMetadata(const pybind11::kwargs&); void Stop();
static bool IsEnabled(); }; }""",
}
_HEAVY = ('ATen/Functions.h', 'torch/csrc/lazy/core/lazy_graph_executor.h',
          'torch/csrc/utils/pybind.h', 'xla/hlo/builder/xla_builder.h',
          'xla/hlo/ir/hlo_module.h', 'xla/pjrt/pjrt_client.h',
          'mlir/Pass/PassManager.h', 'shardy/dialect/sdy/ir/dialect.h',
          'stablehlo/dialect/StablehloOps.h')


def _unpacked(folder: Path) -> list[str]:
  """The folders of headers of packages, downloaded once."""
  if not (folder / 'done').exists():
    subprocess.run([
        sys.executable, '-m', 'pip', 'download', '--no-deps', '--pre', '-q',
        '--dest', folder, *_PACKAGES
    ],
                   check=True)
    for wheel in folder.glob('*.whl'):
      with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder,
                           [n for n in archive.namelist() if '/include/' in n])
      wheel.unlink()
    (folder / 'done').touch()
  include = folder / 'tensorflow/include'
  return [*(str(include / f) for f in _FOLDERS), str(folder / 'llvm/include')]


def _generate(tree: Path, folder: Path) -> None:
  """Makes the headers that upstream's codegen makes of torch's operators."""
  torch_root, made = folder / 'root/torch', folder / 'torch_xla/csrc'
  for link, target in ((torch_root / 'aten/src/ATen',
                        _SITE / 'torchgen/packaged/ATen'),
                       (torch_root / 'torch', _SITE / 'torch/include/torch'),
                       (folder / 'root/__main__/torch_xla',
                        tree / 'torch_xla')):
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(target)
  made.mkdir(parents=True)
  codegen = tree / 'codegen'
  subprocess.run([
      sys.executable, codegen / 'lazy_tensor_generator.py', folder / 'root',
      codegen / 'xla_native_functions.yaml', made
  ],
                 check=True)
  for file in made.iterdir():
    # It names the folders that it is given.
    text = file.read_text().replace(f'<{torch_root}/', '<')
    file.write_text(text.replace(f'<{made}/', '<torch_xla/csrc/'))


def test_each_touched_file_passes_a_compiler(tmp_path):
  generated = tmp_path / 'generated'
  with work_tree(Path(_CLONE)) as tree:
    worktree = Worktree(ROOT, load_manifest(ROOT), tree)
    start, _ = worktree.start(_BASE)
    laid = worktree.lay(worktree.manifest.with_dependencies(ALL), _BASE)
    assert not [entry for entry in laid if entry.conflict]
    _generate(tree, generated)
    inside = _SITE / 'torch/include'
    folders = [
        *_unpacked(ROOT / 'build/headers'), inside,
        inside / 'torch/csrc/api/include',
        sysconfig.get_path('include')
    ]
    compiler = [
        'g++', '-std=c++17', '-fPIC', '-w', f'-I{tree}', f'-I{generated}',
        *(f'-isystem{folder}' for folder in folders)
    ]
    for name, text in _STAND_INS.items():
      (generated / name).parent.mkdir(parents=True, exist_ok=True)
      (generated / name).write_text(f'#pragma once\n{text}')
    heavy = generated / 'heavy.h'
    heavy.write_text(''.join(f'#include "{name}"\n' for name in _HEAVY))
    subprocess.run([*compiler, '-x', 'c++-header', heavy], check=True)
    touched = git.need(tree, 'diff', '--name-only', start, 'HEAD', '--',
                       'torch_xla/csrc/*.cpp').split()
    assert touched
    faults = {}
    for path in touched:
      done = subprocess.run(
          [*compiler, '-include', heavy, '-fsyntax-only', tree / path],
          capture_output=True,
          encoding='utf-8',
          check=False)
      if done.returncode:
        faults[path] = done.stderr[:2000]
  assert not faults
