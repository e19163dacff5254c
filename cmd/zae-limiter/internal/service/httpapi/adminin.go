package httpapi

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
	"github.com/zeroae/zae-limiter-go/store"
)

func invalid[V any](field string, value V, reason string) error {
	return &store.ValidationError{Field: field, Value: fmt.Sprint(value), Reason: reason}
}

// A leveled body names a level of configuration.
type leveled interface {
	key() (store.ConfigKey, error)
}

// An ofEntity names the level of an entity.
type ofEntity struct {
	Entity string `json:"entity_id"`
	// Resource is the one concerned; without it, every resource for which the entity has nothing else.
	Resource string `json:"resource,omitempty"`
}

func (l ofEntity) key() (k store.ConfigKey, err error) {
	k = store.ConfigKey{Entity: l.Entity, Resource: l.Resource}
	if k.Resource == "" {
		k.Resource = store.DefaultResource
	}
	if err = store.CheckEntity(k.Entity); err == nil {
		err = store.CheckConfigResource(k.Resource)
	}
	return k, err
}

// An ofResource names the level of a resource.
type ofResource struct {
	Resource string `json:"resource"`
}

func (l ofResource) key() (store.ConfigKey, error) {
	return store.ConfigKey{Resource: l.Resource}, store.CheckResource(l.Resource)
}

// An ofSystem names the level of the system.
type ofSystem struct{}

func (ofSystem) key() (store.ConfigKey, error) { return store.ConfigKey{}, nil }

// at is a body about a level.
type at[L leveled, B any] struct {
	Level L `json:",embed"`
	More  B `json:",embed"`
}

type nothing struct{}

// dry is a change that need not be made.
type dry struct {
	// DryRun asks what would change, and changes nothing.
	DryRun bool `json:"dry_run,omitempty"`
}

// why is a change with a reason.
type why struct {
	// Reason is for the audit event, up to 256 characters.
	Reason string `json:"reason,omitempty"`
}

type limitsToSet struct {
	// Limits replace those of the level.
	Limits []manage.LimitToSet `json:"limits"`
	// Keep also sets the limits of the next level that Limits does not name.
	Keep bool `json:"keep_defaults,omitempty"`
	dry
}

type systemToSet struct {
	// Limits replace those of the system; without any, they stay as they are.
	Limits        []manage.LimitToSet `json:"limits,omitempty"`
	OnUnavailable store.OnUnavailable `json:"on_unavailable,omitempty"`
	dry
}

type switchToSet struct {
	// Until is when that ends by itself: an instant, a date or a weekday in UTC, or a time from now like 2h or
	// 3d. Without it, that does not end.
	Until string `json:"until,omitempty"`
	why
	dry
}

type switchToClear struct {
	why
	dry
}

// end is when a change ends; zero if it does not.
func end(until string, now time.Time) (time.Time, error) {
	if until == "" {
		return time.Time{}, nil
	}
	return manage.ParseUntil(until, now)
}

type raiseToMake struct {
	// Factors multiply limits, by their names.
	Factors map[string]float64 `json:"factors"`
	// Until is when that ends by itself: an instant, a date or a weekday in UTC, or a time from now like 2h or 3d.
	Until string `json:"until"`
	why
}

// raise is the raise that a body asks for.
func (in *raiseToMake) raise(now time.Time, cause dynamo.Cause) (r dynamo.Raise, err error) {
	const thousand, most = 1000, 1e6
	r = dynamo.Raise{Cause: cause, Limits: map[string]int64{}}
	for name, factor := range in.Factors {
		permille := math.RoundToEven(min(factor, most) * thousand)
		if factor > most || permille < 1 {
			return r, invalid("factors."+name, factor, "give a factor from 0.001 to 1000000")
		}
		r.Limits[name] = int64(permille)
	}
	if len(r.Limits) == 0 {
		return r, invalid("factors", "", `give at least one, {"rpm":2} for instance`)
	}
	if in.Until == "" {
		return r, invalid("until", "", "give when the raise ends, 2h for instance")
	}
	r.Until, err = manage.ParseUntil(in.Until, now)
	return r, err
}

