// Package calendar says when quotas renew and which parameters are in force: pure functions of a specification, a zone
// and an instant. It has no clock and does no I/O, except that a zone is read once. Instants are milliseconds since the
// Unix epoch (ADR 042).
//
// A [Renewal] says when a quota renews: [Renewal.Period] is the period that holds an instant, [Renewal.Next] its end. A
// [Schedule] says which parameters a limit has at an instant. [Parse] reads what people write, [Decode] and
// [DecodeSchedule] what an item of the table holds.
//
// # The civil line
//
// A pattern such as "30 2 * * *" is a set of minutes on the civil line: the minutes that a wall clock would show if it
// were never changed. There, the minutes that match form runs, and a run begins at an edge. Edges are found by fields: a
// set of minutes of the day, and a set of days for each month. Nothing scans minutes (file pattern.go).
//
// A zone is a list of intervals of one offset each. It places a civil time at the first instant at which the wall reads
// that time or later (file zone.go). So a time that the clocks skip means the end of the gap, a time that comes twice
// means its first occurrence, and each edge of the civil line comes once:
//
//	civil   00:00 ────────── 02:30 ─────── 00:00      daily at 02:30, clocks go from 02:00 to 03:00
//	                           │
//	real    00:00 ─── 02:00┃03:00 ──────── 00:00      the edge is at 03:00, the end of the gap
//
// A pattern whose hour is "*" or has a step follows real time instead: its edges are where real minutes begin to match.
//
// # Bounds
//
// Answers are exact from 1970 to 2100, as far as the zone data knows the future. Instants before 1900 count as 1900, and
// those after 2200 as 2200.
package calendar
