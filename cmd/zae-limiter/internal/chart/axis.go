package chart

import (
	"math"
	"strconv"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
)

// An Axis is one axis of a chart.
type Axis struct {
	Label string // with the unit
	// Min and Max are values that the axis reaches at least, so that several charts may have
	// the same axis. A linear axis always reaches 0.
	Min, Max float64
	// Log spaces powers of ten evenly. Values of 0 or less are at the lower end.
	Log bool
	// Time means that the values are seconds; ticks are whole seconds, minutes or hours.
	Time bool
}

// scale places the values of an axis between two coordinates.
type scale struct {
	low, high float64 // values
	from, to  float64 // coordinates
	log       bool
	ticks     []float64
	format    func(float64) string
}

func (s *scale) place(v float64) float64 {
	low, high := s.low, s.high
	if s.log {
		low, high, v = math.Log(low), math.Log(high), math.Log(max(v, s.low))
	}
	return s.from + (v-low)/(high-low)*(s.to-s.from)
}

// over makes the scale of an axis over values.
func (a Axis) over(values []float64, from, to float64, most int) *scale {
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range append(values, a.Min, a.Max) {
		if math.IsNaN(v) || a.Log && v <= 0 {
			continue
		}
		low, high = min(low, v), max(high, v)
	}
	s := &scale{from: from, to: to, log: a.Log, format: Number}
	switch {
	case a.Log:
		s.logarithmic(low, high)
	case a.Time:
		s.low, s.high = 0, max(1, high)
		step := timeStep(s.high / float64(most))
		s.every(step, s.high)
		s.format = func(v float64) string { return instant(v, step) }
	default:
		s.linear(high, most)
	}
	return s
}

// least is the least value that an axis tells from 0.
const least = 1e-12

// linear ends at a round number.
func (s *scale) linear(high float64, most int) {
	if !(high > least) {
		high = 1
	}
	step := roundUp(high / float64(most))
	s.low, s.high = 0, math.Ceil(high/step-1e-9)*step
	s.every(step, s.high)
}

func (s *scale) every(step, high float64) {
	const rounding = 1e-9
	for i := 0; float64(i)*step <= high*(1+rounding); i++ {
		s.ticks = append(s.ticks, float64(i)*step)
	}
}

// logarithmic begins and ends at 1, 2 or 5 times a power of ten.
func (s *scale) logarithmic(low, high float64) {
	const decade, widest = 10, 1e15
	if low > high { // there is no value
		low, high = 1, decade
	}
	high = max(high, least)
	s.high = roundUp(high)
	s.low = 1 / roundUp(1/max(low, high/widest, least/decade))
	if s.low >= s.high {
		s.high = s.low * decade
	}
	const tight = 200 // below this ratio, each decade has three ticks
	each := []float64{1, 2, 5}
	if s.high/s.low > tight {
		each = each[:1]
	}
	const rounding = 1e-9
	for power := math.Floor(math.Log10(s.low)); power <= math.Log10(s.high)+rounding; power++ {
		for _, m := range each {
			if t := m * math.Pow(decade, power); t >= s.low*(1-rounding) && t <= s.high*(1+rounding) {
				s.ticks = append(s.ticks, t)
			}
		}
	}
}

// roundUp is the least number that is at least v and 1, 2 or 5 times a power of ten.
func roundUp(v float64) float64 {
	power := math.Floor(math.Log10(v))
	const rounding = 1e-9
	for _, m := range []float64{1, 2, 5} {
		if r := m * math.Pow(10, power); r >= v*(1-rounding) {
			return r
		}
	}
	return math.Pow(10, power+1)
}

// timeStep is the least round time of at least some seconds.
func timeStep(seconds float64) float64 {
	for _, step := range []time.Duration{
		time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
		time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
		time.Hour, 2 * time.Hour, 3 * time.Hour, 4 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
	} {
		if step.Seconds() >= seconds {
			return step.Seconds()
		}
	}
	day := (24 * time.Hour).Seconds()
	return day * roundUp(seconds/day)
}

// instant writes seconds in the largest unit that divides the step between ticks.
func instant(v, step float64) string {
	minute, hour := time.Minute.Seconds(), time.Hour.Seconds()
	switch {
	case math.Mod(step, hour) == 0:
		return Number(v/hour) + " h"
	case math.Mod(step, minute) == 0:
		return Number(v/minute) + " min"
	}
	return Number(v) + " s"
}

// Number writes a number for people: three significant digits, and all digits of the whole
// part; millions as M, and billions as G.
func Number(v float64) string {
	const thousand, million, billion, digits = 999.5, 1e6, 1e9, 3
	switch a := math.Abs(v); {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "–"
	case a >= billion*billion:
		return significant(v, digits)
	case a >= billion:
		return Number(v/billion) + " G"
	case a >= million:
		return significant(v/million, digits) + " M"
	case a >= thousand:
		return limitarg.Grouped(int64(math.Round(v)))
	}
	return significant(v, digits)
}

// significant writes a number with some digits, without an exponent where that is short.
func significant(v float64, digits int) string {
	text := strconv.FormatFloat(v, 'g', digits, 64)
	rounded, err := strconv.ParseFloat(text, 64)
	const tiny, huge = 1e-6, 1e18
	if err != nil || v != 0 && math.Abs(v) < tiny || math.Abs(v) >= huge {
		return text
	}
	return strconv.FormatFloat(rounded, 'f', -1, 64)
}
