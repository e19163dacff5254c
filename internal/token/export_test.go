package token

// Body is the lease without version, key and tag.
func (l *Lease) Body() []byte { return l.append(nil) }

// Parse reads a body.
var Parse = parse
