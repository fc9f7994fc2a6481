// PjrtAot_Open, and what it found.

#include <pthread.h>

#include "torch_xla/csrc/pjrt_aot/internal.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
// The plugin that was initialized, which is done once, though the topology may
// be refused after that.
static const AbiApi* initialized = NULL;

SHARDY_EXPORT int PjrtAot_Version(void) { return PJRT_AOT_VERSION; }

static int OpenLocked(const PjrtAot_Options* options, char* message,
                      size_t message_size) {
  const AbiApi* table = NULL;
  int code = ShardyLoadPlugin(options->library, "PjrtAot_Version", kSlotCompile,
                              &table, message, message_size);
  if (code != kAbiOk) return code;
  if (initialized != NULL && initialized != table) {
    return ShardyFailOpen(message, message_size, kAbiFailedPrecondition,
                          "cannot use %s: this process has set up another "
                          "plugin; use one per process",
                          options->library);
  }
  ShardySetInnerTable(table);
  if (initialized == NULL) {
    // Before all else: libtpu ends the process if it is not.
    AbiPluginInitializeArgs initialize = {0};
    PJRT_Error* error = AOT_INNER(PluginInitialize, &initialize);
    if (error != NULL) {
      return AotGiveReason(error, options->library, message, message_size);
    }
    initialized = table;
  }
  AotWorld* world = NULL;
  code = AotMakeWorld(options, &world, message, message_size);
  if (code != kAbiOk) return code;
  AotSetWorld(world);
  return kAbiOk;
}

SHARDY_EXPORT int PjrtAot_Open(const PjrtAot_Options* options, char* message,
                               size_t message_size) {
  if (message != NULL && message_size > 0) message[0] = '\0';
  pthread_mutex_lock(&mutex);
  int code;
  if (AotGetWorld() != NULL) {
    code = ShardyFailOpen(message, message_size, kAbiFailedPrecondition,
                          "cannot open topology %s: this process already has "
                          "topology %s; use one per process",
                          options->topology, AotGetWorld()->topology_name);
  } else {
    code = OpenLocked(options, message, message_size);
  }
  pthread_mutex_unlock(&mutex);
  return code;
}

SHARDY_EXPORT int PjrtAot_Platform(const char** name, size_t* name_size,
                                   const char** version, size_t* version_size) {
  const AotWorld* world = AotGetWorld();
  if (world == NULL) return kAbiFailedPrecondition;
  *name = world->platform;
  *name_size = world->platform_size;
  *version = world->version;
  *version_size = world->version_size;
  return kAbiOk;
}

SHARDY_EXPORT int PjrtAot_GetDevice(size_t position, PjrtAot_Device* device) {
  const AotWorld* world = AotGetWorld();
  if (world == NULL) return kAbiFailedPrecondition;
  if (position >= world->num_devices) return kAbiNotFound;
  *device = world->devices[position].facts;
  return kAbiOk;
}
