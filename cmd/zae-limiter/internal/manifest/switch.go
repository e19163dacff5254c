package manifest

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/store"
)

// A manifest removes a switch only if it has set it, and the switch still is as it was set: an
// operator who has blocked a key meanwhile is not undone by an edit of a file. So a digest ends
// with the switch that was set, also while the removal is pending:
//
//	limits+on_unavailable!yes@1767225600000    ?!yes@1767225600000

// switchers is how many switches an apply sets at once.
const switchers = 8

// switchAt is the switch that a level declares at an instant; none if it has ended.
func (l Level) switchAt(now time.Time) store.Switch {
	if l.Disabled.At(now.UnixMilli()) == store.Inherit {
		return store.Switch{}
	}
	return l.Disabled
}

// isEmptyAt reports whether a level declares nothing at an instant.
func (l Level) isEmptyAt(now time.Time) bool {
	return !l.setsLimits() && l.switchAt(now).Policy == store.Inherit
}

// bypass is the value of disabled for a bypass.
const bypass = "bypass"

// Switch is the declared switch as a file has it: true to disable, false to enable, "bypass", or nil
// if none is declared; and the end, "" for never.
func (l Level) Switch() (disabled any, until string) {
	switch l.Disabled.Policy {
	case store.Yes, store.No:
		disabled = l.Disabled.Policy == store.Yes
	case store.Bypass:
		disabled = bypass
	case store.Inherit:
	}
	if l.Disabled.Until != 0 {
		until = time.UnixMilli(l.Disabled.Until).UTC().Format(time.RFC3339Nano)
	}
	return disabled, until
}

// setsLimits reports whether a level declares more than a switch.
func (l Level) setsLimits() bool { return len(l.Limits) > 0 || l.OnUnavailable != "" }

// switchDigest is a switch at the end of a digest.
func switchDigest(s store.Switch) string {
	switch s.Policy {
	case store.Yes:
		return "!yes@" + strconv.FormatInt(s.Until, 10)
	case store.No:
		return "!no@" + strconv.FormatInt(s.Until, 10)
	case store.Bypass:
		return "!bypass@" + strconv.FormatInt(s.Until, 10)
	case store.Inherit:
	}
	return ""
}

// cutSwitch separates a digest from the switch at its end.
func cutSwitch(digest string) (rest string, s store.Switch) {
	rest, text, _ := strings.Cut(digest, "!")
	policy, until, _ := strings.Cut(text, "@")
	s.Policy = map[string]store.Policy{"yes": store.Yes, "no": store.No, bypass: store.Bypass}[policy]
	s.Until, _ = strconv.ParseInt(until, 10, 64)
	return rest, s
}

// cleared is the switch that the manifest has set on a level, and declares no longer.
func (c *Change) cleared(digest string) store.Switch {
	rest, was := cutSwitch(digest)
	if c.Before == nil || c.After != nil && c.After.Disabled.Policy != store.Inherit {
		return store.Switch{}
	}
	if half := rest == pending && c.Before.Disabled.Policy == store.Inherit; c.Before.Disabled == was || half {
		return was
	}
	return store.Switch{}
}

// toSet is the switch that an apply sets on the level, if any.
func (c *Change) toSet(now time.Time) (to dynamo.Switch, ok bool) {
	if c.Clears.Policy != store.Inherit {
		return dynamo.Switch{}, true
	}
	if c.After == nil {
		return to, false
	}
	s := c.After.switchAt(now)
	if s.Policy == store.Inherit || c.Before != nil && c.Before.Disabled == s && !c.resumes {
		return to, false
	}
	to.Policy = s.Policy
	if s.Until != 0 {
		to.Until = time.UnixMilli(s.Until)
	}
	return to, true
}

// setSwitches sets the switches of a batch whose other changes succeeded, several at once. It
// ends early if the hold is lost.
func (a *applier) setSwitches(ctx context.Context, batch []*Outcome, errs []error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var held sync.Mutex
	renew := func(dynamo.Switched) {
		held.Lock()
		defer held.Unlock()
		if err := a.renew(ctx); err != nil {
			cancel(err)
		}
	}
	var work sync.WaitGroup
	places := make(chan struct{}, switchers)
	for i, o := range batch {
		to, ok := o.toSet(a.manager.store.Now())
		if !ok || errs[i] != nil {
			continue
		}
		to.Reason = "manifest " + a.name
		places <- struct{}{}
		renew(dynamo.Switched{})
		work.Go(func() {
			defer func() { <-places }()
			_, errs[i] = a.manager.store.SetSwitch(ctx, o.Key, to, renew)
			if lost := context.Cause(ctx); errs[i] != nil && lost != nil {
				errs[i] = errors.Join(lost, errs[i])
			}
		})
	}
	work.Wait()
}
