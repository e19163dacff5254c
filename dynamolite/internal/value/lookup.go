package value

// Lookup finds the top-level attribute of that name in data that [Encode] has made, nil if there
// is none. It decodes nothing else.
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

// find moves to the value of a top-level attribute.
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
