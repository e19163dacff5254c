package locust

import (
	"context"
	"time"
)

// A Load is what users do. It must be safe for concurrent use.
type Load interface {
	// Classes are the names of the classes of users, as they are called in the master's
	// locustfile.
	Classes() []string
	// Do carries out an operation of a user, and reports each of its requests as soon as it
	// ends. It returns how long the user waits before its next operation. Do returns soon
	// after ctx has ended: the user is then to stop at once.
	Do(ctx context.Context, op Op, report func(Event)) (think time.Duration)
}

// An Op names an operation.
type Op struct {
	Class int // index in the classes of the load
	// N is the number of the operation in its class. Workers of one master have different
	// ones: worker i counts from i·2^40.
	N int64
	// At is the time since the test began on this worker.
	At time.Duration
}

// opsOfWorker is the distance between the first operations of two workers.
const opsOfWorker = 1 << 40

// An Event is a request, as Locust counts it.
type Event struct {
	// Method and Name are what Locust calls the type and the name of a request. It has a
	// line of statistics for each pair.
	Method, Name string
	Took         time.Duration
	Size         int64 // bytes of the answer, of which Locust shows the mean
	// Err is why the request failed; nil if it did not. Locust counts failures by text, so
	// texts that differ in every request make long reports.
	Err error
}
