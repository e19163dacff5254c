package acquire_test

import (
	"errors"
	"testing"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/store"
)

func TestNamesOfIdentityProvidersAreEncoded(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"":                       "",
		"key-1":                  "key-1",
		"Zoe_Zola":               "Zoe_Zola",
		"a:b@c.d_e-f":            "a:b@c.d_e-f",
		"auth0|5f7c":             "auth0Z_7C5f7c",
		"alice+test@example.com": "aliceZ_2Btest@example.com",
		"arn:aws:iam::1:role/x":  "arn:aws:iam::1:roleZ_2Fx",
		"::1":                    "Z_3A:1",
		"_x":                     "Z_5Fx",
		"Z_7C":                   "Z_5A_7C",
		"ZZ_7C":                  "ZZ_5A_7C",
		"Z_7c":                   "Z_7c",
		"Z_7":                    "Z_7",
		"Z_|":                    "Z_Z_7C",
		"é\n":                    "Z_C3Z_A9Z_0A",
	} {
		got := limiter.EncodeName(name)
		if got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
		if back, err := limiter.DecodeName(got); back != name || err != nil {
			t.Errorf("%q: decoded as %q, %v", got, back, err)
		}
	}
}

func TestWhatNoEncodingMakesIsNotDecoded(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"Z_41", "a|b", "_x", "aZ_3Ab", "Z_5AZ_5A", "é"} {
		if name, err := limiter.DecodeName(id); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%q is decoded as %q, %v", id, name, err)
		}
	}
}

// The laws: decoding reverses encoding, a short encoding is a valid ID, and what decodes is
// the encoding of what it decodes to.
func FuzzEncodeName(f *testing.F) {
	for _, name := range []string{"", "key-1", "auth0|5f7c", "Z_41", "Z_Z_41", "\x00Z_", "::1"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		id := limiter.EncodeName(name)
		if back, err := limiter.DecodeName(id); back != name || err != nil {
			t.Errorf("%q is encoded as %q and decoded as %q, %v", name, id, back, err)
		}
		if err := store.CheckEntity(id); err != nil && name != "" && len(name) <= 64 {
			t.Errorf("%q is encoded as %q: %v", name, id, err)
		}
		if got, err := limiter.DecodeName(name); err == nil && limiter.EncodeName(got) != name {
			t.Errorf("%q is decoded as %q, which is encoded as %q", name, got, limiter.EncodeName(got))
		}
	})
}
