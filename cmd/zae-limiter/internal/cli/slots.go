package cli

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
)

type slotsOptions struct{ bucketArgs }

func newSlots(a *app.App) *cobra.Command {
	o := &slotsOptions{bucketArgs{app: a}}
	return a.Prints(a.Command(o, &cobra.Command{
		Use:   "slots ENTITY RESOURCE",
		Short: "Show which processes hold the slots of an entity",
		Long: "Show which processes hold the slots of an entity for a resource, and those of its parent if\n" +
			"it cascades: how many each has for its requests and keeps for the next ones, how many its\n" +
			"callers wait for, when it last wrote that it is alive, and how long it may hold them without\n" +
			"writing again. GONE is a process that did not: whoever next wants slots takes them back.\n" +
			"The command takes nothing.",
		Example: "  zae-limiter slots key-1 gpt-4\n" +
			"  zae-limiter slots key-1 gpt-4 --output json",
	}, &o.entity, &o.resource), slotsView{})
}

// slotsView is the result in JSON.
type slotsView struct {
	Entity   string     `json:"entity_id"`
	Resource string     `json:"resource"`
	Slots    []slotView `json:"slots"`          // the limits of the entity, and then those of its parent
	Note     string     `json:"note,omitempty"` // why there are none
}

// slotView is a [limiter.SlotUse] in JSON.
type slotView struct {
	Entity   string        `json:"entity_id"`
	Resource string        `json:"resource"`
	Limit    string        `json:"limit_name"`
	Slots    *int64        `json:"slots"` // how many there are; null if no level says so, and requests bring them
	Level    limiter.Level `json:"level"`
	Held     int64         `json:"held"`    // slots of all holders
	Waiting  int64         `json:"waiting"` // slots that their callers wait for
	Used     float64       `json:"used"`    // share that is held, 1 for all
	Holders  []holderView  `json:"holders"` // processes, those that hold most first
}

// holderView is a [limiter.SlotHolder] in JSON.
type holderView struct {
	Process   string    `json:"process"`             // name that a process gives to itself, or of a lease
	IsLease   bool      `json:"is_lease,omitempty"`  // it is a lease that was written down: nobody renews it
	Held      int64     `json:"held"`                // slots that it has for requests, and keeps for the next ones
	Waiting   int64     `json:"waiting"`             // slots that its callers wait for
	RenewedAt time.Time `json:"renewed_at,omitzero"` // when the process last wrote that it is alive
	LeaseEnd  time.Time `json:"lease_end_at"`        // how long it may hold the slots without writing again
	Gone      bool      `json:"gone"`                // it did not, and whoever next wants slots takes them back
}

func slotViews(uses []limiter.SlotUse) []slotView {
	views := make([]slotView, len(uses))
	for i := range uses {
		u := &uses[i]
		v := slotView{
			Entity: u.Entity, Resource: u.Resource, Limit: u.Limit.Name, Level: u.Level, Held: u.Held, Waiting: u.Waiting, Used: u.Used,
			Holders: make([]holderView, len(u.Holders)),
		}
		if u.Limit.Slots > 0 {
			v.Slots = &u.Limit.Slots
		}
		for j, h := range u.Holders {
			v.Holders[j] = holderView{h.Process, h.IsLease, h.Held, h.Waiting, h.RenewedAt.UTC(), h.LeaseEnd.UTC(), h.Gone}
		}
		views[i] = v
	}
	return views
}

// Run shows the holders.
func (o *slotsOptions) Run(ctx context.Context) error {
	l, err := o.app.OpenLimiter(ctx)
	if err != nil {
		return err
	}
	s, err := l.Standing(ctx, o.entity, o.resource)
	if err = errors.Join(err, l.Close()); err != nil {
		return err
	}
	var uses []limiter.SlotUse
	for side := s; side != nil; side = side.Parent {
		uses = append(uses, side.Slots...)
	}
	v := slotsView{Entity: o.entity, Resource: o.resource, Slots: slotViews(uses)}
	v.Note = o.app.Explain(len(uses) == 0, "no level has slots of %s for %s: set some with zae-limiter resource set-slots", o.resource, o.entity)
	return o.app.Print(v, func(w *strings.Builder) { printHolders(w, uses, o.app.Clock()) })
}

// printHolders writes a row for each holder, and one for a limit of which nobody holds any.
func printHolders(w *strings.Builder, uses []limiter.SlotUse, now time.Time) {
	var rows [][]string
	for i := range uses {
		u := &uses[i]
		begin := []string{u.Entity, u.Limit.Name, heldOf(u)}
		if len(u.Holders) == 0 {
			rows = append(rows, append(begin, "", "", "", "", ""))
		}
		for _, h := range u.Holders {
			end := "GONE"
			if !h.Gone {
				end = seconds(h.LeaseEnd.Sub(now))
			}
			renewed := "a lease"
			if !h.IsLease {
				renewed = seconds(now.Sub(h.RenewedAt)) + " ago"
			}
			rows = append(rows, append(slices.Clip(begin), h.Process, limitarg.Grouped(h.Held), limitarg.Grouped(h.Waiting), renewed, end))
		}
	}
	app.Table(w, []string{"ENTITY", "LIMIT", "HELD", "PROCESS", "ITS SLOTS", "WAITS FOR", "RENEWED", "LEASE ENDS IN"}, rows)
}

// heldOf is how many slots of how many are held.
func heldOf(u *limiter.SlotUse) string {
	if u.Limit.Slots == 0 {
		return limitarg.Grouped(u.Held)
	}
	return limitarg.Grouped(u.Held) + " of " + limitarg.Grouped(u.Limit.Slots)
}

// seconds is a duration for people, of clocks that may differ by some seconds.
func seconds(d time.Duration) string { return d.Round(time.Second).String() }

// slotHeader has the names of the columns of [slotRows].
func slotHeader() []string {
	return []string{"ENTITY", "RESOURCE", "SLOTS", "HELD", "USED", "WAITED FOR", "HOLDERS"}
}

// slotRows has a row for each limit of slots.
func slotRows(uses []limiter.SlotUse) [][]string {
	rows := make([][]string, len(uses))
	for i := range uses {
		u := &uses[i]
		used := ""
		if u.Limit.Slots > 0 {
			used = share(u.Used)
		}
		rows[i] = []string{u.Entity, u.Resource, u.Limit.Name, heldOf(u), used, limitarg.Grouped(u.Waiting), strconv.Itoa(len(u.Holders))}
	}
	return rows
}
