/// SQLite as Swift sees it: its header, and functions for what Swift does not import of it.
#pragma once

#include <sqlite3.h>

/// Binds bytes that stay where they are until the statement is reset. No bytes are an empty blob, not NULL.
static inline int sqlite_bind_static(sqlite3_stmt *statement, int index, const void *bytes, sqlite3_uint64 count) {
    return count == 0 ? sqlite3_bind_zeroblob(statement, index, 0)
                      : sqlite3_bind_blob64(statement, index, bytes, count, SQLITE_STATIC);
}

/// Closing the last connection leaves the log as it is.
static inline int sqlite_keep_log_on_close(sqlite3 *database) {
    return sqlite3_db_config(database, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, (int *)0);
}

/// No SQL can damage the file, and none that stands in the schema is trusted.
static inline void sqlite_defend(sqlite3 *database) {
    sqlite3_db_config(database, SQLITE_DBCONFIG_DEFENSIVE, 1, (int *)0);
    sqlite3_db_config(database, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, (int *)0);
}

/// How many bytes at the end of each page are not used; -1 if the file cannot tell.
static inline int sqlite_reserved_bytes(sqlite3 *database) {
    int count = -1;
    return sqlite3_file_control(database, "main", SQLITE_FCNTL_RESERVE_BYTES, &count) == SQLITE_OK ? count : -1;
}

/// What the kernel said to the last call that failed on the log, or else on the database; 0 for nothing. sqlite3_system_errno does not tell
/// of a commit.
static inline int sqlite_last_system_error(sqlite3 *database) {
    int number = 0;
    sqlite3_file *log = (sqlite3_file *)0;
    sqlite3_file_control(database, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
    if (log && log->pMethods) log->pMethods->xFileControl(log, SQLITE_FCNTL_LAST_ERRNO, &number);
    if (number == 0) sqlite3_file_control(database, "main", SQLITE_FCNTL_LAST_ERRNO, &number);
    return number;
}
