package deploy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/option"
	"github.com/zeroae/zae-limiter-go/store"
)

// Bounds of options. Those of names are AWS's.
const (
	minNameChars               = 3
	maxNameChars, maxShortName = 53, 45 // of a stack without a provisioner, and of one that has it
	maxBatchWithoutWindow      = 10

	maxRoleChars, maxRoleFormatChars     = 64, 55
	maxPolicyChars, maxPolicyFormatChars = 128, 120

	// maxUserTags leaves room for the six tags of the project below CloudFormation's 50.
	maxUserTags      = 44
	maxTagKeyChars   = 128
	maxTagValueChars = 256
)

// notLess refuses a maximum that is less than its minimum.
func notLess(field string, most, least int) error {
	if most >= least {
		return nil
	}
	return invalid(field, strconv.Itoa(most), fmt.Sprintf("give %d to %d", least, maxCapacity))
}

// needPolicies refuses roles where no policy is that they could have.
func (o *Options) needPolicies(field string, roles bool) error {
	if o.IAM || !roles {
		return nil
	}
	return invalid(field, "true", "the roles need the stack's policies, which are left out: make the policies, or leave out the roles")
}

// checkRoleNames checks the format of roles, and the lengths of the names that it gives.
func (o *Options) checkRoleNames() error {
	roles := []Component{AggregatorRole, ProvisionerRole}
	if o.Roles {
		roles = append(roles, AppRole, AdminRole, ReadOnlyRole)
	}
	if o.NamespaceRoles {
		roles = append(roles, NamespaceAppRole, NamespaceAdminRole, NamespaceReadOnlyRole)
	}
	return cmp.Or(
		checkFormat("RoleNameFormat", o.RoleNameFormat, maxRoleFormatChars),
		o.fits("RoleNameFormat", o.RoleNameFormat, roles, maxRoleChars),
	)
}

// checkPolicyNames does the same for policies.
func (o *Options) checkPolicyNames() error {
	policies := []Component{AcquireOnlyPolicy, FullAccessPolicy, ReadOnlyPolicy, NamespaceAcquirePolicy, NamespaceFullAccessPolicy, NamespaceReadOnlyPolicy}
	return cmp.Or(
		checkFormat("PolicyNameFormat", o.PolicyNameFormat, maxPolicyFormatChars),
		o.fits("PolicyNameFormat", o.PolicyNameFormat, policies, maxPolicyChars),
	)
}

func (o *Options) fits(field, format string, of []Component, most int) error {
	for _, c := range of {
		name := formatted(format, o.Name, c)
		if over := len(name) - most; over > 0 {
			return invalid(field, format, fmt.Sprintf("it makes %s, which is %d characters too long: shorten it, or give a stack name of at most %d characters",
				name, over, len(o.Name)-over))
		}
	}
	return nil
}

// checkName checks the rules of stacks, tables and functions at once.
func (o *Options) checkName() error {
	const rule = "give 3 to 45 letters, digits and hyphens, the first a letter"
	at := strings.IndexFunc(o.Name, func(r rune) bool { return !isLetter(r) && !isDigit(r) && r != '-' })
	switch n := len(o.Name); {
	case at >= 0:
		r, _ := utf8.DecodeRuneInString(o.Name[at:])
		return invalid("Name", o.Name, fmt.Sprintf("%q is not allowed: %s", r, rule))
	case n > 0 && !isLetter(rune(o.Name[0])):
		return invalid("Name", o.Name, "it does not begin with a letter: "+rule)
	case n > maxShortName && n <= maxNameChars && o.Provisioner:
		return invalid("Name", o.Name, fmt.Sprintf("it has %d characters, and the name of the provisioner would be too long: give at most %d, or leave out the provisioner", n, maxShortName))
	case n < minNameChars || n > maxNameChars:
		return invalid("Name", o.Name, fmt.Sprintf("it has %d characters: %s", n, rule))
	}
	return nil
}

func isLetter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }
func isDigit(r rune) bool  { return r >= '0' && r <= '9' }

// checkBatchWindow checks the rule of Lambda for mappings of a stream.
func (o *Options) checkBatchWindow() error {
	if o.BatchWindow > 0 || o.BatchSize <= maxBatchWithoutWindow {
		return nil
	}
	return invalid("BatchWindow", "0s", fmt.Sprintf("Lambda takes more than %d records in a batch only with a window: give at least 1s, or a batch size of at most %d", maxBatchWithoutWindow, maxBatchWithoutWindow))
}

func (o *Options) checkQuiet() error {
	if o.Quiet == 0 || o.Quiet >= time.Second {
		return nil
	}
	return invalid("Quiet", o.Quiet.String(), "give at least 1s, or 0 to never merge")
}

// checkFormat checks a format of names; "" is none.
func checkFormat(field, format string, most int) error {
	switch {
	case format == "":
	case strings.Count(format, placeholder) != 1:
		return invalid(field, format, "put {} into it exactly once, where the name belongs")
	case len(format) > most:
		return invalid(field, format, fmt.Sprintf("it has %d characters: give at most %d", len(format), most))
	case strings.ContainsFunc(strings.Replace(format, placeholder, "", 1), func(r rune) bool {
		return !isLetter(r) && !isDigit(r) && !strings.ContainsRune("_+=,.@-", r)
	}):
		return invalid(field, format, `use letters, digits and "_+=,.@-" around {}`)
	}
	return nil
}

var tagText = option.Pattern(`\A[\p{L}\p{Z}\p{N}_.:/=+@-]*\z`)

const tagRule = `use letters, digits, spaces and "_.:/=+-@"`

func (o *Options) checkTags() error {
	tags := o.Tags
	if len(tags) > maxUserTags {
		return invalid("Tags", strconv.Itoa(len(tags)), fmt.Sprintf("a stack has room for %d tags besides those of the project: leave some out", maxUserTags))
	}
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		switch value := tags[key]; {
		case key == "" || utf8.RuneCountInString(key) > maxTagKeyChars:
			return invalid("Tags", key, fmt.Sprintf("give each tag a key of 1 to %d characters", maxTagKeyChars))
		case strings.HasPrefix(strings.ToLower(key), "aws:"):
			return invalid("Tags", key, "AWS reserves keys that begin with aws: choose another key")
		case utf8.RuneCountInString(value) > maxTagValueChars:
			return invalid("Tags", key, fmt.Sprintf("its value has more than %d characters: shorten it", maxTagValueChars))
		case !tagText().MatchString(key):
			return invalid("Tags", key, tagRule)
		case !tagText().MatchString(value):
			return invalid("Tags", key, fmt.Sprintf("its value is %q: %s", value, tagRule))
		}
	}
	return nil
}

func invalid(field, value, reason string) error {
	return &store.ValidationError{Field: field, Value: value, Reason: reason}
}
