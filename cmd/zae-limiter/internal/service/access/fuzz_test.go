package access_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/access"
)

// refusals are all errors of a guard.
var refusals = []error{access.ErrUnproven, access.ErrForbidden, access.ErrNameless, access.ErrUndecided}

// admits asks a guard, whose error must be one of those that have nothing of the field.
func admits(t *testing.T, g *access.Guard, field string, do access.Action) (who string, err error) {
	t.Helper()
	who, err = g.Admit(t.Context(), field, do)
	if err != nil && !slices.Contains(refusals, err) || err != nil && who != "" { // these very errors have nothing of the field
		t.Errorf("%q: %q, %v", field, who, err)
	}
	return who, err
}

// Whatever a file of tokens has: it is refused without a word of it, or each of its tokens is admitted with its
// roles, and nothing else is.
func FuzzTokens(f *testing.F) {
	f.Add("0123456789abcdef", "")
	f.Add("# a\n\nfirst-0123456789abc operator name=a@b\nsecond-0123456789abc reader caller@shop,bank\r\n", "first-0123456789ab")
	f.Add("0123456789abcdef secret-role-of-nobody", "0123456789abcdef ")
	f.Add("secret-0123456789 name=secret-name name=x", "\x00")
	f.Fuzz(func(t *testing.T, text, other string) {
		tokens, err := access.ParseTokens(text)
		words := strings.Fields(text)
		if err != nil {
			saysNothing(t, err, words)
			return
		}
		g := &access.Guard{Namespace: "shop", Tokens: func() *access.Tokens { return tokens }}
		known := map[string]bool{}
		for line := range strings.Lines(text) {
			if all := strings.Fields(line); len(all) > 0 && !strings.HasPrefix(all[0], "#") {
				known[all[0]] = true
				if _, err := admits(t, g, "Bearer "+all[0], access.Look); err != nil && !errors.Is(err, access.ErrForbidden) {
					t.Errorf("%q is not known", all[0])
				}
				if who, err := admits(t, g, "Bearer "+all[0], access.Manage); err == nil && (who == "" || who == all[0]) {
					t.Errorf("%q makes changes as %q", all[0], who)
				}
			}
		}
		if _, err := admits(t, g, "Bearer "+other, access.Look); !known[strings.TrimSpace(other)] && !errors.Is(err, access.ErrUnproven) {
			t.Errorf("%q is not in %q: %v", other, text, err)
		}
		if _, err := admits(t, g, other, access.Look); err == nil && !strings.EqualFold(other[:min(len(other), len("bearer "))], "bearer ") {
			t.Errorf("%q is admitted", other)
		}
	})
}

// saysNothing checks that an error has no word of a text that could be a secret.
func saysNothing(t *testing.T, err error, words []string) {
	t.Helper()
	for _, w := range words {
		if strings.HasPrefix(w, "secret-") && strings.Contains(err.Error(), w) {
			t.Errorf("%v has %q", err, w)
		}
	}
}

// Whatever a file of keys of leases has: it is refused without a word of it, or each line is a key.
func FuzzSecrets(f *testing.F) {
	f.Add("secret-0123456789abcdef0123456789")
	f.Add("# a\n\nsecret-0123456789abcdef0123456789\nsecret-")
	f.Fuzz(func(t *testing.T, text string) {
		const least = 32
		secrets, err := access.ParseSecrets(text, least, "key")
		if err != nil {
			saysNothing(t, err, strings.Fields(text))
			return
		}
		for _, s := range secrets {
			if len(s) < least || !strings.Contains(text, string(s)) {
				t.Errorf("%q of %q", s, text)
			}
		}
	})
}

// Whatever a role says: written again, it is read as the same.
func FuzzGrant(f *testing.F) {
	for _, seed := range []string{"reader", "caller@shop,bank", "operator@", "caller@,", "@", "caller@a@b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		g, err := access.ParseGrant(text)
		if err != nil {
			return
		}
		again := string(g.Role)
		if len(g.Namespaces) > 0 {
			again += "@" + strings.Join(g.Namespaces, ",")
		}
		if again != text {
			t.Errorf("%q is read as %q", text, again)
		}
	})
}

