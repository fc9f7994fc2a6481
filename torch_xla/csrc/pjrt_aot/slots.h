// The entries of PJRT's table, in its order (as of PJRT 0.105), and who
// answers.
//
//   ERRORS   the functions that know our errors and the inner plugin's apart
//   OWN      a function of ours
//   FORWARD  the inner plugin, to which topologies and descriptions belong
//   INNER    the inner plugin, asked about the executable behind ours
//   MISSING  nobody: UNIMPLEMENTED
//   BARE     likewise; the one whose name has one part

#ifndef TORCH_XLA_CSRC_PJRT_AOT_SLOTS_H_
#define TORCH_XLA_CSRC_PJRT_AOT_SLOTS_H_

#define PJRT_AOT_SLOTS(ERRORS, OWN, FORWARD, INNER, MISSING, BARE) \
  ERRORS(Error, Destroy)                                           \
  ERRORS(Error, Message)                                           \
  ERRORS(Error, GetCode)                                           \
  OWN(Plugin, Initialize)                                          \
  FORWARD(Plugin, Attributes)                                      \
  OWN(Event, Destroy)                                              \
  OWN(Event, IsReady)                                              \
  OWN(Event, Error)                                                \
  OWN(Event, Await)                                                \
  OWN(Event, OnReady)                                              \
  OWN(Client, Create)                                              \
  OWN(Client, Destroy)                                             \
  OWN(Client, PlatformName)                                        \
  OWN(Client, ProcessIndex)                                        \
  OWN(Client, PlatformVersion)                                     \
  OWN(Client, Devices)                                             \
  OWN(Client, AddressableDevices)                                  \
  OWN(Client, LookupDevice)                                        \
  OWN(Client, LookupAddressableDevice)                             \
  OWN(Client, AddressableMemories)                                 \
  OWN(Client, Compile)                                             \
  OWN(Client, DefaultDeviceAssignment)                             \
  OWN(Client, BufferFromHostBuffer)                                \
  FORWARD(DeviceDescription, Id)                                   \
  OWN(DeviceDescription, ProcessIndex)                             \
  FORWARD(DeviceDescription, Attributes)                           \
  FORWARD(DeviceDescription, Kind)                                 \
  FORWARD(DeviceDescription, DebugString)                          \
  FORWARD(DeviceDescription, ToString)                             \
  OWN(Device, GetDescription)                                      \
  OWN(Device, IsAddressable)                                       \
  OWN(Device, LocalHardwareId)                                     \
  OWN(Device, AddressableMemories)                                 \
  OWN(Device, DefaultMemory)                                       \
  OWN(Device, MemoryStats)                                         \
  OWN(Memory, Id)                                                  \
  OWN(Memory, Kind)                                                \
  OWN(Memory, DebugString)                                         \
  OWN(Memory, ToString)                                            \
  OWN(Memory, AddressableByDevices)                                \
  OWN(Executable, Destroy)                                         \
  INNER(Executable, Name)                                          \
  INNER(Executable, NumReplicas)                                   \
  INNER(Executable, NumPartitions)                                 \
  INNER(Executable, NumOutputs)                                    \
  INNER(Executable, SizeOfGeneratedCodeInBytes)                    \
  INNER(Executable, GetCostAnalysis)                               \
  INNER(Executable, OutputMemoryKinds)                             \
  OWN(Executable, OptimizedProgram)                                \
  OWN(Executable, Serialize)                                       \
  OWN(LoadedExecutable, Destroy)                                   \
  OWN(LoadedExecutable, GetExecutable)                             \
  OWN(LoadedExecutable, AddressableDevices)                        \
  OWN(LoadedExecutable, Delete)                                    \
  OWN(LoadedExecutable, IsDeleted)                                 \
  OWN(LoadedExecutable, Execute)                                   \
  OWN(Executable, DeserializeAndLoad)                              \
  OWN(LoadedExecutable, Fingerprint)                               \
  OWN(Buffer, Destroy)                                             \
  OWN(Buffer, ElementType)                                         \
  OWN(Buffer, Dimensions)                                          \
  OWN(Buffer, UnpaddedDimensions)                                  \
  OWN(Buffer, DynamicDimensionIndices)                             \
  OWN(Buffer, GetMemoryLayout)                                     \
  OWN(Buffer, OnDeviceSizeInBytes)                                 \
  OWN(Buffer, Device)                                              \
  OWN(Buffer, Memory)                                              \
  OWN(Buffer, Delete)                                              \
  OWN(Buffer, IsDeleted)                                           \
  OWN(Buffer, CopyToDevice)                                        \
  OWN(Buffer, ToHostBuffer)                                        \
  OWN(Buffer, IsOnCpu)                                             \
  OWN(Buffer, ReadyEvent)                                          \
  OWN(Buffer, UnsafePointer)                                       \
  OWN(Buffer, IncreaseExternalReferenceCount)                      \
  OWN(Buffer, DecreaseExternalReferenceCount)                      \
  MISSING(Buffer, OpaqueDeviceMemoryDataPointer)                   \
  MISSING(CopyToDeviceStream, Destroy)                             \
  MISSING(CopyToDeviceStream, AddChunk)                            \
  MISSING(CopyToDeviceStream, TotalBytes)                          \
  MISSING(CopyToDeviceStream, GranuleSize)                         \
  MISSING(CopyToDeviceStream, CurrentBytes)                        \
  FORWARD(TopologyDescription, Create)                             \
  OWN(TopologyDescription, Destroy)                                \
  FORWARD(TopologyDescription, PlatformName)                       \
  FORWARD(TopologyDescription, PlatformVersion)                    \
  FORWARD(TopologyDescription, GetDeviceDescriptions)              \
  FORWARD(TopologyDescription, Serialize)                          \
  FORWARD(TopologyDescription, Attributes)                         \
  BARE(Compile)                                                    \
  INNER(Executable, OutputElementTypes)                            \
  INNER(Executable, OutputDimensions)                              \
  OWN(Buffer, CopyToMemory)                                        \
  MISSING(Client, CreateViewOfDeviceBuffer)                        \
  INNER(Executable, Fingerprint)                                   \
  OWN(Client, TopologyDescription)                                 \
  INNER(Executable, GetCompiledMemoryStats)                        \
  OWN(Memory, Kind_Id)                                             \
  MISSING(ExecuteContext, Create)                                  \
  MISSING(ExecuteContext, Destroy)                                 \
  OWN(Buffer, CopyRawToHost)                                       \
  MISSING(AsyncHostToDeviceTransferManager, Destroy)               \
  MISSING(AsyncHostToDeviceTransferManager, TransferData)          \
  MISSING(Client, CreateBuffersForAsyncHostToDevice)               \
  MISSING(AsyncHostToDeviceTransferManager, RetrieveBuffer)        \
  MISSING(AsyncHostToDeviceTransferManager, Device)                \
  MISSING(AsyncHostToDeviceTransferManager, BufferCount)           \
  MISSING(AsyncHostToDeviceTransferManager, BufferSize)            \
  MISSING(AsyncHostToDeviceTransferManager, SetBufferError)        \
  MISSING(AsyncHostToDeviceTransferManager, AddMetadata)           \
  MISSING(Client, DmaMap)                                          \
  MISSING(Client, DmaUnmap)                                        \
  OWN(Client, CreateUninitializedBuffer)                           \
  MISSING(Client, UpdateGlobalProcessInfo)                         \
  FORWARD(TopologyDescription, Deserialize)                        \
  MISSING(Client, CreateAliasBuffer)                               \
  MISSING(Client, FulfillAliasBuffer)                              \
  OWN(LoadedExecutable, GetDeviceAssignment)                       \
  MISSING(Client, CreateErrorBuffer)                               \
  MISSING(AsyncHostToDeviceTransferManager, TransferLiteral)       \
  MISSING(Buffer, CopyRawToHostFuture)                             \
  MISSING(Device, PoisonExecution)                                 \
  MISSING(Device, CreateAsyncTrackingEvent)                        \
  MISSING(AsyncTrackingEvent, Destroy)                             \
  MISSING(Executable, GetCompileOptions)                           \
  MISSING(Buffer, DonateWithControlDependency)                     \
  MISSING(Event, Create)                                           \
  MISSING(Event, Set)                                              \
  MISSING(Device, GetAttributes)                                   \
  MISSING(Client, Load)                                            \
  MISSING(LoadedExecutable, AddressableDeviceLogicalIds)           \
  MISSING(Buffer, Bitcast)                                         \
  ERRORS(Error, ForEachPayload)                                    \
  MISSING(TopologyDescription, Fingerprint)                        \
  MISSING(Executable, ParameterMemoryKinds)                        \
  MISSING(Buffer, CopyRawFromHost)

// Positions in the table: kAotSlotClientCreate and so on.
#define AOT_SLOT_ENUM(part, name) kAotSlot##part##name,
#define AOT_SLOT_ENUM_BARE(name) kAotSlot##name,
enum {
  PJRT_AOT_SLOTS(AOT_SLOT_ENUM, AOT_SLOT_ENUM, AOT_SLOT_ENUM, AOT_SLOT_ENUM,
                 AOT_SLOT_ENUM, AOT_SLOT_ENUM_BARE)  //
  kAotSlots,
};
#undef AOT_SLOT_ENUM
#undef AOT_SLOT_ENUM_BARE

#endif  // TORCH_XLA_CSRC_PJRT_AOT_SLOTS_H_
