"""ACME's PJRT plugin for torch_xla."""

from acme_pjrt.plugin import AcmePlugin

__all__ = ['AcmePlugin']
