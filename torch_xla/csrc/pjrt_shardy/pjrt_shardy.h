// Control functions of libpjrt_shardy.so, the PJRT plugin that wraps another.
//
// A framework loads the library as any PJRT plugin, through GetPjrtApi. Before
// that, the process names the plugin to wrap (PjrtShardy_Open) and may register
// a callback that sees, and may replace, every program on its way to the
// compiler, and what the framework reads of the compiled program.
//
// Codes are those of PJRT_Error_Code: 0 is success. All functions may be called
// from any thread, except that one compilation belongs to one thread: that of
// its callback.

#ifndef TORCH_XLA_CSRC_PJRT_SHARDY_PJRT_SHARDY_H_
#define TORCH_XLA_CSRC_PJRT_SHARDY_PJRT_SHARDY_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// The version of this interface, raised when it changes incompatibly.
#define PJRT_SHARDY_VERSION 7
int PjrtShardy_Version(void);

// Opens the plugin to wrap. On failure writes a NUL-terminated reason, cut to
// `message_size` bytes, that names the path and what to do. Again with the same
// path: no-op; with another path once one is open: FAILED_PRECONDITION. After a
// failure another attempt may be made. The plugin is never unloaded.
int PjrtShardy_Open(const char* library_path, char* message,
                    size_t message_size);

// An attribute of the inner plugin that is an integer or a list of integers,
// such as "stablehlo_current_version". Writes the first `capacity` of them and
// how many there are. Valid once the framework has initialized the plugin.
// Returns 0; NOT_FOUND if the plugin has no such attribute, or tells none;
// INVALID_ARGUMENT if it is of another type; FAILED_PRECONDITION while no
// plugin is open; or the code with which the plugin refused.
int PjrtShardy_PluginAttribute(const char* name, int64_t* values,
                               size_t capacity, size_t* count);

// The kind of this process's first device, as the inner plugin calls it. Writes
// the first `capacity` bytes and how many there are. Returns 0;
// FAILED_PRECONDITION while the framework has no client with a device; or the
// code with which the plugin refused.
int PjrtShardy_DeviceKind(char* kind, size_t capacity, size_t* size);

// One call of PJRT_Client_Compile in flight. Valid only within the callback.
typedef struct PjrtShardy_Compilation PjrtShardy_Compilation;

// What the framework asked to be compiled. Borrowed, valid only within the
// callback; none of the strings is NUL-terminated.
typedef struct {
  size_t struct_size;
  const char* program;
  size_t program_size;
  const char* format;
  size_t format_size;
  const char* options;  // serialized CompileOptionsProto
  size_t options_size;
} PjrtShardy_CompileRequest;

typedef void (*PjrtShardy_CompileCallback)(
    PjrtShardy_Compilation* compilation,
    const PjrtShardy_CompileRequest* request, void* user);

// Registers the callback for all later compiles; NULL: programs pass straight
// to the inner plugin. Returns only when no other thread runs the previous
// callback any more, so `user` and the callback's own memory may then be freed;
// the caller must therefore hold no lock that the callback waits for. Called
// from within a callback it does not wait.
void PjrtShardy_SetCompileCallback(PjrtShardy_CompileCallback callback,
                                   void* user);

// Has callbacks of calls on the process's first thread run on a thread of their
// own, for which the call waits: a language may run handlers of signals on the
// first thread wherever its code runs there, and what they raise would end the
// callback and never reach who called the framework. `is_bound` says whether
// the thread holds a lock that the callback needs; it then stays. NULL: all run
// where they are called.
void PjrtShardy_LeaveFirstThread(int (*is_bound)(void));

// Compiles a program with the inner plugin, in the given format; NULL: in that
// of the request. A later call replaces, and frees, the result of an earlier
// one. When the callback returns, the last result, executable or error, is the
// result of the compile. Returns 0 or the inner plugin's error code.
int PjrtShardy_CompileProgram(PjrtShardy_Compilation* compilation,
                              const char* program, size_t program_size,
                              const char* format, size_t format_size,
                              const char* options, size_t options_size);