type cascadeToSet struct {
	// Policy is on or off, whatever later levels say, or clear, which leaves it to them.
	Policy string `json:"policy"`
	why
	dry
}

type slotsToSet struct {
	// Slots are how many requests run at a time, by the names of the limits; {} removes them.
	Slots map[string]int64 `json:"slots"`
	why
}

// limits are the slots in the order of their names.
func (in *slotsToSet) limits() ([]store.SlotLimit, error) {
	if in.Slots == nil {
		return nil, invalid("slots", "", `give numbers by name, {"inflight":20} for instance, or {} to remove them`)
	}
	limits := make([]store.SlotLimit, 0, len(in.Slots))
	for name, n := range in.Slots {
		limits = append(limits, store.SlotLimit{Name: name, Slots: n})
	}
	slices.SortFunc(limits, func(a, b store.SlotLimit) int { return strings.Compare(a.Name, b.Name) })
	return limits, nil
}

type entityNamed struct {
	Entity string `json:"entity_id"`
}

type entityToMake struct {
	Entity string `json:"entity_id"`
	// Name is the name for people; without it, the ID.
	Name   string `json:"name,omitempty"`
	Parent string `json:"parent_id,omitempty"`
	// Cascade says that an acquire takes from the parent, too.
	Cascade bool `json:"cascade,omitempty"`
	// Metadata is kept with the entity.
	Metadata map[string]string `json:"metadata,omitempty"`
}

type entityToMove struct {
	Entity string `json:"entity_id"`
	Parent string `json:"parent_id,omitempty"`
	// None leaves the entity without a parent.
	None bool `json:"none,omitempty"`
	why
	dry
}

type entitiesToList struct {
	// Max is the largest number of entities, 100 if it is missing.
	Max int `json:"max,omitempty"`
	// Prefix selects entities whose IDs begin with it.
	Prefix string `json:"prefix,omitempty"`
	// Cursor continues after a page.
	Cursor string `json:"cursor,omitempty"`
}

type bucketNamed struct {
	Entity   string `json:"entity_id"`
	Resource string `json:"resource"`
}

// level is the entity's own level for the resource.
func (in *bucketNamed) level() store.ConfigKey {
	return store.ConfigKey{Entity: in.Entity, Resource: in.Resource}
}

func (in *bucketNamed) check() error {
	if err := store.CheckEntity(in.Entity); err != nil {
		return err
	}
	return store.CheckResource(in.Resource)
}

type bucketToReset struct {
	bucketNamed
	// Limits are the names of the limits to fill; without any, all.
	Limits []string `json:"limit_names,omitempty"`
	why
	dry
}

type bucketToTopUp struct {
	bucketNamed
	// Amounts are the tokens to add to each limit, by name.
	Amounts map[string]int64 `json:"amounts"`
	why
	dry
}

type topToShow struct {
	Resource string `json:"resource,omitempty"`
	// All looks at every resource of the namespace, in place of one.
	All bool `json:"all_resources,omitempty"`
	// Max is the largest number of limits, 10 if it is missing.
	Max int `json:"max,omitempty"`
	// Above leaves out limits of which a smaller percentage is used.
	Above float64 `json:"above,omitempty"`
	// WithoutParent leaves out entities that have a parent.
	WithoutParent bool `json:"without_parent,omitempty"`
	// Slots asks for slots that are held, and not for limits.
	Slots bool `json:"slots,omitempty"`
	// Shadow asks for limits in shadow that would have refused requests.
	Shadow bool `json:"shadow,omitempty"`
}

