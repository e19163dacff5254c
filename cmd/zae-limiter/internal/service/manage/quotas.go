package manage

import (
	"fmt"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// quotaNotes say what an edit does to the period that is under way, quota by quota.
func quotaNotes(before, after []store.Limit, now time.Time) (notes []string) {
	for _, l := range after {
		i := slices.IndexFunc(before, func(b store.Limit) bool { return b.Name == l.Name })
		switch {
		case i < 0 && l.Renews != nil && l.Renews.Session() != 0:
			notes = append(notes, l.Name+" begins with its first use")
		case i < 0 && l.Renews != nil:
			notes = append(notes, l.Name+" begins with its period that is under way")
		case i >= 0:
			notes = append(notes, quotaNote(&before[i], &l, now)...)
		}
	}
	return notes
}

// amountOf is what a quota has in force at an instant, in tokens.
func amountOf(l *store.Limit, now time.Time) int64 {
	return plan.InForce(l.Params(), now.UnixMilli()).Capacity / store.Milli
}

// quotaNote says what an edit does to one quota.
func quotaNote(before, after *store.Limit, now time.Time) (notes []string) {
	switch {
	case before.Renews == nil && after.Renews == nil:
		return nil
	case before.Renews == nil:
		return []string{after.Name + " keeps its balances until its period ends"}
	case after.Renews == nil:
		return []string{after.Name + " keeps its balances, and earns from now on"}
	}
	switch more := amountOf(after, now) - amountOf(before, now); {
	case more > 0:
		notes = append(notes, fmt.Sprintf("%s gets the difference, %s, for the period that is under way", after.Name, limitarg.Grouped(more)))
	case more < 0:
		notes = append(notes, fmt.Sprintf("%s loses the difference, %s, in the period that is under way", after.Name, limitarg.Grouped(-more)))
	}
	if before.Carries != after.Carries {
		notes = append(notes, after.Name+" keeps its balances, and carries otherwise from the end of its period on")
	}
	switch {
	case before.Renews == after.Renews:
	case before.Renews.Session() != 0 && after.Renews.Session() != 0:
		notes = append(notes, after.Name+" keeps its balances, and a session that is under way ends as long after its begin as the new length says")
	case after.Renews.Session() != 0:
		notes = append(notes, after.Name+" keeps its balances for a session that begins with the edit")
	default:
		notes = append(notes, after.Name+" keeps its balances until its new period ends")
	}
	return notes
}
