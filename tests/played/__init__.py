"""Servers of MySQL's and PostgreSQL's protocol that a test plays: they answer as told, and note their statements.

They are for moments that a test cannot bring a real server to: a COMMIT whose answer is lost, a transaction that is
prepared between two listings. Drivers, sockets and statements are the real ones. What a server makes of a statement is
tested on real servers (integration_tests).
"""
