"""The few fields of XLA's protobuf messages that the fork reads or writes.

A message declared here keeps every field that it does not name: protobuf holds
on to unknown fields and writes them back. Field numbers are those of
xla/pjrt/proto/compile_options.proto, xla/service/hlo.proto and
xla/xla_data.proto. Enums are declared as int32, which they are on the wire.

Shardings and shapes are declared as the bytes that they are on the wire: a
module has many, few of them different, and what is not understood is kept to
the byte. `op_sharding` reads them.

These are types and no more: `messages` makes the classes of what they declare.
"""

from __future__ import annotations

import abc
from collections.abc import MutableSequence
from typing import Annotated, Any, Protocol, TypeVar

T = TypeVar('T')

# What else than an int64, a str, a bool, bytes or a message a field may be.
Int32 = Annotated[int, 'TYPE_INT32']
Float = Annotated[float, 'TYPE_FLOAT']
Double = Annotated[float, 'TYPE_DOUBLE']
# With presence: an OpSharding of no bytes is {replicated}, and not none.
OptionalBytes = Annotated[bytes, 'TYPE_BYTES', 'optional']


class Message(Protocol):
  """The methods of every message."""

  @classmethod
  def FromString(cls: type[T], data: bytes) -> T:
    ...

  def SerializeToString(self, deterministic: bool = False) -> bytes:
    ...

  def MergeFromString(self, data: bytes) -> int:
    ...

  def CopyFrom(self: T, other: T) -> None:
    ...

  def HasField(self, name: str) -> bool:
    ...

  def ClearField(self, name: str) -> None:
    ...


class Repeated(MutableSequence[T]):
  """A repeated field of a message."""

  @abc.abstractmethod
  def add(self, **fields: Any) -> T:
    """Adds a message with these fields, and returns it."""


class ExecutableBuildOptionsProto(Message, Protocol):
  num_replicas: Annotated[int, 4]
  num_partitions: Annotated[int, 5]
  use_spmd_partitioning: Annotated[bool, 6]
  device_assignment: Annotated[DeviceAssignmentProto, 9]
  use_shardy_partitioner: Annotated[bool, 19]


class DeviceAssignmentProto(Message, Protocol):
  replica_count: Annotated[int, 1]
  computation_count: Annotated[int, 2]
  computation_devices: Annotated[Repeated[ComputationDevice], 3]


class ComputationDevice(Message, Protocol):
  replica_device_ids: Annotated[Repeated[int], 1]


class CompileOptionsProto(Message, Protocol):
  parameter_is_tupled_arguments: Annotated[bool, 2]
  executable_build_options: Annotated[ExecutableBuildOptionsProto, 3]


class HloModuleProto(Message, Protocol):
  name: Annotated[str, 1]
  computations: Annotated[Repeated[HloComputationProto], 3]
  host_program_shape: Annotated[ProgramShapeProto, 4]
  id: Annotated[int, 5]
  entry_computation_id: Annotated[int, 6]
  schedule: Annotated[HloScheduleProto, 7]
  input_output_alias: Annotated[HloInputOutputAliasProto, 8]
  spmd_output_sharding: Annotated[OptionalBytes, 12]
  spmd_parameters_shardings: Annotated[Repeated[bytes], 14]
  device_assignment: Annotated[DeviceAssignmentProto, 15]
  stack_frame_index: Annotated[bytes, 17]
  buffer_donor: Annotated[HloBufferDonorProto, 18]
  frontend_attributes: Annotated[FrontendAttributes, 19]


class HloScheduleProto(Message, Protocol):
  # A map, as it is on the wire: the instructions of each computation, in the
  # order in which they run.
  sequences: Annotated[Repeated[ScheduleEntry], 1]


class ScheduleEntry(Message, Protocol):
  key: Annotated[int, 1]
  value: Annotated[InstructionSequence, 2]


class InstructionSequence(Message, Protocol):
  instruction_ids: Annotated[Repeated[int], 1]


class HloBufferDonorProto(Message, Protocol):
  entries: Annotated[Repeated[BufferDonorEntryProto], 1]


class BufferDonorEntryProto(Message, Protocol):
  parameter_number: Annotated[int, 1]
  parameter_shape_index: Annotated[Repeated[int], 2]


class HloInputOutputAliasProto(Message, Protocol):
  entries: Annotated[Repeated[AliasEntryProto], 1]


class AliasEntryProto(Message, Protocol):
  output_shape_index: Annotated[Repeated[int], 1]
  parameter_number: Annotated[int, 2]
  parameter_shape_index: Annotated[Repeated[int], 3]
  kind: Annotated[Int32, 4]


class ProgramShapeProto(Message, Protocol):
  parameters: Annotated[Repeated[bytes], 1]
  result: Annotated[OptionalBytes, 2]
  parameter_names: Annotated[Repeated[str], 3]


