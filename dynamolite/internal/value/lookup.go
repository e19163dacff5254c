package value

// Lookup finds the top-level attribute of that name in data that [Encode] has made, nil if there
// is none. It decodes nothing else.
//
// It is for the keys of an index, which every write of an item needs. [LookupNumber] is for the
// time of expiry, which a sweep needs of every item. Decoding the other attributes would be most of
// the work.
func Lookup(data, name string) AV {
	d := decoder{rest: data}
	if !d.find(name) {
		return nil
	}
	v := d.value(0, 1)
	if d.bad {
		return nil
	}
	return v
}

// find moves to the value of a top-level attribute. It skips what comes before. The order of
// attributes is arbitrary, so it cannot stop early.
func (d *decoder) find(name string) bool {
	for range d.number() {
		if d.text() == name {
			return d.rest != ""
		}
		d.skip(0)
	}
	return false
}

// LookupNumber finds the top-level attribute of that name in data that [Encode] has made, if it
// exists and is a number. It decodes nothing and allocates nothing: the digits are part of data.
func LookupNumber(data, name string) (digits string, ok bool) {
	d := decoder{rest: data}
	if !d.find(name) || d.rest[0] != tagN {
		return "", false
	}
	d.rest = d.rest[1:]
	digits = d.text()
	return digits, !d.bad
}
