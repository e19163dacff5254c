package manage

import (
	"fmt"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// editNotes say what an edit does to limits: first to quotas, then to limits that follow a
// schedule, are soft, or return what lost processes took.
func editNotes(before, after []store.Limit, now time.Time) []string {
	notes := quotaNotes(before, after, now)
	for i := range after {
		is := &after[i]
		var was *store.Limit
		if at := slices.IndexFunc(before, func(b store.Limit) bool { return b.Name == is.Name }); at >= 0 {
			was = &before[at]
		}
		for _, note := range []string{scheduleNote(was, is, now), softNote(was, is), returnsNote(was, is)} {
			if note != "" {
				notes = append(notes, note)
			}
		}
	}
	return notes
}

// scheduleNote says what is in force of a limit before an edit and after it, and until when, if
// the limit follows a schedule before or after. was is nil if the edit adds the limit. quotaNote
// says how much a quota gets or loses.
func scheduleNote(was, is *store.Limit, now time.Time) string {
	wasRate := was != nil && was.Renews == nil
	switch {
	case is.Renews != nil && is.Varies != nil && (was == nil || was.Params() != is.Params()):
		return untilNext(is, is.Name+" has "+limitarg.Grouped(amountOf(is, now))+" in force", now)
	case is.Renews != nil, is.Varies == nil && (!wasRate || was.Varies == nil), wasRate && was.Params() == is.Params():
		return ""
	}
	note := is.Name + " begins with " + inForce(is, now)
	if wasRate {
		note = is.Name + " stays " + inForce(is, now)
		if old := inForce(was, now); old != inForce(is, now) {
			note = is.Name + " is " + old + " now and becomes " + inForce(is, now)
		}
	}
	return untilNext(is, note, now)
}

// untilNext says of what is in force of a limit until when.
func untilNext(is *store.Limit, note string, now time.Time) string {
	if is.Varies == nil {
		return note + ", at all times"
	}
	if next, ok := is.Varies.NextChange(now.UnixMilli()); ok {
		return note + ", until " + time.UnixMilli(next).UTC().Format(time.RFC3339)
	}
	return note + ", for years"
}

// inForce is the rate of a limit at an instant, for people.
func inForce(l *store.Limit, now time.Time) string {
	p := plan.InForce(l.Params(), now.UnixMilli())
	return limitarg.Rate(store.Limit{
		Capacity: max(1, p.Capacity/store.Milli), Amount: p.Amount / store.Milli, Period: time.Duration(p.Period) * time.Millisecond,
	})
}

// modeNote says what an edit of a mode does.
func modeNote(was, is *store.Limit) string {
	note := is.Name + " is in mode " + is.ModeText() + ", and was in " + was.ModeText()
	switch {
	case is.Percent != 0:
		note += ": the other entities are enforced"
	case is.Mode != store.Enforce:
		return note + ": it refuses nobody"
	}
	return note + "; whoever is enforced from now on begins with its balance, and without a debt"
}

// returnsNote says what an edit does to what goes back of lost processes; "" if nothing.
func returnsNote(was, is *store.Limit) string {
	if was == nil || was.Returns == is.Returns {
		return ""
	}
	return fmt.Sprintf("%s returns %d%% of what lost processes take from now on, and returned %d%%", is.Name, is.Returns, was.Returns)
}

// softNote says what an edit does that makes a limit soft or hard.
func softNote(was, is *store.Limit) string {
	switch {
	case was != nil && (was.Mode != is.Mode || was.Percent != is.Percent):
		return modeNote(was, is)
	case was == nil || was.Soft == is.Soft:
		return ""
	case is.Soft:
		return is.Name + " becomes soft: it refuses nobody"
	case is.Renews == nil || is.Carries.Debt:
		return is.Name + " becomes hard: in debt, it refuses until that is paid"
	}
	return is.Name + " becomes hard: in debt, it refuses until its period ends"
}
