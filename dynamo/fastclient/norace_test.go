//go:build !race

package fastclient_test

const raceAllocations = 0
