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
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
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
	}, &o.entity, &o.resource), manage.Slots{})
}

// Run shows the holders.
func (o *slotsOptions) Run(ctx context.Context) error {
	l, err := o.app.OpenLimiter(ctx)
	if err != nil {
		return err
	}
	v, err := manage.GetSlots(ctx, l, o.entity, o.resource)
	if err = errors.Join(err, l.Close()); err != nil {
		return err
	}
	o.app.Remark(v.Note)
	return o.app.Print(v, func(w *strings.Builder) { printHolders(w, v.Uses(), o.app.Clock()) })
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
