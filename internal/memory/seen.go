package memory

import (
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Seen is an image, and when it was seen.
type Seen struct {
	Image *store.Image
	At    Moment
}

// LastSeen returns the last image of each shard, however old, and the parent to which the bucket
// cascades. There is none of a bucket that was never seen, or that was found gone.
func (a *Account) LastSeen() (seen []Seen, parent string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	newest, _ := a.newestLocked()
	if newest == nil {
		return nil, ""
	}
	for i := range max(1, a.count) {
		if s := a.knownLocked(i); s != nil && s.img != nil {
			seen = append(seen, Seen{s.img, s.seen})
		}
	}
	return seen, plan.CascadeOf(newest)
}

// WasShared reports whether other processes wrote to the bucket when this one saw it last.
func (a *Account) WasShared() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, at := a.newestLocked()
	return a.isSharedLocked(at)
}

// WasDisabled is what was known last of whether an item is disabled, however long ago that was.
func (a *Account) WasDisabled(now int64) store.Disabling {
	a.mu.Lock()
	defer a.mu.Unlock()
	img, at := a.newestLocked()
	if img != nil && img.Disabled && (img.MarkedUntil == 0 || img.MarkedUntil > now) {
		return store.Disabling{Disabled: true, Until: img.MarkedUntil, Level: store.SwitchLevels}
	}
	if a.rare == nil || a.rare.disabled == nil {
		return store.Disabling{}
	}
	d := a.rare.disabled
	if img != nil && d.at < at || d.until != 0 && d.until <= now {
		return store.Disabling{}
	}
	return store.Disabling{Disabled: true, Until: d.until, Level: store.SwitchLevels}
}
