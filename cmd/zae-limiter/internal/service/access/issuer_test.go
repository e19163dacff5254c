package access_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/access"
)

const issuerURL = "https://id.example"

// A provider signs tokens, and answers what an issuer does, without a network: the bubble of a test has
// its own time.
type provider struct {
	*testing.T

	mu     sync.Mutex
	keys   []jose.JSONWebKey // public and published
	asked  int               // for keys
	isAway bool
	says   string // in place of its keys, if not ""
	about  string // in place of its configuration, if not ""
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	return &provider{T: t}
}

func (p *provider) options() access.IssuerOptions {
	return access.IssuerOptions{
		URL: issuerURL, Audience: "limits", Claim: "groups", Now: time.Now, Client: &http.Client{Transport: p},
		Roles: map[string]access.Grant{"ops": {Role: access.Operator}, "apps": {Role: access.Caller, Namespaces: []string{"shop"}}},
	}
}

// guard judges by the tokens of the provider.
func (p *provider) guard(o access.IssuerOptions) (*access.Guard, *access.Issuer) {
	p.Helper()
	issuer, err := access.NewIssuer(o)
	if err != nil {
		p.Fatal(err)
	}
	return &access.Guard{Namespace: "shop", Issuer: issuer}, issuer
}

// RoundTrip answers.
func (p *provider) RoundTrip(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case p.isAway:
		return nil, errors.New("no route to host")
	case r.URL.Path == "/.well-known/openid-configuration" && p.about != "":
		_, _ = w.WriteString(p.about)
	case r.URL.Path == "/.well-known/openid-configuration":
		p.send(w, map[string]any{"issuer": issuerURL, "jwks_uri": issuerURL + "/keys", "id_token_signing_alg_values_supported": []string{"RS256", "ES256", "HS256", "none"}})
	case p.says != "":
		_, _ = w.WriteString(p.says)
	default:
		p.asked++
		p.send(w, jose.JSONWebKeySet{Keys: p.keys})
	}
	return w.Result(), nil
}

func (p *provider) send(w *httptest.ResponseRecorder, body any) {
	if err := json.NewEncoder(w).Encode(body); err != nil {
		p.Error(err)
	}
}

// publish makes these keys those of the provider.
func (p *provider) publish(keys ...*key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys = nil
	for _, k := range keys {
		p.keys = append(p.keys, jose.JSONWebKey{Key: k.public, KeyID: k.id, Use: "sig"})
	}
}

func (p *provider) change(f func(*provider)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(p)
}

// count is how often the keys were asked for.
func (p *provider) count() (n int) {
	p.change(func(p *provider) { n = p.asked })
	return n
}

// A key signs.
type key struct {
	id      string
	alg     jose.SignatureAlgorithm
	private any
	public  any
}

func newRSA(t *testing.T) *key {
	t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return &key{"a", jose.RS256, k, k.Public()}
}

func newEC(t *testing.T, id string) *key {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &key{id, jose.ES256, k, k.Public()}
}

// sign signs claims, with changes to those of a good token.
func (k *key) sign(t *testing.T, changes map[string]any) string {
	t.Helper()
	claims := map[string]any{
		"iss": issuerURL, "aud": "limits", "sub": "someone", "groups": []string{"apps"},
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	}
	maps.Copy(claims, changes)
	text, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := k.signer(t).Sign(text)
	if err != nil {
		t.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// signer signs what is given.
func (k *key) signer(t *testing.T) jose.Signer {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: k.alg, Key: k.private}, (&jose.SignerOptions{}).WithHeader("kid", k.id))
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

// bubble runs f with the time of a bubble.
func bubble(t *testing.T, f func(*provider)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { f(newProvider(t)) })
}

