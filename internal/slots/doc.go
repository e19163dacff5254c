// Package slots keeps what a process holds of the slots of limits: how many requests may run at a
// time (ADR 055). A [Holder] has a [book] for each item in use, and a goroutine that writes it:
//
//	Acquire ──▶ book: enough is held ──▶ lease                     no request
//	                  otherwise: in line ──▶ one write for all in line ──▶ leases, in order
//	Release ──▶ book: for who is in line, or kept for a second, or returned with the next write
//
// A book has no clock, no lock and no I/O. It is told instants and answers, and says what to do
// next.
package slots
