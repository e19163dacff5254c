package audit_test

import (
	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

const table = testbed.Table

// start is the instant at which tests begin.
var start = fixture.Start

// level is a level of configuration. rpm10 and tpm20 are limits for it.
var (
	level = store.ConfigKey{Entity: "user", Resource: "gpt-4"}
	rpm10 = []store.Limit{limiter.PerMinute("rpm", 10)}
	tpm20 = []store.Limit{limiter.PerMinute("tpm", 20)}
)
