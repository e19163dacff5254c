package app

import (
	"errors"
	"strconv"
	"strings"
)

// A Share is the value of a flag that takes a share from 0 to less than 1, as a number or in
// percent.
type Share float64

// String writes the share in percent.
func (s *Share) String() string {
	if *s == 0 {
		return "0"
	}
	const whole = 100
	return strconv.FormatFloat(float64(*s)*whole, 'g', -1, 64) + "%"
}

// Set reads a share.
func (s *Share) Set(text string) error {
	number, percent := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(number, 64)
	if percent {
		const whole = 100
		v /= whole
	}
	if err != nil || !(v >= 0 && v < 1) {
		return errors.New("give a share from 0 to less than 1, or percent: 0.001 or 0.1%")
	}
	*s = Share(v)
	return nil
}

// Type is the value's name in help.
func (*Share) Type() string { return "share" }
