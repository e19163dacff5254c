package loadtest

import (
	"cmp"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Scenario is a kind of load.
type Scenario string

// The scenarios.
const (
	// Warm acquires from existing buckets that the limiter knows.
	Warm Scenario = "warm"
	// Cascade acquires from entities and their parents, one parent for 32.
	Cascade Scenario = "cascade"
	// Refused acquires from exhausted buckets.
	Refused Scenario = "refused"
	// Hot acquires from one bucket with many clients.
	Hot Scenario = "hot"
	// Spread acquires from many buckets with many clients.
	Spread Scenario = "spread"
	// LLM reserves requests and tokens of one of eight models, and settles to the tokens
	// used, which are fewer than the reserved ones.
	LLM Scenario = "llm"
	// Attack is the attack of GHSA-76rv-2r9v-c5m6: one entity sends 5,000 requests a second
	// against limits far above that, beside neighbours at 10 each. It runs against three
	// targets. The first is one bare item for each entity, on a table as in the advisory.
	// The second is the limiter, with the attacker in another process than the neighbours.
	// The third is the limiter with both in the same process.
	Attack Scenario = "attack"
)

// Scenarios returns all scenarios.
func Scenarios() []Scenario { return []Scenario{Warm, Cascade, Refused, Hot, Spread, LLM, Attack} }

// Options configure a run. API, Table and Scenario are required.
type Options struct {
	Scenario Scenario
	// API is the DynamoDB. The measurement includes the API's own retries; a request and
	// its retries count as one.
	API dynamo.API
	// Table is created if it does not exist. Attack also creates a table of the same name
	// with "-bare" appended, whose GSI2 projects whole items. Neither is deleted.
	Table string
	// Namespace is registered for the run; "" is bench- and eight random characters. The
	// run deletes its items and its name at the end.
	Namespace string
	// Keep leaves the namespace and its items in place.
	Keep bool

	// Duration is the length of the measurement; for Attack, the length of each phase.
	// Default 10 s.
	Duration time.Duration
	// WarmUp is how long the load runs before the measurement. Default 0.
	WarmUp time.Duration
	// Rate is the number of operations due each second. Default: a closed loop, in which a
	// client sends its next request when it has its answer. For Attack it is the attacker's
	// rate, with default 5,000.
	Rate int64
	// Clients is the number of goroutines, and so of concurrent operations; for Attack, the
	// attacker's. Default 64; 1 for Warm, Cascade and Refused, 256 for Attack.
	Clients int
	// Limiters is the number of limiters that the clients share. Each has its own store and
	// memory, as in that many processes. Default 1.
	Limiters int
	// Entities is the number of entities in the load; for Attack, the number of neighbours.
	// Default 256; 1 for Hot, 1,000 for Spread, 64 for LLM, 20 for Attack.
	Entities int
	// Seed determines the entities, models and amounts: the n-th operation is the same in
	// every run.
	Seed uint64
	// Limits replace the limits of the scenario. Except for Refused, those are far above
	// the demand. An operation takes one token of each limit; for LLM, some hundreds of a
	// limit called "tpm".
	Limits []limiter.Limit
	// Raw repeats the load, after the limiter, as bare conditional UpdateItems: one for
	// each operation, on an item in the form of the entity's bucket.
	Raw bool

	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Logger receives what limiters cannot return; nil discards it.
	Logger *slog.Logger
	// Progress, if not nil, is called from time to time with the elapsed part of the
	// planned time. Calls do not overlap.
	Progress func(done, planned time.Duration)
}

const (
	maxDuration   = 24 * time.Hour
	maxRate       = 1_000_000
	maxClients    = 100_000
	maxLimiters   = 1_000
	maxEntities   = 100_000
	maxTableName  = 255
	neighbourRate = 10 // operations per second of each neighbour
)

// defaults are the defaults of a scenario.
type defaults struct {
	rate              int64
	clients, entities int
}

func (s Scenario) defaults() defaults {
	switch s {
	case Hot:
		return defaults{clients: 64, entities: 1}
	case Spread:
		return defaults{clients: 64, entities: 1000}
	case LLM:
		return defaults{clients: 64, entities: 64}
	case Attack:
		return defaults{rate: 5000, clients: 256, entities: 20}
	default:
		return defaults{clients: 1, entities: 256}
	}
}

// Validate reports the first invalid option, as an [*store.ValidationError]. It does not check API.
func (o Options) Validate() error {
	_, err := o.withDefaults()
	return err
}

// withDefaults checks o and fills in the defaults.
func (o Options) withDefaults() (Options, error) {
	if !slices.Contains(Scenarios(), o.Scenario) {
		return o, invalid("scenario", string(o.Scenario), fmt.Sprintf("give one of %v", Scenarios()))
	}
	d := o.Scenario.defaults()
	o.Duration = cmp.Or(o.Duration, 10*time.Second)
	o.Rate = cmp.Or(o.Rate, d.rate)
	o.Clients = cmp.Or(o.Clients, d.clients)
	o.Limiters = cmp.Or(o.Limiters, 1)
	o.Entities = cmp.Or(o.Entities, d.entities)
	for _, n := range []struct {
		option           string
		value, min, most int64
	}{
		{"rate", o.Rate, 0, maxRate},
		{"clients", int64(o.Clients), 1, maxClients},
		{"limiters", int64(o.Limiters), 1, min(maxLimiters, int64(max(o.Clients, 1)))},
		{"entities", int64(o.Entities), 1, maxEntities},
	} {
		if n.value < n.min || n.value > n.most {
			return o, invalid(n.option, strconv.FormatInt(n.value, 10), fmt.Sprintf("give a whole number from %d to %d%s", n.min, n.most, why(n.option)))
		}
	}
	switch {
	case o.Duration < time.Millisecond || o.Duration > maxDuration:
		return o, invalid("duration", o.Duration.String(), "give from 1ms to 24h")
	case o.WarmUp < 0 || o.WarmUp > maxDuration:
		return o, invalid("warm-up", o.WarmUp.String(), "give from 0s to 24h")
	case o.Scenario == Hot && o.Entities != 1:
		return o, invalid("entities", strconv.Itoa(o.Entities), "this scenario is about one entity: choose spread for more")
	case o.Scenario == Attack && o.Raw:
		return o, invalid("raw", "true", "this scenario runs bare writes anyway")
	case o.Table == "":
		return o, invalid("table", "", "name the table")
	case o.Scenario == Attack && len(o.Table)+len(bareSuffix) > maxTableName:
		return o, invalid("table", o.Table, "give a shorter name: another table is made with "+bareSuffix+" appended")
	}
	if err := store.ValidateLimits(o.Limits); err != nil {
		return o, invalid("limit", fmt.Sprint(o.Limits), err.Error())
	}
	if o.Namespace == "" {
		o.Namespace = fmt.Sprintf("bench-%08x", rand.Uint32())
	}
	if err := store.CheckNamespace(o.Namespace); err != nil {
		return o, invalid("namespace", o.Namespace, err.Error())
	}
	if o.Now == nil {
		o.Now = time.Now //nolint:forbidigo // the default clock
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

// invalid names an invalid option, its value and the remedy.
func invalid(option, value, reason string) error {
	return &store.ValidationError{Field: option, Value: value, Reason: reason}
}

// why explains a bound that another option sets.
func why(option string) string {
	if option == "limiters" {
		return ", no more than there are clients"
	}
	return ""
}
