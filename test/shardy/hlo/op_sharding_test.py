"""`OpSharding` protos, judged by those that XLA itself writes and reads."""

import pytest
from torch_xla.shardy.hlo import messages, op_sharding, protos
from torch_xla.shardy.sharding.hlo_sharding import UnsupportedShardingError
from torch_xla.shardy.sharding.text import parse_sharding
from torch_xla.shardy.sharding.tile_assignment import (ShardingError,
                                                       TileAssignmentError)

# Each in XLA's canonical form, so that text and proto say the same.
_TEXTS = [
    '{replicated}',
    '{manual}',
    '{unknown}',
    '{unreduced}',
    '{maximal device=0}',
    '{maximal device=300}',
    '{devices=[8]<=[8]}',
    '{devices=[4,2]<=[2,4]T(1,0)}',
    '{devices=[4,2]0,4,1,5,2,6,3,7}',
    '{devices=[2,2]3,1,2,0}',
    '{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}',
    '{devices=[4,1,2]0,4,1,5,2,6,3,7 last_tile_dim_replicate}',
    '{devices=[2,4]<=[8] last_tile_dims={manual}}',
    '{devices=[2,2,2]<=[8] last_tile_dims={manual, replicated}}',
    '{devices=[64,1024]<=[1024,64]T(1,0)}',
    '{{replicated}, {devices=[8]<=[8]}, {devices=[2,4]0,1,2,3,7,6,5,4}}',
]


@pytest.mark.parametrize('text', _TEXTS)
def test_bytes_are_those_of_xla(xla, text):
  sharding = parse_sharding(text)
  data = xla.parse(text).to_proto().SerializeToString()
  assert op_sharding.to_bytes(sharding) == data
  assert op_sharding.from_bytes(data) == sharding
  assert str(op_sharding.from_bytes(data)) == text


@pytest.mark.parametrize('fields, text', [
    (dict(tile_assignment_dimensions=[1, 1],
          tile_assignment_devices=[0]), '{replicated}'),
    (dict(
        tile_assignment_dimensions=[1, 1, 8],
        tile_assignment_devices=range(8),
        replicate_on_last_tile_dim=True), '{replicated}'),
    (dict(
        tile_assignment_dimensions=[1, 8],
        tile_assignment_devices=range(8),
        last_tile_dims=[4]), '{manual}'),
    (dict(
        tile_assignment_dimensions=[2, 4, 1],
        tile_assignment_devices=[0, 4, 2, 6, 7, 3, 5, 1],
        last_tile_dims=[0]), '{devices=[2,4]0,4,2,6,7,3,5,1}'),
    (dict(
        tile_assignment_dimensions=[2, 4],
        tile_assignment_devices=[0, 4, 2, 6, 7, 3, 5, 1],
        replicate_on_last_tile_dim=True),
     '{devices=[2,4]0,2,4,6,1,3,5,7 last_tile_dim_replicate}'),
    (dict(
        tile_assignment_dimensions=[2, 2, 2],
        tile_assignment_devices=range(8),
        last_tile_dims=[0, 4]),
     '{devices=[2,2,2]0,2,1,3,4,6,5,7 last_tile_dims={manual, replicated}}'),
])
def test_what_is_not_canonical_is_read_as_xla_does(xla, fields, text):
  from jaxlib import xla_client
  message = messages.make(protos.OpSharding, type=3, **fields)
  data = message.SerializeToString()
  theirs = xla_client.OpSharding()
  theirs.ParseFromString(data)
  assert str(xla_client.HloSharding.from_proto(theirs)) == text
  assert str(op_sharding.from_bytes(data)) == text


_EIGHT = dict(type=3, tile_assignment_devices=range(8))


@pytest.mark.parametrize('fields, error, message', [
    (dict(_EIGHT, tile_assignment_dimensions=[2, 2]), TileAssignmentError,
     'hold 4 devices, but 8 are listed'),
    (dict(
        type=3,
        tile_assignment_devices=[0, 1, 1, 2],
        tile_assignment_dimensions=[4]), TileAssignmentError,
     'device 1 is listed 2 times, device 3 is missing'),
    (dict(
        type=3, tile_assignment_devices=[-1, 0], tile_assignment_dimensions=[
            2
        ]), TileAssignmentError, 'device -1 is not one of 0 to 1'),
    (dict(
        type=3,
        tile_assignment_dimensions=[4],
        iota_reshape_dims=[8],
        iota_transpose_perm=[0]), TileAssignmentError,
     'hold 4 devices, but iota reshape dims'),
    (dict(
        type=3,
        tile_assignment_dimensions=[1 << 40],
        iota_reshape_dims=[1 << 40],
        iota_transpose_perm=[0]), op_sharding.OpShardingError,
     'an iota of 1099511627776 devices'),
    (dict(type=3), UnsupportedShardingError, 'without tile dims'),
    (dict(type=17), UnsupportedShardingError, 'sharding type 17'),
    (dict(type=1), op_sharding.OpShardingError, 'names one device, not 0'),
    (dict(_EIGHT, tile_assignment_dimensions=[8],
          last_tile_dims=[3]), ShardingError, 'not the type of a subgroup'),
    (dict(
        _EIGHT,
        tile_assignment_dimensions=[2, 4],
        last_tile_dims=[4],
        replicate_on_last_tile_dim=True), op_sharding.OpShardingError,
     'exclude each other'),
    (dict(type=2, tuple_shardings=[b'\x1a\x05\x01']),
     op_sharding.OpShardingError, 'not a valid OpSharding'),
])
def test_bad_protos_have_specific_errors(fields, error, message):
  data = messages.make(protos.OpSharding, **fields).SerializeToString()
  with pytest.raises(error, match=message):
    op_sharding.from_bytes(data)


def test_bytes_that_are_no_proto():
  data = op_sharding.to_bytes(parse_sharding('{devices=[4]<=[4]}'))
  with pytest.raises(op_sharding.OpShardingError, match='not a valid'):
    op_sharding.from_bytes(data[:-1])
