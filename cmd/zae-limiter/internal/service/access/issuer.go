package access

import (
	"context"
	"crypto"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	// keysAge is how often the keys of an issuer are read: a key that it has withdrawn counts no longer.
	keysAge = 10 * time.Minute
	// keysPause is how long the issuer is left alone after it was asked. A token with a new key makes the
	// service ask, and anybody can make up such tokens.
	keysPause = 10 * time.Second
	// issuerTime is how long the issuer may take to answer, and maxIssuerBody how much it may say, in bytes.
	issuerTime    = 5 * time.Second
	maxIssuerBody = 1 << 20
	// skew is how long a token is valid after its end, for clocks that differ.
	skew = time.Minute
	// maxJWT is the length of the longest token, in bytes: headers of HTTP have no more.
	maxJWT = 16 << 10
	// maxKnown and knownTime bound which tokens need not be verified again.
	maxKnown  = 4096
	knownTime = time.Minute
)

// IssuerOptions configure an [Issuer].
type IssuerOptions struct {
	// URL is the issuer as its tokens name it: https, or http at a loopback address.
	URL string
	// Audience is what tokens for the service must be for.
	Audience string
	// Claim is the claim that has values for Roles: a text, or a list of texts. Claims inside others have
	// dots: realm_access.roles.
	Claim string
	// Roles are what the values of the claim give.
	Roles map[string]Grant
	// Client asks the issuer.
	Client *http.Client
	// Now is the clock of the machine.
	Now func() time.Time
}

// An Issuer verifies the tokens of an OpenID provider by its public keys.
//
//	a token ──▶ known? ──▶ its grants
//	            │ no
//	            ▼
//	            verified by the keys ──no──▶ keys read again, keysPause after the last time ──▶ verified, or refused
type Issuer struct {
	o     IssuerOptions
	known *known
	live  atomic.Pointer[verifier] // nil before the first answer of the issuer

	mu      sync.Mutex // of asking the issuer
	asked   time.Time
	refused error // by the last asking
}

// A verifier has the keys of an issuer at a time.
type verifier struct{ *oidc.IDTokenVerifier }

// NewIssuer checks the options. It asks nobody.
func NewIssuer(o IssuerOptions) (*Issuer, error) {
	switch {
	case !isPrivate(o.URL):
		return nil, errors.New("the issuer is no URL that begins with https://")
	case o.Audience == "":
		return nil, errors.New("the audience is missing: else a token for any other service would do")
	case o.Claim == "":
		return nil, errors.New("the claim with the roles is missing")
	case len(o.Roles) == 0:
		return nil, errors.New("no value of the claim gives a role")
	}
	known, err := newKnown()
	if err != nil {
		return nil, err
	}
	client := *o.Client
	client.Timeout = issuerTime
	client.Transport = bounded{client.Transport}
	o.Client = &client
	return &Issuer{o: o, known: known}, nil
}

// isPrivate reports whether what a URL answers cannot be replaced on its way.
func isPrivate(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return false
	}
	addr, err := netip.ParseAddr(u.Hostname())
	return u.Scheme == "https" || u.Scheme == "http" && err == nil && addr.IsLoopback()
}

// bounded bounds what an issuer may say, and asks only addresses that are private.
type bounded struct{ inside http.RoundTripper }

// RoundTrip asks.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	if !isPrivate(r.URL.String()) {
		return nil, errors.New("the issuer names a URL that does not begin with https://")
	}
	inside := b.inside
	if inside == nil {
		inside = http.DefaultTransport
	}
	a, err := inside.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	a.Body = http.MaxBytesReader(nil, a.Body, maxIssuerBody)
	if a.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("the issuer answers %d", a.StatusCode), a.Body.Close()) // its body would be in the log
	}
	return a, nil
}

