package store

// A Policy is a yes or no that a level of configuration may leave to the next level.
type Policy uint8

// The values of a [Policy], of which Bypass is one of a [Switch] only, and how many levels have a switch.
const (
	Inherit Policy = iota
	Yes
	No
	Bypass

	// SwitchLevels is how many of the levels of configuration may have a switch: all but the
	// system's.
	SwitchLevels = 3
)

// A Switch is an operator's decision at a level of configuration whether tokens may be
// acquired. [Yes] disables. [Bypass] admits everything, and only counts it (ADR 052). [No]
// enables, whatever the levels after this one say. The zero Switch leaves it to the next level.
type Switch struct {
	Policy Policy
	// Until is when the switch ends, in milliseconds since the Unix epoch; 0 is never.
	// From that instant on the level has no switch, without a write.
	Until int64
}

// At is what the switch says at an instant.
func (s Switch) At(now int64) Policy {
	if s.Until != 0 && s.Until <= now {
		return Inherit
	}
	return s.Policy
}

// Switches are those of the levels for a bucket, in the order of [ConfigKey].
type Switches [SwitchLevels]Switch

// At is the state of a bucket at an instant, by the first level with a switch.
func (s *Switches) At(now int64) Disabling {
	d := Disabling{Level: s.first(now)}
	if d.Level == SwitchLevels || s[d.Level].Policy == No {
		return Disabling{}
	}
	is := s[d.Level].Policy
	d.Disabled, d.Bypassed = is == Yes, is == Bypass
	for level := d.Level; level < SwitchLevels && s[level].Policy == is; level = s.first(d.Until) {
		if d.Until = s[level].Until; d.Until == 0 {
			break
		}
	}
	return d
}

// first is the first level that has a switch at an instant, SwitchLevels if none has.
func (s *Switches) first(at int64) int {
	for i := range s {
		if s[i].At(at) != Inherit {
			return i
		}
	}
	return SwitchLevels
}

// A Disabling says whether a bucket is disabled, or bypassed: it is one of them at most.
type Disabling struct {
	Disabled, Bypassed bool
	// Until is when that ends by itself, in milliseconds since the Unix epoch; 0 if no
	// end is known.
	Until int64
	// Level is the index of the level that says so.
	Level int
}
