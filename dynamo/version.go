package dynamo

import (
	"fmt"

	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// Versions of this client.
const (
	// ClientVersion is the version of the Python peer whose wire format this client uses. A
	// table's version checks see this client as that version.
	ClientVersion = "0.17.0"
	// SchemaVersion is the schema version of the tables that this client creates and uses.
	SchemaVersion = "0.10.0"
)

// A Version is what a table's version record says about the software for the table.
type Version struct {
	Schema    string // of the table
	ClientMin string // the oldest client the table accepts
	Lambda    string // of the deployed aggregator; "" if there is none
}

// Version returns the table's version record as it was when the store was opened. ok is
// false if there is none, as on a table made by hand.
func (s *Store) Version() (v Version, ok bool) {
	if s.version == nil {
		return Version{}, false
	}
	return versionOf(*s.version), true
}

func versionOf(v schema.Version) Version { return Version{v.Schema, v.ClientMin, v.Lambda} }

// Check reports why this client cannot use a table of the version, as an error that is
// [store.ErrIncompatible]. It applies the peer's rules, in their order:
//
//  1. A version that cannot be read is incompatible.
//  2. The client must be as new as ClientMin.
//  3. The schema must be of the client's major version. While that is 0, the schema
//     must also be of the minor version of [SchemaVersion]; the peer does not check this.
//
// Check accepts an older aggregator, see [Version.LambdaIsOlder]. A field that is ""
// asks for nothing.
func (v Version) Check() error {
	if err := v.checkClient(); err != nil || v.Schema == "" {
		return err
	}
	of, ok := parseRelease(v.Schema)
	if !ok {
		return unreadable(schema.SchemaVersion, v.Schema)
	}
	own, _ := parseRelease(SchemaVersion)
	switch {
	case of.major == own.major && (own.major > 0 || of.minor == own.minor):
		return nil
	case of.compare(own) > 0:
		return fmt.Errorf("%w: its schema is %s, and this client uses %s: upgrade this library", store.ErrIncompatible, v.Schema, SchemaVersion)
	}
	return fmt.Errorf("%w: its schema is %s, and this client uses %s: create a new table, or use a client of that schema",
		store.ErrIncompatible, v.Schema, SchemaVersion)
}

// checkClient compares this client with the oldest that the table accepts.
func (v Version) checkClient() error {
	if v.ClientMin == "" {
		return nil
	}
	least, ok := parseRelease(v.ClientMin)
	if !ok {
		return unreadable(schema.ClientMinVersion, v.ClientMin)
	}
	client, _ := parseRelease(ClientVersion)
	if client.compare(least) < 0 {
		return fmt.Errorf("%w: it asks for clients of version %s, and this one presents itself as %s: upgrade this library",
			store.ErrIncompatible, v.ClientMin, ClientVersion)
	}
	return nil
}

func unreadable(attribute, value string) error {
	return fmt.Errorf("%w: %s %q is no version: repair the version record", store.ErrIncompatible, attribute, value)
}

// LambdaIsOlder reports whether the deployed aggregator is older than this client, so
// that an upgrade would replace it. It is false if there is no aggregator.
func (v Version) LambdaIsOlder() bool {
	return v.Lambda != "" && v.lambdaIsBelow(ClientVersion)
}

// lambdaIsBelow reports whether the deployed aggregator is older than a release, or of an unknown version.
func (v Version) lambdaIsBelow(least string) bool {
	deployed, ok := parseRelease(v.Lambda)
	want, _ := parseRelease(least)
	return !ok || deployed.compare(want) < 0
}

// LambdaIsNewer reports whether the deployed aggregator is newer than this client, so that
// a deployment would lower it. It is false if there is no aggregator, or if its version
// cannot be read.
func (v Version) LambdaIsNewer() bool {
	deployed, ok := parseRelease(v.Lambda)
	client, _ := parseRelease(ClientVersion)
	return ok && deployed.compare(client) > 0
}
