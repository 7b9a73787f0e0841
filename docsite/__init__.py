"""The documentation site: its pages are collected here, generated references included, for MkDocs to build."""
