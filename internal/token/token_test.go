package token_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/internal/token"
	"github.com/zeroae/zae-limiter-go/store"
)

// secrets are two keys.
var secrets = [][]byte{bytes.Repeat([]byte{1}, token.MinKey), bytes.Repeat([]byte{2}, token.MinKey)}

func keys(tb testing.TB, secrets ...[]byte) *token.Keys {
	tb.Helper()
	k, err := token.NewKeys(secrets)
	if err != nil {
		tb.Fatal(err)
	}
	return k
}

// usual is a usual lease: a request and its tokens, of an API key.
func usual() *token.Lease {
	return &token.Lease{
		Namespace: "a7kPq2_x9Zc", Entity: "key-1042", Made: 1_795_824_000, Nonce: token.Nonce{1, 2, 3, 4, 5, 6, 7, 8}, Within: 600,
		Resources: []token.Resource{{Name: "gpt-4", Sides: []token.Side{
			{Entity: "key-1042", Held: []token.Held{{Amounts: []store.Amount{{Limit: "rpm", Milli: 1000}, {Limit: "tpm", Milli: 4_000_000}}}}},
		}}},
	}
}

// odd is a lease with all that a lease may have.
func odd() *token.Lease {
	l := usual()
	l.Degraded = true
	l.Resources[0].Sides = append(l.Resources[0].Sides, token.Side{Entity: "project", Held: []token.Held{
		{Shard: 31, Amounts: []store.Amount{{Limit: "rpm", Milli: 1500, Until: 1_798_761_600_000}, {Limit: "tpm", Until: store.NoBalance}}},
		{Shard: 2, Amounts: []store.Amount{{Limit: "tpm", Milli: store.MaxTokens * store.Milli}}},
	}})
	l.Resources = append(l.Resources, token.Resource{Name: "images", Sides: l.Resources[0].Sides}, token.Resource{Name: "search"})
	return l
}

// owing is a lease that a clamp has cut.
func owing() *token.Lease {
	l := odd()
	l.Resources[1].Owes = []store.Amount{{Limit: "rpm", Milli: 1500}, {Limit: "tpm", Milli: 40_000}}
	return l
}

// holding is a lease that holds slots, of the entity and of its parent, and of a resource without tokens.
func holding() *token.Lease {
	l := owing()
	l.Resources[0].Slots = []token.Slots{{Entity: "key-1042", Limit: "inflight", Held: 1}, {Entity: "project", Limit: "inflight", Held: 1}}
	l.Resources[2].Slots = []token.Slots{{Entity: "key-1042", Limit: "seats", Held: store.MaxSlots}}
	return l
}

// A lease is read as it was written, with any key that is accepted. The first one signs.
func TestALeaseIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]*token.Lease{"usual": usual(), "odd": odd(), "owing": owing(), "holding": holding()} {
		text := keys(t, secrets...).Sign(l)
		if again := keys(t, secrets[0]).Sign(l); text != again {
			t.Errorf("%s: written as %s, and then as %s", name, text, again)
		}
		for _, k := range []*token.Keys{keys(t, secrets...), keys(t, secrets[1], secrets[0])} {
			got, err := k.Open(text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(l, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
		if _, err := keys(t, secrets[1]).Open(text); !errors.Is(err, token.ErrKey) {
			t.Errorf("%s: with the other key: %v", name, err)
		}
	}
}

// What documents say of the length holds.
func TestAUsualTokenIsShort(t *testing.T) {
	t.Parallel()
	const want = 111
	if got := len(keys(t, secrets...).Sign(usual())); got != want {
		t.Errorf("a usual token has %d characters, want %d", got, want)
	}
}

// No single changed bit, and no cut, is accepted.
func TestAChangedTokenIsNotAccepted(t *testing.T) {
	t.Parallel()
	k := keys(t, secrets...)
	text := k.Sign(usual())
	for i := range len(text) {
		if _, err := k.Open(text[:i]); err == nil {
			t.Errorf("cut after %d characters, and accepted", i)
		}
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	for bit := range len(b) * 8 {
		changed := bytes.Clone(b)
		changed[bit/8] ^= 1 << (bit % 8)
		if _, err := k.Open(base64.RawURLEncoding.EncodeToString(changed)); err == nil {
			t.Errorf("bit %d changed, and accepted", bit)
		}
	}
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	for i := range letters { // the last character has bits that say nothing
		if other := text[:len(text)-1] + letters[i:i+1]; other != text {
			if _, err := k.Open(other); err == nil {
				t.Errorf("%q accepted at the end", letters[i])
			}
		}
	}
}

// Whatever is signed: it is no lease, or it is the one form of a lease.
func FuzzBody(f *testing.F) {
	f.Add(usual().Body())
	f.Add(odd().Body())
	f.Add(owing().Body())
	f.Add(holding().Body())
	f.Fuzz(func(t *testing.T, body []byte) {
		l, err := token.Parse(body)
		if err != nil {
			return
		}
		if again := l.Body(); !bytes.Equal(again, body) {
			t.Errorf("%x is read, and written as %x", body, again)
		}
	})
}

// Whatever is given: no token but a signed one is accepted.
func FuzzOpen(f *testing.F) {
	k := keys(f, secrets...)
	f.Add(k.Sign(usual()))
	f.Add(k.Sign(owing()))
	f.Add(k.Sign(holding()))
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		l, err := k.Open(text)
		if err != nil {
			return
		}
		if again := k.Sign(l); again != text {
			t.Errorf("%s is accepted, and written as %s", text, again)
		}
	})
}
