//go:build race

package fastclient_test

// raceAllocations are the most that the race detector adds to a call: it drops pooled
// memory at random.
const raceAllocations = 12
