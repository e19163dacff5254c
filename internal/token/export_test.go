package token

// Body is the lease without version, key and tag.
func (l *Lease) Body() []byte { return l.append(nil) }

// Parse reads a body of either version.
func Parse(body []byte) (*Lease, error) {
	l, err := parse(body, version-1)
	if err != nil {
		return parse(body, version)
	}
	return l, nil
}
