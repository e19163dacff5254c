package limitarg

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/zeroae/zae-limiter-go/store"
)

// Slots is the value of a flag of limits of slots: name:slots, separated by commas or in repeated
// flags.
type Slots []store.SlotLimit

// Set reads more limits. Their names must be new.
func (v *Slots) Set(s string) error {
	for part := range strings.SplitSeq(s, ",") {
		name, slots, ok := strings.Cut(part, ":")
		if !ok {
			return errors.New("write name:slots, several between commas: inflight:20 for instance")
		}
		if number, mode, has := strings.Cut(slots, ":"); has {
			return SlotsInMode(name+":"+number, mode)
		}
		n, err := number(slots)
		if err != nil {
			return fmt.Errorf("slots %q of %s: give a whole number from 1 to %d", slots, name, store.MaxSlots)
		}
		if slices.ContainsFunc(*v, func(before store.SlotLimit) bool { return before.Name == name }) {
			return fmt.Errorf("limit %s was given before: name each limit once", name)
		}
		l := store.SlotLimit{Name: name, Slots: n}
		if err := store.ValidateSlots([]store.SlotLimit{l}); err != nil {
			return err
		}
		*v = append(*v, l)
	}
	return nil
}

// SlotsInMode is the error of a limit of slots with a mode, as a [*store.ValidationError]: a slot is held or
// not, so there is nothing that a shadow could debit.
func SlotsInMode(limit, mode string) error {
	return &store.ValidationError{Field: "mode", Value: mode, Reason: "slots are always enforced: give " + limit + " without a mode"}
}

// String writes the limits in the form of the flag.
func (v *Slots) String() string { return FormatSlots(*v) }

// FormatSlots writes limits of slots in the form of a flag.
func FormatSlots(limits []store.SlotLimit) string {
	parts := make([]string, len(limits))
	for i, l := range limits {
		parts[i] = l.Name + ":" + strconv.FormatInt(l.Slots, 10)
	}
	return strings.Join(parts, ",")
}

// SlotNumbers are the numbers of slots by the names of their limits, as files and JSON have them; nil
// if there are none.
func SlotNumbers(limits []store.SlotLimit) map[string]int64 {
	if len(limits) == 0 {
		return nil
	}
	numbers := make(map[string]int64, len(limits))
	for _, l := range limits {
		numbers[l.Name] = l.Slots
	}
	return numbers
}

// Type is the value's name in help.
func (*Slots) Type() string { return "name:slots" }

// IsCumulative says that the flag takes several limits.
func (*Slots) IsCumulative() bool { return true }
