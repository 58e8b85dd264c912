internal import SQLite
