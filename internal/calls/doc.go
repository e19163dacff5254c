// Package calls has what calls to a store share: goroutines, deadlines, waits, work
// that one caller does for all, and the count of the calls under way. It knows nothing
// of buckets.
package calls
