package scenario

import (
	"math"
	"time"
)

// Scaled returns the scenario with phases that last a total time. Stages, spikes and the
// speed at which users start and stop change in proportion, so the load has the same shape.
// Rates, numbers of users, times to think and hold, and the warm-up stay.
func (s *Scenario) Scaled(total time.Duration) *Scenario {
	scaled := *s
	factor := float64(total) / float64(s.Duration())
	scaled.Phases = append([]Phase{}, s.Phases...)
	var before, end time.Duration
	for i := range scaled.Phases {
		// Rounding the ends, and not the lengths, keeps the total.
		end += s.Phases[i].For
		at := stretched(end, factor)
		scaled.Phases[i].For = at - before
		before = at
	}
	scaled.Classes = append([]Class{}, s.Classes...)
	for i := range scaled.Classes {
		a := &scaled.Classes[i].Arrival
		a.Stages = append([]Stage{}, a.Stages...)
		for j := range a.Stages {
			stage := &a.Stages[j]
			if stage.For > 0 {
				stage.For = max(stretched(stage.For, factor), 1)
			}
			stage.Spawn = min(stage.Spawn/factor, maxRate)
		}
		scaled.Classes[i].From = append([]Share{}, scaled.Classes[i].From...)
		for j := range scaled.Classes[i].From {
			if s := &scaled.Classes[i].From[j].Spikes; s.For > 0 {
				*s = s.scaled(factor)
			}
		}
	}
	return &scaled
}

func (s Spikes) scaled(factor float64) Spikes {
	every := min(max(stretched(s.Every, factor), minDuration), maxDuration)
	return Spikes{For: min(max(stretched(s.For, factor), minDuration), every), Every: every}
}

func stretched(d time.Duration, factor float64) time.Duration {
	return time.Duration(math.Round(float64(d) * factor))
}
