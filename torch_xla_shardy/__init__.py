"""The command `torch-xla-shardy`: its parsers, and what starts a command.

Importing anything of torch_xla imports torch, which takes seconds, so this is a
package of its own: it imports a command's implementation when that runs.
"""
