package manifest

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/store"
)

// Policies are what operators decide at a level beside its limits: the system's has slots only. Of
// an entity's record, Cascade is whether it cascades.
//
// A manifest removes a policy only if it has set it, and the policy still is as it was set: an
// operator who has blocked a key meanwhile is not undone by an edit of a file. So a digest ends
// with the policies that were set, also while their removal is pending:
//
//	limits+on_unavailable%inflight:20^no!yes@1767225600000    ?!yes@1767225600000
type Policies struct {
	// Slots are the level's limits of slots, as [limitarg.FormatSlots] writes them; "" for none.
	Slots string
	// Disabled is the level's switch. Once it has ended, it declares nothing.
	Disabled store.Switch
	Cascade  store.Policy
}

// The marks of the policies in a digest: of slots, of whether the level cascades, and of its switch.
const (
	slotsMark   = "%"
	cascadeMark = "^"
	switchMark  = "!"
)

// policiesOf are the policies that the table holds.
func policiesOf(c *store.Config) Policies {
	return Policies{limitarg.FormatSlots(c.Slots), c.Disabled, c.Cascade}
}

// SlotNumbers are the declared numbers of slots by limit, nil if there are none.
func (p Policies) SlotNumbers() map[string]int64 { return limitarg.SlotNumbers(p.slotLimits()) }

// slotLimits are the declared limits of slots, by name.
func (p Policies) slotLimits() []store.SlotLimit {
	var limits limitarg.Slots
	if p.Slots != "" {
		_ = limits.Set(p.Slots) // it was written by FormatSlots
	}
	return limits
}

// at is what the policies declare at an instant: a switch that has ended is none.
func (p Policies) at(now time.Time) Policies {
	if p.Disabled.At(now.UnixMilli()) == store.Inherit {
		p.Disabled = store.Switch{}
	}
	return p
}

// hold reports whether found has the policies that p declares.
func (p Policies) hold(found Policies) bool {
	return (p.Slots == "" || p.Slots == found.Slots) && (p.Disabled.Policy == store.Inherit || p.Disabled == found.Disabled) && (p.Cascade == store.Inherit || p.Cascade == found.Cascade)
}

// Any reports whether there is a policy.
func (p Policies) Any() bool { return p != Policies{} }

// isEmptyAt reports whether a level declares nothing at an instant.
func (l Level) isEmptyAt(now time.Time) bool {
	return !l.setsLimits() && l.Parent == nil && !l.at(now).Any()
}

// bypass is the value of disabled for a bypass.
const bypass = "bypass"

// Switch is the declared switch as a file has it: true to disable, false to enable, "bypass",
// or nil if none is declared; and the end, "" for never.
func (p Policies) Switch() (disabled any, until string) {
	switch p.Disabled.Policy {
	case store.Yes, store.No:
		disabled = p.Disabled.Policy == store.Yes
	case store.Bypass:
		disabled = bypass
	case store.Inherit:
	}
	if p.Disabled.Until != 0 {
		until = time.UnixMilli(p.Disabled.Until).UTC().Format(time.RFC3339Nano)
	}
	return disabled, until
}

// BoolOf is a policy as a file has it, nil if there is none.
func BoolOf(p store.Policy) *bool {
	if p == store.Inherit {
		return nil
	}
	is := p == store.Yes
	return &is
}

// setsLimits reports whether a level declares more than policies.
func (l Level) setsLimits() bool { return len(l.Limits) > 0 || l.OnUnavailable != "" }

// policyWords are policies in a digest.
var policyWords = map[store.Policy]string{store.Yes: "yes", store.No: "no", store.Bypass: bypass}

func policyOf(word string) store.Policy {
	for p, w := range policyWords {
		if w == word {
			return p
		}
	}
	return store.Inherit
}

// digest is the end of a digest.
func (p Policies) digest() (d string) {
	if p.Slots != "" {
		d = slotsMark + p.Slots
	}
	if p.Cascade != store.Inherit {
		d += cascadeMark + policyWords[p.Cascade]
	}
	if p.Disabled.Policy != store.Inherit {
		d += switchMark + policyWords[p.Disabled.Policy] + "@" + strconv.FormatInt(p.Disabled.Until, 10)
	}
	return d
}

