package plan

import (
	"maps"
	"slices"

	"github.com/zeroae/zae-limiter-go/store"
)

// A Want is what a request asks of one bucket: the entity's, or its parent's. It is
// immutable.
type Want struct {
	Asked []store.Amount // by limit name
	// Fallback are the limits that hold where no level configures any, by name; none
	// for a parent.
	Fallback []store.Limit
	// Optional says that a bucket without limits does not refuse the request: a
	// parent's.
	Optional bool
}

// Terms are a want under the configuration of its bucket. They are immutable: other
// configuration makes other terms.
type Terms struct {
	// Configured is what was last read of the bucket's configuration, and Target is
	// what the bucket is to be for this want; nil if nothing is known yet.
	Configured, Target *Wanted
	// Amounts are the asked amounts of the limits that the bucket is to have. If those
	// limits are not known yet, they are all that were asked.
	Amounts []store.Amount
	Unknown []string // limits that the bucket is not to have
	// AsIs is the image that is used as it is, because nobody could find out whether it is
	// as configured; otherwise nil.
	AsIs *store.Image
}

// Under returns the terms of a want under a configuration, nil if none is known. The
// bucket is to be as configured, or has the fallback limits where no level configures
// any. The amounts leave out the limits that the bucket is not to have.
func (w *Want) Under(configured *Wanted) Terms {
	t := Terms{Configured: configured, Target: configured, Amounts: w.Asked}
	if configured == nil || !configured.IsEvaluable() {
		return t
	}
	if configured.IsUnlimited() && len(w.Fallback) > 0 {
		fallback := *configured
		fallback.Limits = w.Fallback
		t.Target = &fallback
	}
	if !slices.ContainsFunc(w.Asked, func(a store.Amount) bool { return !t.Target.Has(a.Limit) }) {
		return t
	}
	t.Amounts = nil
	for _, a := range w.Asked {
		if t.Target.Has(a.Limit) {
			t.Amounts = append(t.Amounts, a)
		} else {
			t.Unknown = append(t.Unknown, a.Limit)
		}
	}
	return t
}

// OnItem returns the terms of a want on an item that is used as it is, because the
// configuration could not be read. It is not ok if the want names a limit that the item
// lacks but the remembered target has.
func (w *Want) OnItem(img *store.Image, last *Terms) (t Terms, ok bool) {
	t = Terms{Configured: last.Configured, Target: last.Target, AsIs: img}
	for _, a := range w.Asked {
		switch _, has := img.Limit(a.Limit); {
		case has:
			t.Amounts = append(t.Amounts, a)
		case last.Target.Has(a.Limit):
			return Terms{}, false
		default:
			t.Unknown = append(t.Unknown, a.Limit)
		}
	}
	return t, true
}

// AskEach makes terms ask for one token of every limit that the shards of a bucket have, or
// are to have. If a level configures limits, the bucket is to have only those. A bucket
// that uses a feature which this version cannot evaluate keeps its own. A nil shard is
// missing.
func (t *Terms) AskEach(shards []*store.Image) {
	names := map[string]bool{}
	isForeign := !t.Target.IsEvaluable()
	for _, img := range shards {
		isForeign = isForeign || img != nil && !img.IsEvaluable()
	}
	if !isForeign {
		for i := range t.Target.Limits {
			names[t.Target.Limits[i].Name] = true
		}
	}
	if isForeign || !t.Target.IsWhole() {
		for _, img := range shards {
			if img == nil {
				continue
			}
			for i := range img.Limits {
				names[img.Limits[i].Name] = true
			}
		}
	}
	t.Amounts = nil
	for _, name := range slices.Sorted(maps.Keys(names)) {
		t.Amounts = append(t.Amounts, store.Amount{Limit: name, Milli: store.Milli})
	}
}

// TakesNothing reports whether a want is known to take nothing. That is so if the
// bucket is to have none of its limits. It is also so if the bucket is not to have one
// of them and no parent exists that could have it.
func (w *Want) TakesNothing(t *Terms) bool {
	return len(t.Unknown) > 0 && (len(t.Amounts) == 0 || !w.Optional && PayerOf(&t.Configured.Owner) == "")
}

// Fits reports whether an item as it is can serve the terms at an instant: they take something,
// and nothing needs a repair first.
func (t *Terms) Fits(img *store.Image, now int64) bool {
	return t.Target != nil && len(t.Amounts) > 0 && !t.Target.Differs(img, now) && !Lacks(img, t.Amounts) && !IsWide(img)
}

// Lacks reports whether amounts name a limit that an item does not have.
func Lacks(img *store.Image, amounts []store.Amount) bool {
	return slices.ContainsFunc(amounts, func(a store.Amount) bool {
		_, ok := img.Limit(a.Limit)
		return !ok
	})
}

// isElsewhere reports whether the amounts have a credit that does not return to an item's balance
// of a limit: it was debited of no balance or, of a quota, in another period or calendar.
func isElsewhere(amounts []store.Amount, img *store.Image, s *store.LimitState) bool {
	return isCounted(amounts, s.Name) || s.Told().Opened != 0 || s.Renewal != nil && slices.ContainsFunc(amounts, func(a store.Amount) bool {
		return a.Limit == s.Name && a.Milli < 0 && a.Until != endOf(img, s)
	})
}

// AmountOf is what amounts have of a limit, 0 if they do not name it.
func AmountOf(amounts []store.Amount, limit string) int64 {
	for _, a := range amounts {
		if a.Limit == limit {
			return a.Milli
		}
	}
	return 0
}
