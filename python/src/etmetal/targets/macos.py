"""Mach-O libraries."""
