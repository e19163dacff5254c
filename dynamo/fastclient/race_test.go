//go:build race

package fastclient_test

// raceAllocations are the most that the race detector adds to a call, with one request or two: it
// drops pooled memory at random.
const raceAllocations = 24