// Why the last call on the compilation that returns a code failed; "" if it did
// not. NUL-terminated, valid until the next call on this
// compilation. `size` may be NULL.
const char* PjrtShardy_CompileMessage(PjrtShardy_Compilation* compilation,
                                      size_t* size);

// The optimized program of the last successful PjrtShardy_CompileProgram, as
// the inner plugin reports it, and its format (e.g. "hlo_with_config"). The
// compilation owns both; valid until the next call on it. Returns 0 or an error
// code, with the reason in PjrtShardy_CompileMessage.
int PjrtShardy_CompiledProgram(PjrtShardy_Compilation* compilation,
                               const char** program, size_t* program_size,
                               const char** format, size_t* format_size);

// What a program takes on one device, in bytes.
typedef struct {
  size_t struct_size;
  int64_t arguments;
  int64_t outputs;
  int64_t aliases;  // of the outputs, what lies in memory of arguments
  int64_t temporaries;
  int64_t code;
} PjrtShardy_Memory;

// What the inner plugin tells of the last successful PjrtShardy_CompileProgram
// or PjrtShardy_LoadExecutable. `struct_size` is the caller's; the rest is
// written on success. Returns 0 or an error code, with the reason in
// PjrtShardy_CompileMessage.
int PjrtShardy_CompiledMemory(PjrtShardy_Compilation* compilation,
                              PjrtShardy_Memory* memory);

// The executable of the last successful PjrtShardy_CompileProgram or
// PjrtShardy_LoadExecutable, in the inner plugin's own serialized form. The
// compilation owns the bytes; valid until the next call on it. Returns 0 or an
// error code, with the reason in PjrtShardy_CompileMessage.
int PjrtShardy_SerializedExecutable(PjrtShardy_Compilation* compilation,
                                    const char** bytes, size_t* size);

// Loads what PjrtShardy_SerializedExecutable gave, in this process or another,
// with the inner plugin instead of compiling. As PjrtShardy_CompileProgram, the
// outcome is the last result. Plugins trust these bytes: damaged ones, or those
// of another version of the plugin, may end the process.
int PjrtShardy_LoadExecutable(PjrtShardy_Compilation* compilation,
                              const char* bytes, size_t size);

// Has the last result kept under `id` as soon as the framework destroys it. The
// caller gives each id, which is not 0, to one program and its options, and
// only to small ones: the newest 64 are kept, until their client ends or this
// process does. Another result undoes it.
void PjrtShardy_KeepExecutable(PjrtShardy_Compilation* compilation,
                               uint64_t id);

// Makes an executable that is kept under `id` the result, which the framework
// alone has until it is kept again. Returns 0 or, with nothing changed,
// NOT_FOUND.
int PjrtShardy_ReuseExecutable(PjrtShardy_Compilation* compilation,
                               uint64_t id);

// Has the framework read this program, in this format, from the last result, in
// place of what the inner plugin has, and even if it has none: then the
// framework's call would fail. For as long as the executable lives;
// PjrtShardy_CompiledProgram still gives the inner plugin's own. Both are
// copied. The last call wins; PjrtShardy_CompileProgram and
// PjrtShardy_LoadExecutable and PjrtShardy_ReuseExecutable undo it. Without
// memory the compile fails.
void PjrtShardy_SetOptimizedProgram(PjrtShardy_Compilation* compilation,
                                    const char* program, size_t program_size,
                                    const char* format, size_t format_size);

// Makes this compile fail with the given code and message, whatever was
// compiled. The message is copied. A code that is no error code counts as
// UNKNOWN. The last call wins.
void PjrtShardy_Fail(PjrtShardy_Compilation* compilation, int code,
                     const char* message, size_t message_size);

#ifdef __cplusplus
}
#endif

#endif  // TORCH_XLA_CSRC_PJRT_SHARDY_PJRT_SHARDY_H_
