// Package logs reads the events of a replay from log files. It reads JSON lines, CSV,
// access logs in the common and the combined format, and the access logs of AWS
// application load balancers. A file may be compressed with gzip.
//
// A record is a line. A malformed line is counted and passed over; [Reader.Malformed]
// shows the first of them.
package logs