// Whatever somebody sends in place of a token of the issuer: nothing but what the issuer has signed is admitted.
// Whatever the issuer signs is admitted only with the claims of a token, and names who has it as events can.
func FuzzJWT(f *testing.F) {
	outer := &testing.T{} // as in BenchmarkAdmit
	k := newEC(outer, "a")
	good, now := k.sign(outer, nil), time.Now()
	claims, err := base64.RawURLEncoding.DecodeString(strings.Split(good, ".")[1])
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good[:len(good)-1], string(claims))
	f.Add("a.b.c", `{"iss":"https://id.example"}`)
	f.Add("eyJhbGciOiJub25lIn0."+strings.Split(good, ".")[1]+".", strings.Replace(string(claims), "apps", "ops", 1))
	f.Add("...", strings.Replace(string(claims), `"exp":`, `"exp":1e300,"nbf":`, 1))
	f.Add("{}", strings.Replace(string(claims), `"sub":"`, `"sub":"\u0000`, 1))
	f.Add(".."+strings.Repeat("A", 20<<10), `[]`)
	p := newProvider(outer)
	p.publish(k)
	o := p.options()
	o.Now = func() time.Time { return now }
	g, _ := p.guard(o)
	signer := k.signer(outer)
	f.Fuzz(func(t *testing.T, text, payload string) {
		if who, err := admits(t, g, "Bearer "+text, access.Look); err == nil && text != good {
			t.Errorf("%q is admitted as %q", text, who)
		}
		signed, err := signer.Sign([]byte(payload))
		if err != nil {
			t.Fatal(err)
		}
		token, err := signed.CompactSerialize()
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // verified, and known
			who, err := admits(t, g, "Bearer "+token, access.Look)
			if err != nil {
				continue
			}
			var is struct {
				Issuer string `json:"iss"`
				Groups any    `json:"groups"`
			}
			if err := json.Unmarshal([]byte(payload), &is); err != nil || is.Issuer != issuerURL || is.Groups == nil || len(who) > 255 || strings.ContainsAny(who, "\x00\n\r\x1b") {
				t.Errorf("%q is admitted as %q: %v", payload, who, err)
			}
		}
	})
}

// Whatever an issuer answers: tokens of its key are admitted, or none is. The log has no more of the answer than
// a line.
func FuzzIssuer(f *testing.F) {
	outer := &testing.T{} // as in BenchmarkAdmit
	k := newEC(outer, "a")
	good := k.sign(outer, map[string]any{"exp": time.Now().AddDate(10, 0, 0).Unix()})
	keys, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: k.public, KeyID: k.id, Use: "sig"}}})
	if err != nil {
		f.Fatal(err)
	}
	const about = `{"issuer":"https://id.example","jwks_uri":"https://id.example/keys","id_token_signing_alg_values_supported":["ES256"]}`
	f.Add(about, string(keys))
	f.Add(strings.Replace(about, "https", "http", 1), `{"keys":[{"kty":"oct","k":"c2VjcmV0"},7]}`)
	f.Add(strings.Replace(about, "/keys", "/\x00", 1), `{"keys":null}`)
	f.Add(`{"issuer":"https://id.example","jwks_uri":":"}`, `[`)
	f.Add(`{"issuer":"https://other.example"}`, `<html>`)
	f.Fuzz(func(t *testing.T, about, keys string) {
		p := newProvider(t)
		p.about, p.says = about, keys
		g, issuer := p.guard(p.options())
		_, err := admits(t, g, "Bearer "+good, access.Look)
		if strings.Contains(keys, `"oct"`) && err == nil && !strings.Contains(keys, `"EC"`) {
			t.Errorf("%s admits", keys)
		}
		log := &strings.Builder{}
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // it looks once
		issuer.Watch(ctx, slog.New(slog.NewTextHandler(log, nil)))
		const line = 1000
		if log.Len() > line+2*len(about) {
			t.Errorf("the log has %d bytes: %.2000s", log.Len(), log)
		}
	})
}
