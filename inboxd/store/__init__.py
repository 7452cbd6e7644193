"""The only home of asyncpg and of SQL: a module for each table family, one statement a file."""
