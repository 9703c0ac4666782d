"""Writes rows to a SQLite database with a write-ahead log until its standard input ends."""

import sqlite3
import sys
import threading

path, word = sys.argv[1:]
ended = threading.Event()


def wait() -> None:
    sys.stdin.read()
    ended.set()


threading.Thread(target=wait, daemon=True).start()
database = sqlite3.connect(path, isolation_level=None)
database.execute("PRAGMA journal_mode=WAL")
database.execute("PRAGMA wal_autocheckpoint=20")
database.execute("CREATE TABLE part (id INTEGER PRIMARY KEY, data TEXT)")
number = 0
while not ended.is_set():
    number += 1
    database.execute("INSERT INTO part (data) VALUES (?)", (f"{word} {number} " + "x" * 3000,))
    if number % 50 == 0:
        print(number, flush=True)
print("last", number, flush=True)
sys.stdout.close()
# What is in the log stays in the log, as when the process is killed.
__import__("os")._exit(0)
