"""Run folders: written whole or not at all, and sealed by a manifest over every byte."""