func wants(t *testing.T, g *access.Guard, what, token string, do access.Action, want error) {
	t.Helper()
	if _, err := g.Admit(t.Context(), "Bearer "+token, do); !errors.Is(err, want) || want == nil && err != nil {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

// A change is by the subject of a token. A token without one that events can have makes none.
func TestSubjects(t *testing.T) {
	bubble(t, func(p *provider) {
		k := newEC(p.T, "a")
		p.publish(k)
		g, _ := p.guard(p.options())
		for subject, want := range map[string]error{
			"someone": nil, "https://id.example/Zoë": nil, "": access.ErrNameless, "a\nb": access.ErrNameless, strings.Repeat("x", 256): access.ErrNameless,
		} {
			token := k.sign(p.T, map[string]any{"sub": subject, "groups": []string{"ops"}})
			for range 2 { // verified, and then known
				name, err := g.Admit(p.Context(), "Bearer "+token, access.Manage)
				if !errors.Is(err, want) || err == nil && (want != nil || name != subject) {
					p.Errorf("%q: %q, %v", subject, name, err)
				}
			}
			wants(p.T, g, "look as "+subject, token, access.Observe, nil)
		}
	})
}

// Only a token of the issuer, for this service, of this time and with a good signature is one.
func TestTokensOfAnIssuer(t *testing.T) {
	bubble(t, func(p *provider) {
		t := p.T
		first, second, other := newRSA(t), newEC(t, "b"), newRSA(t)
		p.publish(first, second)
		g, _ := p.guard(p.options())
		secret := &key{"a", jose.HS256, []byte(strings.Repeat("x", 32)), nil}
		good := first.sign(t, nil)
		parts := strings.Split(good, ".")
		none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + parts[1] + "."
		for name, c := range map[string]struct {
			token string
			want  error
		}{
			"RSA":                     {good, nil},
			"EC":                      {second.sign(t, nil), nil},
			"several audiences":       {first.sign(t, map[string]any{"aud": []string{"other", "limits"}}), nil},
			"one group as a text":     {first.sign(t, map[string]any{"groups": "apps"}), nil},
			"just ended":              {first.sign(t, map[string]any{"exp": time.Now().Add(-59 * time.Second).Unix()}), nil},
			"begins soon":             {first.sign(t, map[string]any{"nbf": time.Now().Add(time.Minute).Unix()}), nil},
			"ended":                   {first.sign(t, map[string]any{"exp": time.Now().Add(-61 * time.Second).Unix()}), access.ErrUnproven},
			"no end":                  {first.sign(t, map[string]any{"exp": nil}), access.ErrUnproven},
			"begins later":            {first.sign(t, map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}), access.ErrUnproven},
			"another issuer":          {first.sign(t, map[string]any{"iss": "https://other.example"}), access.ErrUnproven},
			"another audience":        {first.sign(t, map[string]any{"aud": "limits-of-others"}), access.ErrUnproven},
			"no audience":             {first.sign(t, map[string]any{"aud": nil}), access.ErrUnproven},
			"another key of the name": {other.sign(t, nil), access.ErrUnproven},
			"a secret as the key":     {secret.sign(t, nil), access.ErrUnproven},
			"no signature":            {none, access.ErrUnproven},
			"another body":            {parts[0] + "." + strings.Split(first.sign(t, map[string]any{"groups": "ops"}), ".")[1] + "." + parts[2], access.ErrUnproven},
			"no token":                {"a.b.c", access.ErrUnproven},
			"a long token":            {first.sign(t, map[string]any{"x": strings.Repeat("x", 16<<10)}), access.ErrUnproven},
			"no group":                {first.sign(t, map[string]any{"groups": nil}), access.ErrForbidden},
			"another group":           {first.sign(t, map[string]any{"groups": []any{"guests", 7, nil}}), access.ErrForbidden},
		} {
			for range 2 { // the second time from memory
				wants(t, g, name, c.token, access.Decide, c.want)
			}
		}
		wants(t, g, "a caller", good, access.Profile, access.ErrForbidden)
		wants(t, g, "an operator", first.sign(t, map[string]any{"groups": []string{"apps", "ops"}}), access.Profile, nil)
		g.Namespace = "bank"
		wants(t, g, "another namespace", good, access.Decide, access.ErrForbidden)
	})
}

// Claims inside others are found, and those whose names have dots.
func TestClaims(t *testing.T) {
	bubble(t, func(p *provider) {
		t := p.T
		k := newEC(t, "a")
		p.publish(k)
		for claim, claims := range map[string]map[string]any{
			"realm_access.roles":        {"realm_access": map[string]any{"roles": []string{"x", "ops"}}},
			"https://limits.example/is": {"https://limits.example/is": "ops"},
			"a.b.c":                     {"a": map[string]any{"b": map[string]any{"c": "ops"}}},
		} {
			o := p.options()
			o.Claim = claim
			g, _ := p.guard(o)
			wants(t, g, claim, k.sign(t, claims), access.Profile, nil)
			wants(t, g, "no "+claim, k.sign(t, map[string]any{"a": "ops", "realm_access": []string{"ops"}}), access.Profile, access.ErrForbidden)
		}
	})
}

// A new key counts at its first token, and a withdrawn one counts no longer ten minutes later at most.
func TestKeysRotate(t *testing.T) {
	bubble(t, func(p *provider) {
		t := p.T
		first, second := newRSA(t), newEC(t, "b")
		p.publish(first)
		g, issuer := p.guard(p.options())
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { issuer.Watch(ctx, slog.New(slog.DiscardHandler)) })
		synctest.Wait()
		old := first.sign(t, nil)
		wants(t, g, "the first key", old, access.Decide, nil)
		time.Sleep(30 * time.Second)
		p.publish(second)
		wants(t, g, "a key that is known", old, access.Decide, nil)
		wants(t, g, "the second key", second.sign(t, nil), access.Decide, nil)
		wants(t, g, "the withdrawn key", old, access.Decide, access.ErrUnproven)
		p.publish(first)
		time.Sleep(10*time.Minute + 10*time.Second)
		wants(t, g, "the withdrawn second key", second.sign(t, nil), access.Decide, access.ErrUnproven)
		stop()
		all.Wait()
	})
}

