package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestQuickstart runs the example in virtual time. The test takes no time, and every figure
// that depends on the clock is always the same.
func TestQuickstart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		began := time.Now()
		if err := run(t.Context(), printer{&out}); err != nil {
			t.Fatalf("%v, after\n%s", err, &out)
		}
		// Three answers of the model, and the wait.
		if took := time.Since(began); took != 3*100*time.Millisecond+2200*time.Millisecond {
			t.Errorf("the run took %v", took)
		}
		rest := out.String()
		for _, line := range []string{
			"admitted: alice has  200 of  1000 tpm left",
			"admitted: acme  has  700 of  1500 tpm left",
			"the model answered with 500 tokens",
			"admitted: bob   has  400 of  1000 tpm left",
			"admitted: acme  has  425 of  1500 tpm left", // 300 were returned, 25 were earned
			"the model answered with 700 tokens",
			"alice rpm: asked   1, has  59: enough",
			"alice tpm: asked 900, has 540: refused, for 1.8s",
			"acme  rpm: asked   1, has  98: enough",
			"acme  tpm: asked 900, has 350: refused, for 2.2s",
			"Waiting 2.2s, exactly what the refusal says",
			"admitted: alice has   80 of  1000 tpm left",
			"admitted: acme  has    0 of  1500 tpm left",
			"the model answered with 900 tokens",
			"to decide and settle  requests  RCU  WCU",
		} {
			_, after, found := strings.Cut(rest, line)
			if !found {
				t.Fatalf("no line %q in its place in\n%s", line, &out)
			}
			rest = after
		}
		if !regexp.MustCompile(`(?m)^ +UpdateItem +[1-9]\d* +0 +[1-9]\d*$`).MatchString(rest) {
			t.Errorf("the bill shows no updates:\n%s", rest)
		}
	})
}
