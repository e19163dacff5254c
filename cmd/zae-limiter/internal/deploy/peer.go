package deploy

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/zeroae/zae-limiter-go/store"
)

// KeepPeer sets what an update of a stack of the Python peer must keep, because
// CloudFormation cannot change it without replacing it: the table's local indexes, all
// attributes in GSI2, and where the mapping began to read. The stack never merges shards,
// because the peer's clients would make a merged shard again.
//
// bucket is the peer's bucket for code, which is its archive; "" if it has none. With the
// code in it, one update changes the functions in place, and the name that the stack exports
// stays.
func (o *Options) KeepPeer(bucket string) {
	o.LocalIndexes, o.GSI2Projection, o.StartingPosition, o.Quiet = true, ProjectAll, FromNow, 0
	o.CodeBucket = bucket
}

// A peerName is a parameter of the peer's template that names a role or a policy. Empty, the
// name is that of the stack and the component.
type peerName struct {
	key       string
	component Component
	used      func(*Options) bool // the stack has the role or policy
}

var (
	peerRoles = []peerName{
		{"AggregatorRoleName", AggregatorRole, func(o *Options) bool { return o.IAM && o.Aggregator && o.AggregatorRoleARN == "" }},
		{"ProvisionerRoleName", ProvisionerRole, func(o *Options) bool { return o.IAM && o.Provisioner }},
		{"AppRoleName", AppRole, hasRoles},
		{"AdminRoleName", AdminRole, hasRoles},
		{"ReadOnlyRoleName", ReadOnlyRole, hasRoles},
	}
	peerPolicies = []peerName{
		{"AcquireOnlyPolicyName", AcquireOnlyPolicy, hasIAM},
		{"FullAccessPolicyName", FullAccessPolicy, hasIAM},
		{"ReadOnlyPolicyName", ReadOnlyPolicy, hasIAM},
		{"NamespaceAcquirePolicyName", NamespaceAcquirePolicy, hasIAM},
		{"NamespaceFullAccessPolicyName", NamespaceFullAccessPolicy, hasIAM},
		{"NamespaceReadOnlyPolicyName", NamespaceReadOnlyPolicy, hasIAM},
	}
)

func hasIAM(o *Options) bool   { return o.IAM }
func hasRoles(o *Options) bool { return o.IAM && o.Roles }

// setPeerFormats recovers the formats of names from the parameters of the peer's template,
// which has a parameter for each name. A stack whose names follow no format is refused: an
// update would replace its roles or policies.
func (o *Options) setPeerFormats(values map[string]string) error {
	roles, err := o.peerFormat(peerRoles, values)
	if err != nil {
		return err
	}
	policies, err := o.peerFormat(peerPolicies, values)
	if roles == "" { // there is no role: the peer's record of the format is for later ones
		roles = values["RoleNameFormat"]
	}
	o.RoleNameFormat, o.PolicyNameFormat = cmp.Or(o.RoleNameFormat, roles), cmp.Or(o.PolicyNameFormat, policies)
	return err
}

// peerFormat is the one format that gives all names that the stack uses, "" if it uses none.
func (o *Options) peerFormat(names []peerName, values map[string]string) (string, error) {
	format := ""
	for _, n := range names {
		value, known := values[n.key]
		if !known || !n.used(o) {
			continue
		}
		usual := formatted("", o.Name, n.component)
		name := cmp.Or(value, usual)
		before, after, ok := strings.Cut(name, usual)
		if format == "" && ok {
			format = before + placeholder + after
		}
		if becomes := formatted(format, o.Name, n.component); becomes != name {
			return "", &store.ValidationError{
				Field: "parameter " + n.key, Value: value,
				Reason: fmt.Sprintf("an update would replace %s by %s, because one format makes all names: first give the stack names of one format, with the program that made it", name, becomes),
			}
		}
	}
	return format, nil
}
