"""Reading and choosing the partitioner in serialised compile options."""

import pytest
from torch_xla.shardy.hlo import compile_options, messages, protos
from torch_xla.shardy.hlo.compile_options import CompileOptions, Partitioner


def options(partitions: int, *, spmd: bool, shardy: bool = False) -> bytes:
  """Options as torch_xla fills them, and one field that we do not know."""
  message = messages.make(protos.CompileOptionsProto)
  build = message.executable_build_options
  build.num_replicas, build.num_partitions = 1, partitions
  build.use_spmd_partitioning = spmd
  build.use_shardy_partitioner = shardy
  # profile_version: field 4, a varint.
  return message.SerializeToString() + b'\x20\x07'


@pytest.mark.parametrize('data, expected', [
    (options(8, spmd=True), CompileOptions(Partitioner.GSPMD, 1, 8)),
    (options(8, spmd=True, shardy=True), CompileOptions(Partitioner.SHARDY, 1,
                                                        8)),
    (options(1, spmd=False), CompileOptions(Partitioner.NONE, 1, 1)),
])
def test_read(data, expected):
  assert compile_options.read(data) == expected


def test_choosing_shardy_and_back_keeps_unknown_fields():
  before = options(8, spmd=True)
  shardy = compile_options.with_partitioner(before, Partitioner.SHARDY)
  assert compile_options.read(shardy).partitioner is Partitioner.SHARDY
  assert shardy.endswith(b'\x20\x07')
  back = compile_options.with_partitioner(shardy, Partitioner.GSPMD)
  assert back == before


@pytest.mark.parametrize('data', [
    options(8, spmd=True),
    options(1, spmd=False),
    b'',
])
def test_nothing_to_choose_keeps_the_bytes(data):
  assert compile_options.with_partitioner(data, Partitioner.GSPMD) is data


def test_damaged_options():
  with pytest.raises(ValueError, match='not a valid CompileOptionsProto'):
    compile_options.read(options(8, spmd=True)[:-1] + b'\xff')


def test_partitioning_cannot_be_turned_off():
  with pytest.raises(ValueError, match='choose GSPMD or SHARDY'):
    compile_options.with_partitioner(b'', Partitioner.NONE)
