"""A compiler on each C++ file that the series touch, all of them together.

Its headers are packages': those of XLA, MLIR, StableHLO, Shardy, absl and protobuf
of the tf-nightly-cpu two or three days behind the pin of XLA; LLVM's; torch's. The
variable UPSTREAM_CLONE names a clone of pytorch/xla, tags and all.
"""

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

_CLONE = os.environ.get('UPSTREAM_CLONE', '')
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(not _CLONE, reason='UPSTREAM_CLONE names no clone')
]
# Of the pins 92f7b5952d, 2025-08-15, and 9a9aa0e11e, 2025-10-01.
_OF_2_9 = 'torch==2.9.0', 'tf-nightly-cpu==2.21.0.dev20250818'
_OF_MASTER = 'torch==2.11.0', 'tf-nightly-cpu==2.21.0.dev20251003'
_BASES = {
    'v2.9.0': _OF_2_9,
    'v2.9.0+0fa6e3129e': _OF_2_9,
    'r2.10': _OF_MASTER,
    'master': _OF_MASTER,
}
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


def _unpacked(packages: tuple[str, ...]) -> Path:
  """The folder of packages' headers and of torchgen, downloaded once."""
  folder = ROOT / 'build/headers' / packages[0]
  if not (folder / 'done').exists():
    subprocess.run([
        sys.executable, '-m', 'pip', 'download', '--no-deps', '--pre', '-q',
        '--dest', folder, *packages, 'xtc-llvm-dev==22.1.8.2'
    ],
                   check=True)
    for wheel in folder.glob('*.whl'):
      with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder, [
            name for name in archive.namelist()
            if '/include/' in name or name.startswith('torchgen/')
        ])
      wheel.unlink()
    (folder / 'done').touch()
  return folder


def _generate(tree: Path, folder: Path, packages: Path) -> None:
  """Makes the headers that upstream's codegen makes of torch's operators."""
  torch_root, made = folder / 'root/torch', folder / 'torch_xla/csrc'
  for link, target in ((torch_root / 'aten/src/ATen',
                        packages / 'torchgen/packaged/ATen'),
                       (torch_root / 'torch', packages / 'torch/include/torch'),
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
                 env=os.environ | {'PYTHONPATH': str(packages)},
                 check=True)
  for file in made.iterdir():
    # It names the folders that it is given.
    text = file.read_text().replace(f'<{torch_root}/', '<')
    file.write_text(text.replace(f'<{made}/', '<torch_xla/csrc/'))


@pytest.mark.parametrize('base', _BASES)
def test_each_touched_file_passes_a_compiler(base, tmp_path):
  generated, packages = tmp_path / 'generated', _unpacked(_BASES[base])
  with work_tree(Path(_CLONE)) as tree:
    worktree = Worktree(ROOT, load_manifest(ROOT), tree)
    laid = worktree.lay([
        series for series in worktree.manifest.with_dependencies(ALL)
        if base in worktree.manifest.bases_of(series)
    ], base)
    assert not [entry for entry in laid.patches if entry.conflict]
    _generate(tree, generated, packages)
    folders = [
        *(packages / 'tensorflow/include' / folder for folder in _FOLDERS),
        packages / 'llvm/include', packages / 'torch/include',
        packages / 'torch/include/torch/csrc/api/include',
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
    touched = git.need(tree, 'diff', '--name-only', laid.start, 'HEAD', '--',
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
