package value

// LookupNumber finds the top-level attribute of that name in what [Encode] has made, if it is
// there and a number. It decodes nothing and allocates nothing: the digits are part of data.
func LookupNumber(data, name string) (digits string, ok bool) {
	d := decoder{rest: data}
	for range d.number() {
		if d.text() != name {
			d.skip(0)
			continue
		}
		if d.rest == "" || d.rest[0] != tagN {
			break
		}
		d.rest = d.rest[1:]
		return d.text(), !d.bad
	}
	return "", false
}
