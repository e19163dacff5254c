package token

// Body is the lease without version, key and tag.
func (l *Lease) Body() []byte { return l.append(nil) }

// Parse reads a body of any version.
func Parse(body []byte) (l *Lease, err error) {
	for of := byte(versionPlain); of <= version; of++ {
		if l, err = parse(body, of); err == nil {
			return l, nil
		}
	}
	return nil, err
}
