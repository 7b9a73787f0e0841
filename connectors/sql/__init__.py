"""Databases: a room for each kind of server, and what they share: addresses, JSON text, and head in any SQL database.

The only importer of SQLAlchemy and of the database drivers.
"""
