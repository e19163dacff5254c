package calendar

// Edges returns how many edges there are after from and up to to, but at most so many, and the
// last of those; from if there is none. It does not disturb what [Renewal.Period] remembers. A
// session has no edges but the end of the period that a use at from opens.
func (r *Renewal) Edges(from, to int64, most int) (n int, last int64) {
	last = from
	for n < most {
		next := r.after(last)
		if next > to || next <= last {
			break
		}
		n, last = n+1, next
	}
	return n, last
}

// after is [Renewal.Next] of an instant that nobody will ask for again.
func (r *Renewal) after(t int64) int64 {
	if p := r.last.Load(); r.session != 0 || p != nil && p.Start <= t && t < p.End {
		return r.Next(t)
	}
	t = within(t)
	end := r.edgeAfter(r.entries[0], t)
	for _, e := range r.entries[1:] {
		end = min(end, r.edgeAfter(e, t))
	}
	return end
}
