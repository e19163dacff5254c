package sim_test

import (
	"flag"
	"slices"
	"strings"
)

var all = flag.Bool("sim.all", false, "report what is known to be broken, too")

// known are the violations that defects of the limiter cause which are on
// record and not mended yet. They are not reported, so that new ones are seen.
var known = []struct{ promise, text string }{
	// A shard that is lost or split while its bucket is brought to a new configuration is
	// born with the old one, and compared with it a time to live later.
	{"P7", "a time to live after the last change"},
}

func (v violation) isKnown(crowds bool) bool {
	// Once in some hundred seeds with crowds somebody is refused what was there.
	if !*all && crowds && (v.promise == "P4" || v.promise == "P5") && strings.Contains(v.text, "and all the time everything") {
		return true
	}
	return !*all && slices.ContainsFunc(known, func(k struct{ promise, text string }) bool {
		return k.promise == v.promise && strings.Contains(v.text, k.text)
	})
}
