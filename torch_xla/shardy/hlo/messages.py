"""The few fields of XLA's protobuf messages that the fork reads or writes.

A message declared here keeps every field that it does not name: protobuf holds
on to unknown fields and writes them back. Field numbers are those of
xla/pjrt/proto/compile_options.proto, xla/service/hlo.proto and
xla/xla_data.proto. Enums are declared as int32, which they are on the wire.

Shardings and shapes are declared as the bytes that they are on the wire: a
module has many, few of them different, and what is not understood is kept to
the byte. `op_sharding` reads them.
"""

import functools
from typing import Any, Optional

_BOOL, _BYTES, _STRING = 'TYPE_BOOL', 'TYPE_BYTES', 'TYPE_STRING'
_FLOAT, _DOUBLE = 'TYPE_FLOAT', 'TYPE_DOUBLE'
_INT32, _INT64 = 'TYPE_INT32', 'TYPE_INT64'
_REPEATED = 'repeated'
# With presence: an OpSharding of no bytes is {replicated}, and not none.
_OPTIONAL = 'optional'

# Message -> ((field, number, scalar type or message[, label]), ...).
_MESSAGES = {
    'ExecutableBuildOptionsProto': (
        ('num_replicas', 4, _INT64),
        ('num_partitions', 5, _INT64),
        ('use_spmd_partitioning', 6, _BOOL),
        ('device_assignment', 9, 'DeviceAssignmentProto'),
        ('use_shardy_partitioner', 19, _BOOL),
    ),
    'DeviceAssignmentProto': (
        ('replica_count', 1, _INT64),
        ('computation_count', 2, _INT64),
        ('computation_devices', 3, 'ComputationDevice', _REPEATED),
    ),
    'ComputationDevice': (('replica_device_ids', 1, _INT64, _REPEATED),),
    'CompileOptionsProto': (
        ('parameter_is_tupled_arguments', 2, _BOOL),
        ('executable_build_options', 3, 'ExecutableBuildOptionsProto'),
    ),
    'HloModuleProto': (
        ('name', 1, _STRING),
        ('computations', 3, 'HloComputationProto', _REPEATED),
        ('host_program_shape', 4, 'ProgramShapeProto'),
        ('id', 5, _INT64),
        ('entry_computation_id', 6, _INT64),
        ('schedule', 7, 'HloScheduleProto'),
        ('input_output_alias', 8, 'HloInputOutputAliasProto'),
        ('spmd_output_sharding', 12, _BYTES, _OPTIONAL),
        ('spmd_parameters_shardings', 14, _BYTES, _REPEATED),
        ('device_assignment', 15, 'DeviceAssignmentProto'),
        ('stack_frame_index', 17, _BYTES),
        ('buffer_donor', 18, 'HloBufferDonorProto'),
        ('frontend_attributes', 19, 'FrontendAttributes'),
    ),
    # A map, as it is on the wire: the instructions of each computation, in the
    # order in which they run.
    'HloScheduleProto': (('sequences', 1, 'ScheduleEntry', _REPEATED),),
    'ScheduleEntry': (('key', 1, _INT64), ('value', 2, 'InstructionSequence')),
    'InstructionSequence': (('instruction_ids', 1, _INT64, _REPEATED),),
    'HloBufferDonorProto': (('entries', 1, 'BufferDonorEntryProto', _REPEATED),
                           ),
    'BufferDonorEntryProto': (
        ('parameter_number', 1, _INT64),
        ('parameter_shape_index', 2, _INT64, _REPEATED),
    ),
    'HloInputOutputAliasProto': (('entries', 1, 'AliasEntryProto', _REPEATED),),
    'AliasEntryProto': (
        ('output_shape_index', 1, _INT64, _REPEATED),
        ('parameter_number', 2, _INT64),
        ('parameter_shape_index', 3, _INT64, _REPEATED),
        ('kind', 4, _INT32),
    ),
    'ProgramShapeProto': (
        ('parameters', 1, _BYTES, _REPEATED),
        ('result', 2, _BYTES, _OPTIONAL),
        ('parameter_names', 3, _STRING, _REPEATED),
    ),
    # A map, as it is on the wire.
    'FrontendAttributes': (('map', 1, 'FrontendAttribute', _REPEATED),),
    'FrontendAttribute': (('key', 1, _STRING), ('value', 2, _STRING)),
    'HloModuleProtoWithConfig': (('hlo_module', 1, 'HloModuleProto'),),
    'HloComputationProto': (
        ('name', 1, _STRING),
        ('instructions', 2, 'HloInstructionProto', _REPEATED),
        ('program_shape', 4, 'ProgramShapeProto'),
        ('id', 5, _INT64),
        ('root_id', 6, _INT64),
        ('is_fusion_computation', 7, _BOOL),
    ),
    'HloInstructionProto': (
        ('name', 1, _STRING),
        ('opcode', 2, _STRING),
        ('shape', 3, _BYTES),
        ('metadata', 7, 'OpMetadata'),
        ('literal', 8, 'LiteralProto'),
        ('parameter_number', 9, _INT64),
        ('tuple_index', 13, _INT64),
        ('dimensions', 14, _INT64, _REPEATED),
        ('window', 15, 'Window'),
        ('convolution_dimension_numbers', 16, 'ConvolutionDimensionNumbers'),
        ('slice_dimensions', 17, 'SliceDimensions', _REPEATED),
        ('padding_config', 21, 'PaddingConfig'),
        ('epsilon', 24, _FLOAT),
        ('feature_index', 25, _INT64),
        ('channel_id', 26, _INT64),
        ('custom_call_target', 28, _STRING),
        ('dot_dimension_numbers', 30, 'DotDimensionNumbers'),
        ('gather_dimension_numbers', 33, 'GatherDimensionNumbers'),
        ('id', 35, _INT64),
        ('operand_ids', 36, _INT64, _REPEATED),
        ('control_predecessor_ids', 37, _INT64, _REPEATED),
        ('called_computation_ids', 38, _INT64, _REPEATED),
        ('sharding', 40, _BYTES, _OPTIONAL),
        ('backend_config', 43, _BYTES),
        ('scatter_dimension_numbers', 48, 'ScatterDimensionNumbers'),
        ('replica_groups', 49, 'ReplicaGroup', _REPEATED),
        ('precision_config', 51, 'PrecisionConfig'),
        ('source_target_pairs', 52, 'SourceTarget', _REPEATED),
        ('domain_entry_sharding', 54, _BYTES, _OPTIONAL),
        ('domain_exit_sharding', 55, _BYTES, _OPTIONAL),
        ('batch_group_count', 58, _INT64),
        ('comparison_direction', 63, _STRING),
        ('custom_call_has_side_effect', 65, _BOOL),
        ('frontend_attributes', 68, 'FrontendAttributes'),
        ('use_global_device_ids', 71, _BOOL),
        ('custom_call_api_version', 77, _INT32),
        ('collective_device_list', 87, 'CollectiveDeviceListProto'),
        ('original_value', 88, _BYTES),
        ('iota_collective_device_list', 92, 'IotaReplicaGroupListProto'),
        ('mesh_axes_replica_group_list', 93, 'MeshAxesReplicaGroupListProto'),
    ),
    'PrecisionConfig': (('operand_precision', 1, _INT32, _REPEATED),),
    'ReplicaGroup': (('replica_ids', 1, _INT64, _REPEATED),),
    'SourceTarget': (('source', 1, _INT64), ('target', 2, _INT64)),
    'CollectiveDeviceListProto': (
        ('replica_groups', 1, 'ReplicaGroup', _REPEATED),
        ('iota_replica_group_list', 2, 'IotaReplicaGroupListProto'),
    ),
    'IotaReplicaGroupListProto': (
        ('num_replica_groups', 1, _INT64),
        ('num_devices_per_group', 2, _INT64),
        ('iota_reshape_dims', 3, _INT64, _REPEATED),
        ('iota_transpose_perm', 4, _INT32, _REPEATED),
    ),
    'MeshAxesReplicaGroupListProto': (
        ('mesh', 1, 'MeshProto'),
        ('axes', 2, 'AxisRefProto', _REPEATED),
    ),
    'MeshProto': (
        ('axes', 1, 'MeshAxis', _REPEATED),
        ('device_ids', 2, _INT64, _REPEATED),
        ('iota', 3, 'MeshIota'),
    ),
    'MeshIota': (
        ('reshape_dims', 1, _INT64, _REPEATED),
        ('transpose_perm', 2, _INT32, _REPEATED),
    ),
    'MeshAxis': (('name', 1, _STRING), ('size', 2, _INT64)),
    'AxisRefProto': (
        ('mesh_axis_index', 1, _INT64),
        ('sub_axis_info', 2, 'SubAxis'),
    ),
    'SubAxis': (('pre_size', 1, _INT64), ('size', 2, _INT64)),
    'Window': (('dimensions', 1, 'WindowDimension', _REPEATED),),
    'WindowDimension': (
        ('size', 1, _INT64),
        ('stride', 2, _INT64),
        ('padding_low', 3, _INT64),
        ('padding_high', 4, _INT64),
        ('window_dilation', 5, _INT64),
        ('base_dilation', 6, _INT64),
        ('window_reversal', 7, _BOOL),
    ),
    'ConvolutionDimensionNumbers': (
        ('kernel_input_feature_dimension', 3, _INT64),
        ('kernel_output_feature_dimension', 4, _INT64),
        ('kernel_spatial_dimensions', 6, _INT64, _REPEATED),
        ('input_batch_dimension', 7, _INT64),
        ('input_feature_dimension', 8, _INT64),
        ('output_batch_dimension', 9, _INT64),
        ('output_feature_dimension', 10, _INT64),
        ('input_spatial_dimensions', 11, _INT64, _REPEATED),
        ('output_spatial_dimensions', 12, _INT64, _REPEATED),
    ),
    'DotDimensionNumbers': (
        ('lhs_contracting_dimensions', 1, _INT64, _REPEATED),
        ('rhs_contracting_dimensions', 2, _INT64, _REPEATED),
        ('lhs_batch_dimensions', 3, _INT64, _REPEATED),
        ('rhs_batch_dimensions', 4, _INT64, _REPEATED),
    ),
    'GatherDimensionNumbers': (
        ('offset_dims', 1, _INT64, _REPEATED),
        ('collapsed_slice_dims', 2, _INT64, _REPEATED),
        ('start_index_map', 3, _INT64, _REPEATED),
        ('index_vector_dim', 4, _INT64),
        ('operand_batching_dims', 5, _INT64, _REPEATED),
        ('start_indices_batching_dims', 6, _INT64, _REPEATED),
    ),
    'ScatterDimensionNumbers': (
        ('update_window_dims', 1, _INT64, _REPEATED),
        ('inserted_window_dims', 2, _INT64, _REPEATED),
        ('scatter_dims_to_operand_dims', 3, _INT64, _REPEATED),
        ('index_vector_dim', 4, _INT64),
        ('input_batching_dims', 5, _INT64, _REPEATED),
        ('scatter_indices_batching_dims', 6, _INT64, _REPEATED),
    ),
    'SliceDimensions': (
        ('start', 1, _INT64),
        ('limit', 2, _INT64),
        ('stride', 3, _INT64),
    ),
    'PaddingConfig': (('dimensions', 1, 'PaddingConfigDimension', _REPEATED),),
    'PaddingConfigDimension': (
        ('edge_padding_low', 1, _INT64),
        ('edge_padding_high', 2, _INT64),
        ('interior_padding', 3, _INT64),
    ),
    'OpMetadata': (('op_name', 2, _STRING),),
    'LiteralProto': (
        ('shape', 1, _BYTES),
        ('preds', 2, _BOOL, _REPEATED),
        ('s32s', 4, _INT32, _REPEATED),
        ('s64s', 5, _INT64, _REPEATED),
        ('u32s', 6, _INT64, _REPEATED),
        ('u64s', 7, _INT64, _REPEATED),
        ('f32s', 8, _FLOAT, _REPEATED),
        ('f64s', 9, _DOUBLE, _REPEATED),
    ),
    'ShapeProto': (
        ('element_type', 2, _INT32),
        ('dimensions', 3, _INT64, _REPEATED),
        ('tuple_shapes', 4, 'ShapeProto', _REPEATED),
        ('layout', 5, 'LayoutProto'),
        ('is_dynamic_dimension', 6, _BOOL, _REPEATED),
    ),
    'LayoutProto': (
        ('minor_to_major', 1, _INT64, _REPEATED),
        ('tiles', 6, 'TileProto', _REPEATED),
        ('element_size_in_bits', 7, _INT64),
        ('memory_space', 8, _INT64),
        ('dynamic_shape_metadata_prefix_bytes', 15, _INT64),
        ('tail_padding_alignment_in_elements', 16, _INT64),
    ),
    'TileProto': (('dimensions', 1, _INT64, _REPEATED),),
    'OpSharding': (
        ('type', 1, _INT32),
        ('tile_assignment_dimensions', 3, _INT64, _REPEATED),
        ('tile_assignment_devices', 4, _INT64, _REPEATED),
        ('tuple_shardings', 5, _BYTES, _REPEATED),
        ('replicate_on_last_tile_dim', 6, _BOOL),
        ('last_tile_dims', 8, _INT32, _REPEATED),
        ('iota_reshape_dims', 9, _INT64, _REPEATED),
        ('iota_transpose_perm', 10, _INT32, _REPEATED),
    ),
}
# A package of our own: XLA's descriptors may be in the same process.
_PACKAGE = 'torch_xla.shardy'


