"""What the drivers run, as `SCENARIO[,VARIABLE=VALUE]...`.

Starlark for Bazel (BUILD) and Python for pytest (scenarios.py).
"""

# Each struct version of PJRT_ExecuteOptions begins at one of these, and ends
# before another; 57 is the oldest that is taken, 105 the newest known.
_MINORS = [57, 63, 64, 75, 76, 77, 78, 81, 96, 97, 105, 106, 116]

# One of each size.
_SIZE_MINORS = [57, 64, 76, 81, 105, 106]

_BARE = "FAKE_PLUGIN_FAULT=bare,FAKE_PLUGIN_MINOR=99"

# The shim's: those that run as they are, then those that need a variable.
SHIM = [
    "version",
    "open_errors",
    "errors",
    "short_error_args",
    "open_threads",
    "attributes",
    "device_kind",
    "compile_pass",
    "compile_replaced",
    "compile_short",
    "compile_inner_error",
    "compile_twice",
    "compile_format",
    "compile_fail",
    "compile_fail_messages",
    "compile_nothing",
    "compiled_program",
    "answer_given",
    "answer_dropped",
    "answer_fail",
    "answer_not_for_compile",
    "answer_lifetime",
    "answer_of_another",
    "answer_misuse",
    "answer_inner_error",
    "answer_threads",
    "cache_serialized",
    "cache_loaded",
    "cache_refused",
    "cache_replaced",
    "cache_fail",
    "cache_lent",
    "callback_replaces_itself",
    "callback_threads",
    "callback_awaited",
    "callback_leaves_first_thread",
    "profiler_made",
    "execute_misuse",
    "execute_inner_error",
    "execute_large_args",
    "kept_reused",
    "kept_in_use",
    "kept_other",
    "kept_eviction",
    "kept_deleted",
    "kept_fail",
    "kept_replaced",
    "kept_threads",
] + [
    "%s,FAKE_PLUGIN_MINOR=%d" % (name, minor)
    for name, minors in [
        ("execute_skew", _MINORS),
        ("execute_dropped", _SIZE_MINORS),
        ("execute_odd_sizes", _SIZE_MINORS),
        ("table", [57, 98, 99, 116]),
        ("payloads", [99]),
    ]
    for minor in minors
] + [
    "%s,FAKE_PLUGIN_FAULT=%s" % (name, fault)
    for name, fault in [
        ("attributes", "long_values"),
        ("attributes_missing", "untold"),
        ("attributes_refused", "secret"),
        ("attributes_short", "short_value"),
        ("cache_missing", "old"),
        ("device_kind_refused", "secret"),
        ("device_kind_untold", "untold"),
        ("profiler_cut", "newer_profiler"),
        ("profiler_kept", "profiler"),
    ]
] + [
    "%s,%s" % (name, _BARE)
    for name in [
        "answer_missing",
        "attributes_missing",
        "bare_table",
        "cache_missing",
        "compiled_program_missing",
    ]
] + [
    # What is wrong with the plugin, and what must be said about it.
    "refused,%s,EXPECT_TEXT=%s" % (fault, text)
    for fault, text in [
        ("FAKE_PLUGIN_FAULT=null", "returned no table"),
        ("FAKE_PLUGIN_FAULT=tiny", "16 bytes"),
        ("FAKE_PLUGIN_FAULT=short", "at least 488 are needed"),
        ("FAKE_PLUGIN_FAULT=major", "1.81"),
        ("FAKE_PLUGIN_FAULT=no_errors", "lacks the error functions"),
        ("FAKE_PLUGIN_MINOR=56", "older than 0.57"),
    ]
]

# The compile-only plugin's threads, which the thread sanitizer sees too.
AOT_THREADS = [
    "threads",
    "open_threads",
    "last_program",
]

# And those where its memory ends, with a variant of the library alone.
AOT_STARVED = [
    "starved_open",
    "starved_compile",
    "starved_execute",
    "starved_buffers",
]

AOT = [
    "closed",
    "open_errors",
    "open_fails",
    "open_options",
    "devices",
    "devices_without_attributes",
    "client",
    "client_errors",
    "other_topology",
    "one_process",
    "device_entries",
    "memory_entries",
    "misuse",
    "forwarded",
    "forwarded_large",
    "payloads",
    "compile",
    "compile_short_stats",
    "compile_untold",
    "compile_fails",
    "compile_errors",
    "execute",
    "execute_kept",
    "execute_errors",
    "execute_unknown_arguments",
    "execute_one_device",
    "steps",
    "steps_by_device",
    "step_limit",
    "step_limit_quiet",
    "buffer",
    "buffer_errors",
    "buffer_copies",
    "reads",
    "reads_refused",
    "events",
] + AOT_THREADS + [
    "memory_limit,LIMIT=0",
    "memory_limit,LIMIT=17179869184",
]
