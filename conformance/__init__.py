"""A suite that checks what torch_xla and its users rely on in a PJRT plugin.

    torch-xla-shardy conformance --plugin libacme.so

`suite` has the cases, `running/` gives each a process, `pjrt/` calls a plugin
without torch, `reporting/` tells what was found.
"""