// Watch reads the keys until the context ends.
func (i *Issuer) Watch(ctx context.Context, log *slog.Logger) {
	tick := time.NewTicker(keysPause)
	defer tick.Stop()
	was := ""
	for {
		i.mu.Lock()
		if i.o.Now().Sub(i.asked) >= keysAge || i.refused != nil {
			i.ask(ctx)
		}
		is := ""
		if i.refused != nil {
			is = i.refused.Error()
		}
		i.mu.Unlock()
		if is != was && is != "" {
			log.ErrorContext(ctx, "the issuer of tokens does not answer: the last keys stay in use", "text", is)
		} else if is != was {
			log.InfoContext(ctx, "the issuer of tokens answers again")
		}
		was = is
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// ask reads the keys, keysPause after the last time. The keys read before stay in use if the issuer
// does not answer. The caller holds the lock.
func (i *Issuer) ask(ctx context.Context) {
	if !i.asked.IsZero() && i.o.Now().Sub(i.asked) < keysPause {
		return
	}
	i.asked = i.o.Now()
	v, err := i.read(context.WithoutCancel(ctx))
	if i.refused = err; err != nil {
		return
	}
	i.live.Store(v)
	i.known.forget()
}

// read reads the keys.
func (i *Issuer) read(ctx context.Context) (*verifier, error) {
	ctx = oidc.ClientContext(ctx, i.o.Client)
	provider, err := oidc.NewProvider(ctx, i.o.URL)
	if err != nil {
		return nil, err
	}
	var at struct {
		Keys       string   `json:"jwks_uri"`
		Algorithms []string `json:"id_token_signing_alg_values_supported"`
	}
	if err := provider.Claims(&at); err != nil {
		return nil, err
	}
	keys, err := i.keys(ctx, at.Keys)
	if err != nil {
		return nil, err
	}
	config := &oidc.Config{ClientID: i.o.Audience, Now: func() time.Time { return i.o.Now().Add(-skew) }}
	for _, name := range at.Algorithms {
		if strings.HasPrefix(name, "RS") || strings.HasPrefix(name, "PS") || strings.HasPrefix(name, "ES") || name == "EdDSA" {
			config.SupportedSigningAlgs = append(config.SupportedSigningAlgs, name) // not HS256: its key would be public
		}
	}
	return &verifier{oidc.NewVerifier(i.o.URL, keys, config)}, nil
}

// keys reads the public keys of signatures. Keys of kinds that are not known do not count.
func (i *Issuer) keys(ctx context.Context, from string) (*oidc.StaticKeySet, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, from, http.NoBody)
	if err != nil {
		return nil, err
	}
	a, err := i.o.Client.Do(r)
	if err != nil {
		return nil, err
	}
	defer a.Body.Close() //nolint:errcheck // it was read
	text, err := io.ReadAll(a.Body)
	if err != nil {
		return nil, err
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, fmt.Errorf("the keys of the issuer: %w", err)
	}
	found := &oidc.StaticKeySet{}
	for _, raw := range set.Keys {
		var key jose.JSONWebKey
		if json.Unmarshal(raw, &key) == nil && key.Valid() && key.IsPublic() && key.Use != "enc" {
			found.PublicKeys = append(found.PublicKeys, crypto.PublicKey(key.Key))
		}
	}
	if len(found.PublicKeys) == 0 {
		return nil, errors.New("the issuer has no public key for signatures")
	}
	return found, nil
}

// identify finds what a token gives.
func (i *Issuer) identify(ctx context.Context, token string) (Identity, error) {
	if len(token) > maxJWT || strings.Count(token, ".") != 2 {
		return Identity{}, ErrUnproven
	}
	sum, now := sha256.Sum256([]byte(token)), i.o.Now()
	if id, ok := i.known.find(sum, now); ok {
		return id, nil
	}
	verified, err := i.verify(ctx, token)
	if err != nil {
		return Identity{}, err
	}
	var claims map[string]any
	if err := verified.Claims(&claims); err != nil {
		return Identity{}, ErrUnproven
	}
	id := Identity{Name: subject(verified.Subject)}
	for _, value := range values(claims, i.o.Claim) {
		if g, ok := i.o.Roles[value]; ok {
			id.Grants = append(id.Grants, g)
		}
	}
	i.known.add(sum, id, now, verified.Expiry.Add(skew))
	return id, nil
}

// subject is the name of who has a token in audit events; "" if it cannot be one.
func subject(name string) string {
	const longest = 255 // of OpenID Connect
	if len(name) > longest || !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return ""
	}
	return name
}

// verify verifies a token by the keys, and by new ones if they have changed.
func (i *Issuer) verify(ctx context.Context, token string) (*oidc.IDToken, error) {
	before := i.live.Load()
	if before != nil {
		verified, err := before.Verify(ctx, token)
		if err == nil {
			return verified, nil
		}
		if expired := (*oidc.TokenExpiredError)(nil); errors.As(err, &expired) {
			return nil, ErrUnproven
		}
	}
	i.mu.Lock()
	if i.live.Load() == before {
		i.ask(ctx)
	}
	refused := i.refused
	i.mu.Unlock()
	if after := i.live.Load(); after != before {
		if verified, err := after.Verify(ctx, token); err == nil {
			return verified, nil
		}
		return nil, ErrUnproven
	}
	if refused != nil {
		return nil, ErrUndecided
	}
	return nil, ErrUnproven
}

// values are the texts of a claim. A claim whose name has dots counts before those inside others.
func values(claims map[string]any, name string) (all []string) {
	switch value := claims[name].(type) {
	case string:
		return []string{value}
	case []any:
		for _, v := range value {
			if text, ok := v.(string); ok {
				all = append(all, text)
			}
		}
		return all
	}
	outer, rest, isInside := strings.Cut(name, ".")
	inside, ok := claims[outer].(map[string]any)
	if !isInside || !ok {
		return nil
	}
	return values(inside, rest)
}

// known are tokens that were verified a moment ago.
type known struct {
	mu  sync.Mutex
	all *simplelru.LRU[[sha256.Size]byte, verdict]
}

// A verdict is what a token gives, and until when it need not be verified again.
type verdict struct {
	id    Identity
	until time.Time
}

func newKnown() (*known, error) {
	all, err := simplelru.NewLRU[[sha256.Size]byte, verdict](maxKnown, nil)
	return &known{all: all}, err
}

func (k *known) find(sum [sha256.Size]byte, now time.Time) (Identity, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	v, ok := k.all.Get(sum)
	return v.id, ok && now.Before(v.until)
}

func (k *known) add(sum [sha256.Size]byte, id Identity, now, end time.Time) {
	until := now.Add(knownTime)
	if end.Before(until) {
		until = end
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all.Add(sum, verdict{id, until})
}

// forget makes all tokens be verified by the keys of today.
func (k *known) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all.Purge()
}
