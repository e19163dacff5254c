// Package access says who calls the service, and what they may do. Proofs are bearer tokens: of a
// file, or signed by an OpenID provider (ADR 065). The package keeps nothing of a token but its sum.
package access

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/store"
)

// A Role is what a caller is to the service.
type Role string

// The roles.
const (
	// Reader sees balances, configuration, usage, audit events, metrics and the state of files.
	Reader Role = "reader"
	// Caller takes, settles and sees balances.
	Caller Role = "caller"
	// Operator does all of that, changes configuration and balances, and takes profiles.
	Operator Role = "operator"
)

// An Action is what a request wants to do.
type Action int

// The actions.
const (
	Decide  Action = iota // take or return tokens
	Look                  // see balances of an entity
	Observe               // see metrics, the state of files, and what administration shows
	Manage                // change configuration, entities and balances
	Profile               // take profiles of the process
	Survey                // see the table: its namespaces and backups
	Own                   // change them
)

// may has the roles that may do an action.
var may = map[Action][]Role{
	Decide:  {Caller, Operator},
	Look:    {Reader, Caller, Operator},
	Observe: {Reader, Operator},
	Manage:  {Operator},
	Profile: {Operator},
	Survey:  {Reader, Operator},
	Own:     {Operator},
}

// isWhole reports whether an action is about the whole table: a role that counts for some namespaces only does
// not suffice.
func (a Action) isWhole() bool { return a == Survey || a == Own }

// isChange reports whether an action is in audit events, which name who did it.
func (a Action) isChange() bool { return a == Manage || a == Own }

// A Grant gives a role.
type Grant struct {
	Role Role
	// Namespaces are those for which the role counts; none is all.
	Namespaces []string
}

// ParseGrant reads a role, and the namespaces for which it counts: ROLE or ROLE@NAMESPACE,...
func ParseGrant(text string) (Grant, error) {
	role, names, isBound := strings.Cut(text, "@")
	g := Grant{Role: Role(role)}
	if !slices.Contains([]Role{Reader, Caller, Operator}, g.Role) {
		return g, errors.New("give reader, caller or operator, and the namespaces after an @ if not all: caller@team-a,team-b")
	}
	if !isBound {
		return g, nil
	}
	for name := range strings.SplitSeq(names, ",") {
		if err := store.CheckNamespace(name); err != nil {
			return g, err
		}
		g.Namespaces = append(g.Namespaces, name)
	}
	return g, nil
}

// An Identity is what a proof gives its bearer.
type Identity struct {
	// Name is who the bearer is, in audit events; "" if the proof has no name that events can have.
	Name   string
	Grants []Grant
}

// may reports whether it may do something in a namespace.
func (id *Identity) may(do Action, namespace string) bool {
	return slices.ContainsFunc(id.Grants, func(g Grant) bool {
		return slices.Contains(may[do], g.Role) && (len(g.Namespaces) == 0 || !do.isWhole() && slices.Contains(g.Namespaces, namespace))
	})
}

// The ways in which a request is refused.
var (
	// ErrUnproven says that a request has no proof, or one that is not valid.
	ErrUnproven = errors.New("give a token of the service: Authorization: Bearer TOKEN")
	// ErrForbidden says that the roles of the bearer do not suffice.
	ErrForbidden = errors.New("the token has no role for this, or not in the namespace of the service; what concerns the whole table needs a role for all namespaces")
	// ErrNameless says that audit events could not say who makes a change.
	ErrNameless = errors.New("the token has no subject of 1 to 255 printable characters, so audit events could not name who makes the change: give one with the claim sub")
	// ErrUndecided says that the keys of the issuer cannot be had now.
	ErrUndecided = errors.New("the token cannot be verified now: the issuer does not answer")
)

// An ExposedError says that an address can be reached from other machines, and that nobody who calls
// there must prove anything.
type ExposedError struct {
	Addr   string
	Remedy string // what to give
}

// Error says what to do.
func (e *ExposedError) Error() string {
	return fmt.Sprintf("%s can be reached from other machines, and anyone may call: %s", e.Addr, e.Remedy)
}

// A Guard judges requests. A nil guard asks for no proof.
type Guard struct {
	// Namespace is the one that the service serves.
	Namespace string
	// Tokens returns those of the file; nil is no file.
	Tokens func() *Tokens
	// Issuer verifies tokens of an OpenID provider; nil is none.
	Issuer *Issuer
}

// Admit judges a request by its field Authorization, and says who makes it; "" without a guard. The error is
// [ErrUnproven], [ErrForbidden], [ErrNameless] or [ErrUndecided], and has nothing of the field.
func (g *Guard) Admit(ctx context.Context, field string, do Action) (who string, err error) {
	if g == nil {
		return "", nil
	}
	scheme, token, _ := strings.Cut(field, " ")
	if token = strings.TrimSpace(token); !strings.EqualFold(scheme, "Bearer") || token == "" {
		return "", ErrUnproven
	}
	id, err := g.who(ctx, token)
	switch {
	case err != nil:
		return "", err
	case !id.may(do, g.Namespace):
		return "", ErrForbidden
	case do.isChange() && id.Name == "":
		return "", ErrNameless
	}
	return id.Name, nil
}

// who finds what a token gives.
func (g *Guard) who(ctx context.Context, token string) (Identity, error) {
	if g.Tokens != nil {
		if id, ok := g.Tokens().find(token); ok {
			return id, nil
		}
	}
	if g.Issuer == nil {
		return Identity{}, ErrUnproven
	}
	return g.Issuer.identify(ctx, token)
}
