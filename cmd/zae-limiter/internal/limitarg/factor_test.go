package limitarg_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
)

func TestFactors(t *testing.T) {
	t.Parallel()
	var f limitarg.Factors
	for _, s := range []string{"tpm:x1.5,rpm:x2", "rps:x0.001"} {
		if err := f.Set(s); err != nil {
			t.Errorf("%q: %v", s, err)
		}
	}
	if got, want := f.String(), "rpm:x2,rps:x0.001,tpm:x1.5"; got != want || f["tpm"] != 1500 {
		t.Errorf("%v is written %q, want %q", f, got, want)
	}
	for _, wrong := range []string{"", "rpm", "rpm:2", "rpm:x", "rpm:x0", "rpm:x-1", "rpm:xNaN", "rpm:x1000001", "wcu:x2", "a b:x2", "rpm:x2", "tph:x2,tph:x3"} {
		if err := f.Set(wrong); err == nil {
			t.Errorf("%q is taken as %s", wrong, f.String())
		}
	}
}