type usageToSum struct {
	Entity   string `json:"entity_id,omitempty"`
	Resource string `json:"resource,omitempty"`
	// Window is hourly, which is the default, daily or monthly.
	Window string `json:"window,omitempty"`
	// Start is the first time that a window may start: an instant, or a date in UTC.
	Start string `json:"start,omitempty"`
	// End is the last time that a window may start; of a date, the whole day.
	End string `json:"end,omitempty"`
	// Now counts the last second too, with reads that cost twice as much.
	Now bool `json:"now,omitempty"`
}

// query is the query that a body asks for.
func (in *usageToSum) query() (q usage.Query, err error) {
	q = usage.Query{Entity: in.Entity, Resource: in.Resource, Now: in.Now}
	if in.Entity == "" && in.Resource == "" {
		return q, invalid("entity_id", "", "give entity_id, resource or both")
	}
	if in.Entity != "" {
		if err := store.CheckEntity(in.Entity); err != nil {
			return q, err
		}
	}
	if in.Resource != "" {
		if err := store.CheckResource(in.Resource); err != nil {
			return q, err
		}
	}
	if in.Window != "" {
		windows := []usage.Window{usage.Hourly, usage.Daily, usage.Monthly}
		i := slices.IndexFunc(windows, func(w usage.Window) bool { return w.String() == in.Window })
		if i < 0 {
			return q, invalid("window", in.Window, "give hourly, daily or monthly")
		}
		q.Window = windows[i]
	}
	q.From, q.To, err = manage.ParseRange(in.Start, in.End)
	return q, err
}

type usageToList struct {
	usageToSum
	// Max is the largest number of snapshots, 100 if it is missing.
	Max int `json:"max,omitempty"`
	// Cursor continues after a page.
	Cursor string `json:"cursor,omitempty"`
}

type eventsToList struct {
	Entity   string `json:"entity_id,omitempty"`
	Resource string `json:"resource,omitempty"`
	// System asks for changes of the default limits of all resources, and of the retention.
	System bool `json:"system,omitempty"`
	// Action selects events of one action.
	Action string `json:"action,omitempty"`
	// Max is the largest number of events, 100 if it is missing.
	Max int `json:"max,omitempty"`
	// Cursor continues after a page.
	Cursor string `json:"cursor,omitempty"`
}

// query is the query that a body asks for.
func (in *eventsToList) query() (q audit.Query, err error) {
	given := 0
	for _, is := range []bool{in.Entity != "", in.Resource != "", in.System} {
		if is {
			given++
		}
	}
	if given != 1 {
		return q, invalid("entity_id", in.Entity, "give one of entity_id, resource and system")
	}
	q = audit.Query{Entity: in.Entity, Action: in.Action, Cursor: in.Cursor}
	switch {
	case in.Entity != "":
		err = store.CheckEntity(in.Entity)
	case in.Resource != "":
		q.Entity, err = audit.Resource(in.Resource), store.CheckResource(in.Resource)
	default:
		q.Entity = audit.System
	}
	if err == nil {
		err = manage.CheckAction(in.Action)
	}
	if err == nil {
		q.Limit, err = upTo(in.Max, defaultPage, maxEvents)
	}
	return q, err
}

const (
	// defaultPage is how many entities, events and snapshots a page has by default, and defaultTop how many
	// limits.
	defaultPage = 100
	defaultTop  = 10
	// maxEvents is the largest number of events in a page.
	maxEvents = 10_000
)

// upTo is a number of things to list, which a caller may leave out.
func upTo(given, usual, most int) (int, error) {
	switch {
	case given == 0:
		return usual, nil
	case given < 1 || given > most:
		return 0, invalid("max", given, "give 1 to "+strconv.Itoa(most))
	}
	return given, nil
}

type manifestNamed struct {
	// Name is that of the manifest, default if it is missing.
	Name string `json:"manifest,omitempty"`
}

type manifestToPlan struct {
	// Manifest is the manifest as JSON.
	Manifest raw `json:"manifest"`
	// Prune deletes the levels that the manifest owns and no longer declares.
	Prune bool `json:"prune,omitempty"`
}
