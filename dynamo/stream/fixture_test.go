package stream_test

import (
	"time"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
)

const table = testbed.Table

// start is the instant at which tests begin.
var start = fixture.Start

func now() time.Time { return start }