@functools.lru_cache(maxsize=None)
def _pool() -> Any:
  # Imported here because a process with the mode off never needs it.
  from google.protobuf import descriptor_pb2, descriptor_pool
  field_type = descriptor_pb2.FieldDescriptorProto
  file = descriptor_pb2.FileDescriptorProto(
      name='torch_xla/shardy/xla.proto', package=_PACKAGE, syntax='proto3')
  for message_name, fields in _MESSAGES.items():
    message = file.message_type.add(name=message_name)
    for name, number, kind, *label in fields:
      field = message.field.add(
          name=name,
          number=number,
          label=(field_type.LABEL_REPEATED
                 if label == [_REPEATED] else field_type.LABEL_OPTIONAL))
      if label == [_OPTIONAL]:  # How proto3 writes it down.
        field.proto3_optional = True
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f'_{name}')
      if kind in _MESSAGES:
        field.type = field_type.TYPE_MESSAGE
        field.type_name = f'.{_PACKAGE}.{kind}'
      else:
        field.type = getattr(field_type, kind)
  pool = descriptor_pool.DescriptorPool()
  pool.Add(file)
  return pool


@functools.lru_cache(maxsize=None)
def message_class(name: str) -> type:
  """The class of one of the messages declared above."""
  from google.protobuf import message_factory
  return message_factory.GetMessageClass(
      _pool().FindMessageTypeByName(f'{_PACKAGE}.{name}'))


def parse(name: str, data: bytes) -> Any:
  """Parses `data` as message `name`.

  Raises:
    ValueError: `data` is damaged.
  """
  from google.protobuf.message import DecodeError
  try:
    return message_class(name).FromString(data)
  except DecodeError as e:
    raise ValueError(f'not a valid {name} ({len(data)} bytes): {e}') from e


# Of the answers that `parse_compiled` reads.
HLO_FORMATS = ('hlo', 'hlo_with_config')


def parse_compiled(program: bytes,
                   program_format: str) -> Optional[tuple[Any, Any]]:
  """A program as PJRT_Executable_OptimizedProgram gives it.

  Returns:
    The message and the HloModuleProto message that it is or holds; None for
    formats other than 'hlo' and 'hlo_with_config'.

  Raises:
    ValueError: `program` is damaged.
  """
  if program_format == 'hlo':
    module = parse('HloModuleProto', program)
    return module, module
  if program_format == 'hlo_with_config':
    message = parse('HloModuleProtoWithConfig', program)
    return message, message.hlo_module
  return None
