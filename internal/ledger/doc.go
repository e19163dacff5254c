// Package ledger has what a process has reserved on bucket items: what goes back to their limits if the process
// is lost (ADR 071). It says what each write adds to the reservations, and when a write must be made for them
// alone. It does no I/O.
package ledger