class FrontendAttributes(Message, Protocol):
  # A map, as it is on the wire.
  map: Annotated[Repeated[FrontendAttribute], 1]


class FrontendAttribute(Message, Protocol):
  key: Annotated[str, 1]
  value: Annotated[str, 2]


class HloModuleProtoWithConfig(Message, Protocol):
  hlo_module: Annotated[HloModuleProto, 1]


class HloComputationProto(Message, Protocol):
  name: Annotated[str, 1]
  instructions: Annotated[Repeated[HloInstructionProto], 2]
  program_shape: Annotated[ProgramShapeProto, 4]
  id: Annotated[int, 5]
  root_id: Annotated[int, 6]
  is_fusion_computation: Annotated[bool, 7]


class HloInstructionProto(Message, Protocol):
  name: Annotated[str, 1]
  opcode: Annotated[str, 2]
  shape: Annotated[bytes, 3]
  metadata: Annotated[OpMetadata, 7]
  literal: Annotated[LiteralProto, 8]
  parameter_number: Annotated[int, 9]
  tuple_index: Annotated[int, 13]
  dimensions: Annotated[Repeated[int], 14]
  window: Annotated[Window, 15]
  convolution_dimension_numbers: Annotated[ConvolutionDimensionNumbers, 16]
  slice_dimensions: Annotated[Repeated[SliceDimensions], 17]
  padding_config: Annotated[PaddingConfig, 21]
  epsilon: Annotated[Float, 24]
  feature_index: Annotated[int, 25]
  channel_id: Annotated[int, 26]
  custom_call_target: Annotated[str, 28]
  dot_dimension_numbers: Annotated[DotDimensionNumbers, 30]
  gather_dimension_numbers: Annotated[GatherDimensionNumbers, 33]
  id: Annotated[int, 35]
  operand_ids: Annotated[Repeated[int], 36]
  control_predecessor_ids: Annotated[Repeated[int], 37]
  called_computation_ids: Annotated[Repeated[int], 38]
  sharding: Annotated[OptionalBytes, 40]
  backend_config: Annotated[bytes, 43]
  scatter_dimension_numbers: Annotated[ScatterDimensionNumbers, 48]
  replica_groups: Annotated[Repeated[ReplicaGroup], 49]
  precision_config: Annotated[PrecisionConfig, 51]
  feature_group_count: Annotated[int, 50]
  source_target_pairs: Annotated[Repeated[SourceTarget], 52]
  domain_entry_sharding: Annotated[OptionalBytes, 54]
  domain_exit_sharding: Annotated[OptionalBytes, 55]
  batch_group_count: Annotated[int, 58]
  comparison_direction: Annotated[str, 63]
  custom_call_has_side_effect: Annotated[bool, 65]
  indices_are_sorted: Annotated[bool, 67]
  frontend_attributes: Annotated[FrontendAttributes, 68]
  use_global_device_ids: Annotated[bool, 71]
  custom_call_api_version: Annotated[Int32, 77]
  collective_device_list: Annotated[CollectiveDeviceListProto, 87]
  original_value: Annotated[bytes, 88]
  iota_collective_device_list: Annotated[IotaReplicaGroupListProto, 92]
  mesh_axes_replica_group_list: Annotated[MeshAxesReplicaGroupListProto, 93]


class PrecisionConfig(Message, Protocol):
  operand_precision: Annotated[Repeated[Int32], 1]


class ReplicaGroup(Message, Protocol):
  replica_ids: Annotated[Repeated[int], 1]


class SourceTarget(Message, Protocol):
  source: Annotated[int, 1]
  target: Annotated[int, 2]


class CollectiveDeviceListProto(Message, Protocol):
  replica_groups: Annotated[Repeated[ReplicaGroup], 1]
  iota_replica_group_list: Annotated[IotaReplicaGroupListProto, 2]


class IotaReplicaGroupListProto(Message, Protocol):
  num_replica_groups: Annotated[int, 1]
  num_devices_per_group: Annotated[int, 2]
  iota_reshape_dims: Annotated[Repeated[int], 3]
  iota_transpose_perm: Annotated[Repeated[Int32], 4]


class MeshAxesReplicaGroupListProto(Message, Protocol):
  mesh: Annotated[MeshProto, 1]
  axes: Annotated[Repeated[AxisRefProto], 2]


class MeshProto(Message, Protocol):
  axes: Annotated[Repeated[MeshAxis], 1]
  device_ids: Annotated[Repeated[int], 2]
  iota: Annotated[MeshIota, 3]


class MeshIota(Message, Protocol):
  reshape_dims: Annotated[Repeated[int], 1]
  transpose_perm: Annotated[Repeated[Int32], 2]


class MeshAxis(Message, Protocol):
  name: Annotated[str, 1]
  size: Annotated[int, 2]


class AxisRefProto(Message, Protocol):
  mesh_axis_index: Annotated[int, 1]
  sub_axis_info: Annotated[SubAxis, 2]


