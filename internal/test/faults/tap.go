package faults

import "github.com/zeroae/zae-limiter-go/dynamo"

// A Tap is an API that records every request and then lets a test disturb it: the hook
// that the test sets applies to all requests from then on.
type Tap struct {
	*API
	Recorder
	Slot

	// Table is the API behind the tap. It does not see the requests that a test sends there.
	Table dynamo.API
}

// NewTap returns a tap of api that disturbs nothing yet.
func NewTap(api dynamo.API) *Tap {
	t := &Tap{Table: api}
	t.API = Wrap(api, t.Record, t.Apply)
	return t
}