// cutPolicies separates a digest from the policies at its end.
func cutPolicies(digest string) (rest string, p Policies) {
	rest, text, _ := strings.Cut(digest, switchMark)
	policy, until, _ := strings.Cut(text, "@")
	p.Disabled.Policy = policyOf(policy)
	p.Disabled.Until, _ = strconv.ParseInt(until, 10, 64)
	rest, text, _ = strings.Cut(rest, cascadeMark)
	p.Cascade = policyOf(text)
	rest, p.Slots, _ = strings.Cut(rest, slotsMark)
	return rest, p
}

// cleared are the policies that the manifest has set on a level, and declares no longer.
func (c *Change) cleared(digest string) (clears Policies) {
	if c.Before == nil {
		return clears
	}
	rest, was := cutPolicies(digest)
	found, half := policiesOf(c.Before), rest == pending
	var declared Policies
	if c.After != nil {
		declared = c.After.Policies
	}
	if declared.Disabled.Policy == store.Inherit && (found.Disabled == was.Disabled || half && found.Disabled.Policy == store.Inherit) {
		clears.Disabled = was.Disabled
	}
	if declared.Slots == "" && (found.Slots == was.Slots || half && found.Slots == "") {
		clears.Slots = was.Slots
	}
	if declared.Cascade == store.Inherit && (found.Cascade == was.Cascade || half && found.Cascade == store.Inherit) {
		clears.Cascade = was.Cascade
	}
	return clears
}

// switchToSet is the switch that an apply sets on the level, if any.
func (c *Change) switchToSet(now time.Time) (to dynamo.Switch, ok bool) {
	if c.Clears.Disabled.Policy != store.Inherit {
		return dynamo.Switch{}, true
	}
	if c.After == nil {
		return to, false
	}
	s := c.After.at(now).Disabled
	if s.Policy == store.Inherit || c.Before != nil && c.Before.Disabled == s && !c.resumes {
		return to, false
	}
	to.Policy = s.Policy
	if s.Until != 0 {
		to.Until = time.UnixMilli(s.Until)
	}
	return to, true
}

// cascadeToSet is the cascade policy that an apply sets on the level, if any.
func (c *Change) cascadeToSet() (to dynamo.Cascade, ok bool) {
	if c.Clears.Cascade != store.Inherit {
		return dynamo.Cascade{}, true
	}
	if c.After == nil || c.After.Cascade == store.Inherit || c.Before != nil && c.Before.Cascade == c.After.Cascade && !c.resumes {
		return to, false
	}
	return dynamo.Cascade{Policy: c.After.Cascade}, true
}

// slotsToSet are the slots that an apply sets on the level, if any; none removes them.
func (c *Change) slotsToSet() (to []store.SlotLimit, ok bool) {
	if c.Clears.Slots != "" {
		return nil, true
	}
	if c.After == nil || c.After.Slots == "" || c.Before != nil && policiesOf(c.Before).Slots == c.After.Slots && !c.resumes {
		return nil, false
	}
	return c.After.slotLimits(), true
}

// setPolicies sets the policies of a batch whose other changes succeeded, several at once.
func (a *applier) setPolicies(ctx context.Context, batch []*Outcome, errs []error) {
	var jobs []job
	for i, o := range batch {
		disabled, switches := o.switchToSet(a.manager.store.Now())
		cascade, cascades := o.cascadeToSet()
		slots, holds := o.slotsToSet()
		if errs[i] != nil || !switches && !cascades && !holds {
			continue
		}
		disabled.Reason, cascade.Reason = a.reason(), a.reason()
		jobs = append(jobs, job{&errs[i], func(ctx context.Context, renew func(dynamo.Switched)) (err error) {
			if switches {
				_, err = a.manager.store.SetSwitch(ctx, o.Key, disabled, renew)
			}
			if err == nil && cascades {
				_, err = a.manager.store.SetCascade(ctx, o.Key, cascade, renew)
			}
			if err == nil && holds {
				err = a.manager.store.SetSlots(ctx, o.Key, slots, a.reason())
			}
			return err
		}})
	}
	a.sideBySide(ctx, jobs)
}

// reason is that of the audit events of policies and moves.
func (a *applier) reason() string { return "manifest " + a.name }
