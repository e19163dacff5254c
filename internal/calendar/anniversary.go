package calendar

// An anniversary comes every so many months, at the date and time at which it first came on the wall of a zone. Each is
// counted from the anchor, so that the 31st becomes the 30th in a shorter month and the 31st again afterwards.
type anniversary struct {
	months int
	anchor int64 // the instant
	civil  int64 // what the wall read
}

func newAnniversary(z *Zone, anchor int64, months int) *anniversary {
	return &anniversary{months: months, anchor: anchor, civil: z.civil(anchor)}
}

// nth is the n-th anniversary on the civil line. Number 0 is the anchor.
func (a *anniversary) nth(n int64) int64 {
	d := dateOf(floorDiv(a.civil, day))
	month := int64(d.year*12+d.month-1) + n*int64(a.months)
	year := floorDiv(month, 12)
	to := date{int(year), int(month-year*12) + 1, d.day}
	to.day = min(to.day, daysIn(to.year, to.month))
	return to.number()*day + a.civil - floorDiv(a.civil, day)*day
}

// upTo is the number of the last anniversary at or before a civil time.
func (a *anniversary) upTo(c int64) int64 {
	from, to := dateOf(floorDiv(a.civil, day)), dateOf(floorDiv(c, day))
	n := floorDiv(int64((to.year-from.year)*12+to.month-from.month), int64(a.months))
	if a.nth(n) > c {
		n--
	}
	return n
}

func (a *anniversary) edgeUpTo(c int64) int64  { return a.nth(a.upTo(c)) }
func (a *anniversary) edgeAfter(c int64) int64 { return a.nth(a.upTo(c) + 1) }
