// Package logs reads the events of a replay from log files: JSON lines, CSV, logs of W3C, and
// access logs whose lines a list of columns describes ([Format]). A file may be compressed
// with gzip.
//
// A record is a line. A line that cannot be read is counted and passed over, and so is a
// cost that an event lacks; [Reader.Malformed] tells them by reason. A value that is not
// certain is never read: a line fits its format to the end and in one way, or is malformed.
package logs
