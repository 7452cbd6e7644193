"""A producer that runs with the older and with the newest code: rows of every kind, in rounds.

    python older_producer.py DSN NAME ROUNDS

See: test_older_code.py.
"""

import sys

import psycopg

from inboxd.client import Inbox, NewCommand, NewStep

dsn, name, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
inbox = Inbox()
with psycopg.connect(dsn, autocommit=True) as connection:
    for n in range(rounds):
        key = f"key {n % 3}"
        inbox.emit(connection, "both.fact", {"n": n, "makes": n % 3 == 0})
        inbox.emit(connection, "both.turn", {"key": key})
        inbox.emit(connection, "both.item", {"key": key})
        # Both producers emit these events: the second one is a duplicate.
        inbox.emit(connection, "both.fact", {"n": n}, dedup_key=f"shared {n}")
        inbox.send(connection, "both.act", {"broken": n == 0})
        inbox.send(connection, "both.keyed", {}, queue="keyed", ordering_key=key)
        inbox.send(connection, "both.limited", {}, queue="limited")
        # Producers without the client write so.
        connection.execute("insert into inboxd.events (type, payload) values ('both.fact', '{}')")
        connection.execute("select inboxd.send_command('both.act', '{}')")
    for _ in range(3):
        members = [NewCommand("both.act", {}) for _ in range(5)]
        inbox.send_batch(connection, name, members, then=NewCommand("both.after", {}))
        step = NewCommand("both.step", {})
        steps = [NewStep("one", step), NewStep("two", step, after="one")]
        inbox.send_workflow(connection, name, steps, finally_=NewCommand("both.after", {}))