// Invented tokens do not make the service ask the issuer each time. While the issuer is away, the
// keys that are known count.
func TestAnIssuerIsLeftAlone(t *testing.T) {
	bubble(t, func(p *provider) {
		t := p.T
		ours, theirs := newEC(t, "a"), newEC(t, "b")
		p.publish(ours)
		p.change(func(p *provider) { p.isAway = true })
		g, _ := p.guard(p.options())
		wants(t, g, "no key was ever read", ours.sign(t, nil), access.Decide, access.ErrUndecided)
		p.change(func(p *provider) { p.isAway = false })
		time.Sleep(10 * time.Second)
		wants(t, g, "a good token", ours.sign(t, nil), access.Decide, nil)
		var all sync.WaitGroup
		for n := range 64 {
			all.Go(func() {
				for range 20 {
					wants(t, g, "made up", theirs.sign(t, map[string]any{"n": n}), access.Decide, access.ErrUnproven)
					time.Sleep(time.Second)
				}
			})
		}
		all.Wait()
		if n := p.count(); n > 3 {
			t.Errorf("the keys were asked for %d times in 20 s, want 3 at most", n)
		}
		p.change(func(p *provider) { p.isAway = true })
		time.Sleep(time.Hour)
		wants(t, g, "made up", theirs.sign(t, nil), access.Decide, access.ErrUndecided)
		wants(t, g, "a good token in an outage", ours.sign(t, nil), access.Decide, nil)
	})
}

// The service knows what a token gave only as long as the token is valid.
func TestAKnownTokenEnds(t *testing.T) {
	bubble(t, func(p *provider) {
		t := p.T
		k := newEC(t, "a")
		p.publish(k)
		g, _ := p.guard(p.options())
		token := k.sign(t, map[string]any{"exp": time.Now().Add(10 * time.Second).Unix()})
		wants(t, g, "now", token, access.Decide, nil)
		time.Sleep(65 * time.Second)
		wants(t, g, "known, in the minute after its end", token, access.Decide, nil)
		time.Sleep(6 * time.Second)
		wants(t, g, "ended", token, access.Decide, access.ErrUnproven)
	})
}

// An issuer's answer is bounded, and must have a public key.
func TestWhatAnIssuerSays(t *testing.T) {
	bubble(t, func(p *provider) {
		k := newEC(p.T, "a")
		good, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: k.public, KeyID: k.id}}})
		if err != nil {
			p.Fatal(err)
		}
		for says, want := range map[string]error{
			string(good):                              nil,
			string(good) + strings.Repeat(" ", 1000):  nil,
			string(good) + strings.Repeat(" ", 1<<20): access.ErrUndecided,
			`{"keys":[]}`:                             access.ErrUndecided,
			`{`:                                       access.ErrUndecided,
			`{"keys":[{"kty":"oct","k":"c2VjcmV0"},7]}`: access.ErrUndecided,
		} {
			p.change(func(p *provider) { p.says = says })
			g, _ := p.guard(p.options())
			wants(p.T, g, says[:min(len(says), 30)], k.sign(p.T, nil), access.Decide, want)
		}
	})
}

// BenchmarkAdmit is what a token of an issuer costs, verified and known.
func BenchmarkAdmit(b *testing.B) {
	t := &testing.T{}
	p, k := newProvider(t), newRSA(t)
	p.publish(k)
	g, _ := p.guard(p.options())
	field := "Bearer " + k.sign(t, nil)
	b.Run("known", func(b *testing.B) {
		for b.Loop() {
			if _, err := g.Admit(b.Context(), field, access.Decide); err != nil {
				b.Fatal(err)
			}
		}
	})
	fields := make([]string, 3*4096) // more than are known
	for i := range fields {
		fields[i] = "Bearer " + k.sign(t, map[string]any{"n": i})
	}
	b.Run("verified", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			if _, err := g.Admit(b.Context(), fields[i%len(fields)], access.Decide); err != nil {
				b.Fatal(err)
			}
		}
	})
}