class SubAxis(Message, Protocol):
  pre_size: Annotated[int, 1]
  size: Annotated[int, 2]


class Window(Message, Protocol):
  dimensions: Annotated[Repeated[WindowDimension], 1]


class WindowDimension(Message, Protocol):
  size: Annotated[int, 1]
  stride: Annotated[int, 2]
  padding_low: Annotated[int, 3]
  padding_high: Annotated[int, 4]
  window_dilation: Annotated[int, 5]
  base_dilation: Annotated[int, 6]
  window_reversal: Annotated[bool, 7]


class ConvolutionDimensionNumbers(Message, Protocol):
  kernel_input_feature_dimension: Annotated[int, 3]
  kernel_output_feature_dimension: Annotated[int, 4]
  kernel_spatial_dimensions: Annotated[Repeated[int], 6]
  input_batch_dimension: Annotated[int, 7]
  input_feature_dimension: Annotated[int, 8]
  output_batch_dimension: Annotated[int, 9]
  output_feature_dimension: Annotated[int, 10]
  input_spatial_dimensions: Annotated[Repeated[int], 11]
  output_spatial_dimensions: Annotated[Repeated[int], 12]


class DotDimensionNumbers(Message, Protocol):
  lhs_contracting_dimensions: Annotated[Repeated[int], 1]
  rhs_contracting_dimensions: Annotated[Repeated[int], 2]
  lhs_batch_dimensions: Annotated[Repeated[int], 3]
  rhs_batch_dimensions: Annotated[Repeated[int], 4]


class GatherDimensionNumbers(Message, Protocol):
  offset_dims: Annotated[Repeated[int], 1]
  collapsed_slice_dims: Annotated[Repeated[int], 2]
  start_index_map: Annotated[Repeated[int], 3]
  index_vector_dim: Annotated[int, 4]
  operand_batching_dims: Annotated[Repeated[int], 5]
  start_indices_batching_dims: Annotated[Repeated[int], 6]


class ScatterDimensionNumbers(Message, Protocol):
  update_window_dims: Annotated[Repeated[int], 1]
  inserted_window_dims: Annotated[Repeated[int], 2]
  scatter_dims_to_operand_dims: Annotated[Repeated[int], 3]
  index_vector_dim: Annotated[int, 4]
  input_batching_dims: Annotated[Repeated[int], 5]
  scatter_indices_batching_dims: Annotated[Repeated[int], 6]


class SliceDimensions(Message, Protocol):
  start: Annotated[int, 1]
  limit: Annotated[int, 2]
  stride: Annotated[int, 3]


class PaddingConfig(Message, Protocol):
  dimensions: Annotated[Repeated[PaddingConfigDimension], 1]


class PaddingConfigDimension(Message, Protocol):
  edge_padding_low: Annotated[int, 1]
  edge_padding_high: Annotated[int, 2]
  interior_padding: Annotated[int, 3]


class OpMetadata(Message, Protocol):
  op_name: Annotated[str, 2]


class LiteralProto(Message, Protocol):
  shape: Annotated[bytes, 1]
  preds: Annotated[Repeated[bool], 2]
  s32s: Annotated[Repeated[Int32], 4]
  s64s: Annotated[Repeated[int], 5]
  u32s: Annotated[Repeated[int], 6]
  u64s: Annotated[Repeated[int], 7]
  f32s: Annotated[Repeated[Float], 8]
  f64s: Annotated[Repeated[Double], 9]


class ShapeProto(Message, Protocol):
  element_type: Annotated[Int32, 2]
  dimensions: Annotated[Repeated[int], 3]
  tuple_shapes: Annotated[Repeated[ShapeProto], 4]
  layout: Annotated[LayoutProto, 5]
  is_dynamic_dimension: Annotated[Repeated[bool], 6]


class LayoutProto(Message, Protocol):
  minor_to_major: Annotated[Repeated[int], 1]
  tiles: Annotated[Repeated[TileProto], 6]
  element_size_in_bits: Annotated[int, 7]
  memory_space: Annotated[int, 8]
  dynamic_shape_metadata_prefix_bytes: Annotated[int, 15]
  tail_padding_alignment_in_elements: Annotated[int, 16]


class TileProto(Message, Protocol):
  dimensions: Annotated[Repeated[int], 1]


class OpSharding(Message, Protocol):
  type: Annotated[Int32, 1]
  tile_assignment_dimensions: Annotated[Repeated[int], 3]
  tile_assignment_devices: Annotated[Repeated[int], 4]
  tuple_shardings: Annotated[Repeated[bytes], 5]
  replicate_on_last_tile_dim: Annotated[bool, 6]
  last_tile_dims: Annotated[Repeated[Int32], 8]
  iota_reshape_dims: Annotated[Repeated[int], 9]
  iota_transpose_perm: Annotated[Repeated[Int32], 10]
  is_shard_group: Annotated[bool, 11]
  shard_group_id: Annotated[int, 12]
