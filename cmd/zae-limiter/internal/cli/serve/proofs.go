package serve

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/access"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/hot"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/server"
)

// defaultClaim is the claim that many providers have the groups of a user in.
const defaultClaim = "groups"

// oidcFlags are the flags about an OpenID provider.
type oidcFlags struct {
	issuer, audience, claim string
	roles                   []string
}

// bindProofs binds the flags about who may call.
func (o *options) bindProofs(f *pflag.FlagSet) {
	f.Var(app.Named(&o.tokenFile), "token-file", "`file` with the tokens of callers, one on each line, with the roles\nof each; it is read again when it changes")
	f.Var(app.Named(&o.oidc.issuer), "oidc-issuer", "`URL` of an OpenID provider whose tokens prove who calls")
	f.Var(app.Named(&o.oidc.audience), "oidc-audience", "what the provider's tokens must be for: the `name` of this service\nthere")
	f.Var(app.Named(&o.oidc.claim), "oidc-claim", "`claim` of the provider's tokens whose values give roles (default\n"+defaultClaim+")")
	f.Var(app.NamedList(&o.oidc.roles), "oidc-role", "role that a value of the claim gives: `VALUE=ROLE`, or\nVALUE=ROLE@NAMESPACE,...; may be repeated")
	f.BoolVar(&o.isOpen, "allow-unauthenticated", false, "listen where other machines can call though callers prove nothing")
}

// readProofs reads what proves who calls.
func (o *options) readProofs() (err error) {
	if o.tokenFile != "" {
		if o.tokens, err = hot.Open(access.TokenSource(o.tokenFile), time.Now); err != nil {
			if pathErr := (*os.PathError)(nil); errors.As(err, &pathErr) {
				return app.Unread("--token-file", err)
			}
			return fmt.Errorf("--token-file %s: %w", o.tokenFile, err)
		}
	}
	if o.oidc.issuer == "" {
		if o.oidc.audience+o.oidc.claim != "" || len(o.oidc.roles) > 0 {
			return errors.New("--oidc-audience, --oidc-claim and --oidc-role need --oidc-issuer")
		}
		return nil
	}
	to := access.IssuerOptions{
		URL: o.oidc.issuer, Audience: o.oidc.audience, Claim: cmp.Or(o.oidc.claim, defaultClaim), Roles: map[string]access.Grant{},
		Client: &http.Client{}, Now: time.Now,
	}
	for _, text := range o.oidc.roles {
		at := strings.LastIndex(text, "=") // a value may have one
		if at <= 0 {
			return fmt.Errorf("invalid --oidc-role %q: give VALUE=ROLE", text)
		}
		value := text[:at]
		if _, ok := to.Roles[value]; ok {
			return fmt.Errorf("invalid --oidc-role %q: the value has a role already", text)
		}
		if to.Roles[value], err = access.ParseGrant(text[at+1:]); err != nil {
			return fmt.Errorf("invalid --oidc-role %q: %w", text, err)
		}
	}
	if o.issuer, err = access.NewIssuer(to); err != nil {
		return fmt.Errorf("--oidc-issuer, --oidc-audience and --oidc-role: %w", err)
	}
	return nil
}

// guard judges callers by what they prove; nil if nothing is asked of them, or only certificates are.
func (o *options) guard() *access.Guard {
	if o.tokens == nil && o.issuer == nil {
		return nil
	}
	g := &access.Guard{Namespace: o.app.Flags.Namespace, Issuer: o.issuer}
	if o.tokens != nil {
		g.Tokens = o.tokens.Get
	}
	return g
}

// checkAddrs checks where to listen. Where other machines can call, callers must prove who they are.
// The admin address has no certificates.
func (o *options) checkAddrs() error {
	hasTokens := o.tokens != nil || o.issuer != nil
	for _, l := range [...]struct {
		flag, addr, remedy string
		isGuarded          bool
		isExposed          *bool
	}{
		{"http", o.http, server.Exposed, hasTokens || o.certs.ClientCA != "", &o.httpOpen},
		{"grpc", o.grpc, server.Exposed, hasTokens || o.certs.ClientCA != "", new(bool)},
		{"admin", o.admin, server.AdminExposed, hasTokens, &o.adminOpen},
	} {
		if l.addr == "" && l.flag != "http" {
			continue // nowhere
		}
		isExposed, err := server.CheckAddr(l.addr)
		if err == nil && isExposed && !l.isGuarded && !o.isOpen {
			err = &access.ExposedError{Addr: l.addr, Remedy: l.remedy}
		}
		if err != nil {
			return fmt.Errorf("invalid --%s: %w", l.flag, err)
		}
		*l.isExposed = isExposed
	}
	return nil
}
